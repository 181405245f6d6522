"""The types of result.json. ``build`` and the diagnosis write it, every report reads it.

The JSON schema is generated from them (``python -m fullmesh.result.schema``). Keys that were added later are
``NotRequired``, so that older results can still be read. docs/result.md explains each key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from fullmesh.observed.ladder import PeerKind, Reached, Verdict

CheckId = Literal["L0", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8"]
Status = Literal["passed", "failed", "skipped", "not_run"]
Severity = Literal["error", "warning"]
Outcome = Literal["ok", "failed"]

# Readers must not rely on the inner form of these objects, because it changes between versions of Fullmesh.
Inner = dict[str, Any]
PLAN_KEYS = ("schema", "world_size", "nodes", "data_ports", "master", "rendezvous")
# A plan has at least the keys of PLAN_KEYS. Types cannot express that for an open object, so the reader checks it.
KeptPlan = Annotated[Inner, Meta(extra_json_schema={"required": sorted(PLAN_KEYS)})]

Some = Annotated[str, Meta(min_length=1)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
NotNegative = Annotated[float, Meta(ge=0)]
WholeNumber = Annotated[int, Meta(ge=0)]
OrderedPair = Annotated[list[str], Meta(min_length=2, max_length=2)]


class MissedRow(TypedDict):
    """Something that could not be checked."""

    node: str
    what: Some
    why: Some


class NoteRow(TypedDict):
    """A role's note about a node."""

    node: str
    code: str
    text: str


class NodeSummary(TypedDict):
    """A node: its address, its versions, and its survey."""

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
    """The result of one check."""

    id: CheckId
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


# The reader checks this too, because types cannot express it.
UNPASSED_HAS_REASON = {
    "if": {"properties": {"status": {"enum": ["failed", "not_run", "skipped"]}}},
    "then": {"properties": {"reason": {"minLength": 1}}},
}
CheckRows = Annotated[
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


# ``from`` is a keyword of Python, so a class cannot have this field.
Ends = TypedDict("Ends", {"from": str, "to": str})


class RdmaRow(TypedDict):
    """A pair of RDMA devices that was tried. ``step``: the step that failed, empty if all messages arrived."""

    device: str
    peer_device: str
    step: str
    error: str
    rail: NotRequired[
        Annotated[str, Meta(description="the rail of the plan, or the network of the address")]
    ]
    mbit_s: NotRequired[Annotated[NotNegative, Meta(description="one sample, on request")]]
    code: NotRequired[
        Annotated[str, Meta(description="of the finding, if the pair was tried and failed")]
    ]


class LinkRow(Ends):
    """An ordered pair of nodes."""

    verdict: Verdict
    ms: float | None
    rtt_ms: float | None
    ports: list[PortRow]
    loss: NotRequired[
        Annotated[NotNegative, Meta(description="share of segments that were retransmitted")]
    ]
    mbit_s: NotRequired[Annotated[NotNegative, Meta(description="one sample, on request")]]
    rdma: NotRequired[
        Annotated[list[RdmaRow], Meta(description="the pairs of RDMA devices that were tried")]
    ]


class MeshNode(TypedDict):
    """A node in the mesh: the peers that it tried, those that are open, the longest round trip in microseconds."""

    peers: WholeNumber
    open: WholeNumber
    rtt_us: WholeNumber


class MeshAlways(TypedDict):
    """The tested part of the mesh, if ``links`` only lists deviating or new links."""

    pairs: Annotated[WholeNumber, Meta(description="all ordered pairs")]
    wanted: Annotated[WholeNumber, Meta(description="pairs that the run should test")]
    tried: WholeNumber
    open: WholeNumber
    listeners: Annotated[Literal["all", "one"], Meta(description="tested for each pair")]
    new: Annotated[list[str], Meta(description="nodes whose links were the only ones fully tested")]


class MeshSummary(MeshAlways, total=False):
    """The mesh of many nodes. Blocks follow the plan's order, and their sizes differ by one node at most."""

    by_node: dict[str, MeshNode]
    rtt_us: Annotated[
        list[list[WholeNumber]],
        Meta(description="longest round trip from block to block in microseconds, 0: none"),
    ]


class Collectives(TypedDict, total=False):
    """Times and rates of the Gloo job, empty if it did not run."""

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
        Meta(description="unknown: it timed out on a busy machine"),
    ]
    bus_gbit_s: Annotated[NotNegative, Meta(description="0 unless measured")]
    text: Annotated[str, Meta(description="the most telling message of a rank, empty if measured")]


class BisectRun(TypedDict):
    """Groups that ran at the same time."""

    groups: list[BisectGroup]


class FindingAlways(TypedDict):
    """A problem."""

    code: Annotated[str, Meta(pattern="^[A-Z]{2}-[0-9]{3}$")]
    severity: Severity
    rung: CheckId
    cause: Some
    node: str
    peer: str
    port: str
    direction: str
    seen: str
    expected: str
    fix: Some


class FindingBase(FindingAlways, total=False):
    """Keys that were added later."""

    check: Annotated[str, Meta(description="a step that only gathers information, or empty")]
    page: Annotated[str, Meta(description="path of the code's page on the documentation site")]
    pairs: Annotated[
        list[OrderedPair], Meta(description="the ordered pairs of nodes that it affects")
    ]
    kinds: list[str]


class FoldedRow(FindingBase, total=False):
    """A finding that another one explains. Schema 1 does not define its ``follows``."""

    follows: Any


class FindingRow(FindingBase, total=False):
    """A problem, with the findings that follow from it."""

    follows: list[FoldedRow]


class Result(TypedDict):
    """Result of a Fullmesh verification or diagnosis, version 1."""

    schema: Literal[1]
    fullmesh: Annotated[str, Meta(description="version of Fullmesh")]
    kind: NotRequired[
        Annotated[
            Literal["verify", "diagnose"],
            Meta(description="if absent (older results): verify"),
        ]
    ]
    run: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]+$")]
    started: Moment
    finished: Moment
    seconds: NotNegative
    verdict: Outcome
    exit_code: Literal[0, 1]
    failed_rungs: list[CheckId]
    check_mode: bool
    lab: Annotated[str, Meta(description="the kind of nodes, if they are not real machines")]
    notes: list[NoteRow]
    firewall_mode: str
    plan: KeptPlan
    nodes: dict[str, NodeSummary]
    rungs: CheckRows
    links: list[LinkRow]
    mesh: NotRequired[MeshSummary]
    collectives: Collectives
    bisect: NotRequired[
        Annotated[
            list[BisectRun], Meta(description="the runs of --bisect, check L3's own job first")
        ]
    ]
    findings: Annotated[
        list[FindingRow],
        Meta(description="root causes, errors first, each with the findings that follow from it"),
    ]
    not_looked_at: NotRequired[
        Annotated[
            list[MissedRow],
            Meta(description="parts that could not be checked, for lack of rights, tools or time"),
        ]
    ]
