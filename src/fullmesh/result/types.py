"""What stands in result.json, as types: written by ``build`` and the diagnosis, read by every report.

The JSON schema is made from them (``python -m fullmesh.result.schema``). Keys that came later than the first results
are ``NotRequired``: results of before are still read. docs/result.md says what each key means.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from fullmesh.observed.ladder import PeerKind, Reached, Verdict

RungId = Literal["L0", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8"]
Status = Literal["passed", "failed", "skipped", "not_run"]
Severity = Literal["error", "warning"]
Outcome = Literal["ok", "failed"]

# Objects whose inner form no reader may rely on: each version of Fullmesh observes and plans something else.
Inner = dict[str, Any]
PLAN_KEYS = ("schema", "world_size", "nodes", "data_ports", "master", "rendezvous")
# A plan has the keys of PLAN_KEYS at least; types cannot say that of an open object, so the reader looks itself.
KeptPlan = Annotated[Inner, Meta(extra_json_schema={"required": sorted(PLAN_KEYS)})]

Some = Annotated[str, Meta(min_length=1)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
NotNegative = Annotated[float, Meta(ge=0)]
WholeNumber = Annotated[int, Meta(ge=0)]
OrderedPair = Annotated[list[str], Meta(min_length=2, max_length=2)]


class MissedRow(TypedDict):
    """Something that could not be looked at."""

    node: str
    what: Some
    why: Some


class NoteRow(TypedDict):
    """What a role wants said about a node."""

    node: str
    code: str
    text: str


class NodeSummary(TypedDict):
    """A node: its address, its versions, and what was observed there."""

    address: str
    interface: str
    os: str
    kernel: str
    python: str
    torch: str
    torch_nccl: str
    nccl: str
    facts: Inner


class CheckRow(TypedDict):
    """How far the ladder was run."""

    id: RungId
    name: str
    status: Status
    reason: str
    seconds: NotNegative
    details: Inner


class RankRow(TypedDict):
    """A rank in the details of L3: the step and state it ended with, its listeners, its last words."""

    rank: int
    node: str
    step: str
    state: str
    text: str
    listeners: list[str]
    log: str


# The reader looks at this itself, too: no type says it.
UNPASSED_HAS_REASON = {
    "if": {"properties": {"status": {"enum": ["failed", "not_run", "skipped"]}}},
    "then": {"properties": {"reason": {"minLength": 1}}},
}
Rungs = Annotated[
    list[Annotated[CheckRow, Meta(extra_json_schema=UNPASSED_HAS_REASON)]],
    Meta(min_length=7, max_length=9),
]


class PortRow(TypedDict):
    """A port of a link that is not open."""

    port: Annotated[int, Meta(ge=1, le=65535)]
    kind: PeerKind
    verdict: Verdict
    errno: NotRequired[str]
    reached: NotRequired[Reached]


# ``from`` is a word of Python's, so no class can say it.
Ends = TypedDict("Ends", {"from": str, "to": str})


class LinkRow(Ends):
    """An ordered pair of nodes."""

    verdict: Verdict
    ms: float | None
    rtt_ms: float | None
    ports: list[PortRow]
    loss: NotRequired[
        Annotated[NotNegative, Meta(description="share of segments sent again, there")]
    ]
    mbit_s: NotRequired[Annotated[NotNegative, Meta(description="one sample, on request")]]


class MeshNode(TypedDict):
    """A node in the mesh: the peers that it tried, those that are open, the longest round trip in microseconds."""

    peers: WholeNumber
    open: WholeNumber
    rtt_us: WholeNumber


class MeshAlways(TypedDict):
    """What of the mesh was tried, where ``links`` has only what deviates or only new links."""

    pairs: Annotated[WholeNumber, Meta(description="all ordered pairs")]
    wanted: Annotated[WholeNumber, Meta(description="that the run set out to try")]
    tried: WholeNumber
    open: WholeNumber
    listeners: Annotated[Literal["all", "one"], Meta(description="that were tried of each pair")]
    new: Annotated[list[str], Meta(description="nodes whose links alone were tried in full")]


class MeshSummary(MeshAlways, total=False):
    """Of many nodes; blocks follow the plan's order, as many nodes in each as in any other, but for one."""

    by_node: dict[str, MeshNode]
    rtt_us: Annotated[
        list[list[WholeNumber]],
        Meta(description="longest round trip from block to block in microseconds, 0: none"),
    ]


class Collectives(TypedDict, total=False):
    """Times and rates of the Gloo job; empty when it did not run."""

    world_size: Annotated[int, Meta(ge=1)]
    seconds: dict[str, NotNegative]
    unsupported: list[str]
    latency_us: NotNegative
    bandwidth_mib: WholeNumber
    bus_gbit_s: NotNegative


class BisectGroup(TypedDict):
    """Nodes that ran collectives together."""

    nodes: list[str]
    state: Annotated[
        Literal["measured", "wrong", "failed", "unknown"],
        Meta(description="unknown: the time ran out on a busy machine"),
    ]
    bus_gbit_s: Annotated[NotNegative, Meta(description="0 unless measured")]
    text: Annotated[str, Meta(description="what the rank that says most said; empty when measured")]


class BisectRun(TypedDict):
    """Groups that ran at the same time."""

    groups: list[BisectGroup]


class FindingAlways(TypedDict):
    """What is wrong."""

    code: Annotated[str, Meta(pattern="^[A-Z]{2}-[0-9]{3}$")]
    severity: Severity
    rung: RungId
    cause: Some
    node: str
    peer: str
    port: str
    direction: str
    seen: str
    expected: str
    fix: Some


class FindingBase(FindingAlways, total=False):
    """What came later."""

    page: Annotated[str, Meta(description="path of the code's page on the documentation's site")]
    pairs: Annotated[
        list[OrderedPair], Meta(description="the ordered pairs of nodes that it is about")
    ]
    kinds: list[str]


class FoldedRow(FindingBase, total=False):
    """A finding that another one explains; schema 1 never said what ``follows`` would be in it."""

    follows: Any


class FindingRow(FindingBase, total=False):
    """What is wrong, with what follows from it."""

    follows: list[FoldedRow]


class Result(TypedDict):
    """Result of a Fullmesh verification or diagnosis, version 1."""

    schema: Literal[1]
    fullmesh: Annotated[str, Meta(description="version of Fullmesh")]
    kind: NotRequired[
        Annotated[
            Literal["verify", "diagnose"],
            Meta(description="absent in results of before there was a diagnosis: verify"),
        ]
    ]
    run: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]+$")]
    started: Moment
    finished: Moment
    seconds: NotNegative
    verdict: Outcome
    exit_code: Literal[0, 1]
    failed_rungs: list[RungId]
    check_mode: bool
    lab: Annotated[str, Meta(description="what the nodes are, when they are not real machines")]
    notes: list[NoteRow]
    firewall_mode: str
    plan: KeptPlan
    nodes: dict[str, NodeSummary]
    rungs: Rungs
    links: list[LinkRow]
    mesh: NotRequired[MeshSummary]
    collectives: Collectives
    bisect: NotRequired[
        Annotated[
            list[BisectRun], Meta(description="the runs of --bisect, the ladder's own job first")
        ]
    ]
    findings: Annotated[
        list[FindingRow],
        Meta(description="root causes, errors first; what follows from one is folded under it"),
    ]
    not_looked_at: NotRequired[
        Annotated[
            list[MissedRow],
            Meta(description="what could not be looked at, for lack of rights, tools or time"),
        ]
    ]
