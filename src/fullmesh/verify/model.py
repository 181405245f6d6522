"""What the rules of the ladder work with: observations in, rungs and findings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, cast

from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import LadderFacts, LadderLinksResult, LadderNodeResult, TracedPacket
from fullmesh.observed.ranks import CollectedRanks, StartedRanks
from fullmesh.observed.survey import NodeSurvey
from fullmesh.result.survey import get_survey
from fullmesh.result.types import (
    BisectRun,
    CheckRow,
    RungId,
    Status,
)
from fullmesh.verify.schedule import ProbeScope

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
NOT_RUN: Final = "not_run"
RUNGS: dict[RungId, str] = {
    "L0": "nodes agree with the plan",
    "L1": "names, clocks, versions, limits",
    "L2": "every link, both directions",
    "L3": "store reachable from every rank",
    "L4": "Gloo collectives, values checked",
    "L5": "bandwidth, latency, listeners in range",
    "L6": "NCCL bootstrap without GPUs",
    "L7": "NCCL over all GPUs, values and bandwidth",
    "L8": "training: DDP, AMP, subgroups, FSDP",
}


@dataclass(frozen=True)
class CheckOutcome:
    """How far the ladder was run."""

    id: RungId
    status: Status
    reason: str = ""
    seconds: float = 0.0
    details: Mapping[str, object] = field(default_factory=dict)

    def as_dict(self) -> CheckRow:
        """Plain data for the result."""
        return {
            "id": self.id,
            "name": RUNGS[self.id],
            "status": self.status,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "details": dict(self.details),
        }


class LinkProbe(LadderLinksResult, total=False):
    """What a node said of its peers; ``failed``: why it could not try them."""

    failed: str


class NodeAnswers(TypedDict, total=False):
    """What was kept of a node: the answers of ladder_node, ladder_links and, twice, ladder_gloo."""

    node: LadderNodeResult
    links: LinkProbe
    started: StartedRanks
    gloo: CollectedRanks
    traced: list[TracedPacket]


@dataclass(frozen=True)
class ClusterObservations:
    """All that was observed.

    Attributes:
        plan: the cluster plan.
        nodes: what each node said.
        outside: what the controller could reach (ladder_links), empty when it was not tried.
        rungs: the rungs asked for.
        mode: firewall mode of the nodes.
        check_mode: nothing was configured, so nothing can be demanded.
        clock_limit: seconds that two clocks may differ.
        deadline: seconds for the test job where every rank has a processor for itself.
        init_timeout: seconds for one try of Gloo's, likewise.
        inventory: how the user names the inventory, for the fixing commands.
        planned: the inventory has a plan that site.yml takes.
        odd: node -> what of its answers has another form than their types say.
        scope: what of the mesh was tried; None: every listener of every pair.
        bisect: the runs of --bisect.
    """

    plan: ClusterPlan
    nodes: Mapping[str, NodeAnswers]
    outside: Mapping[str, Any] = field(default_factory=dict)
    rungs: Sequence[str] = tuple(RUNGS)
    mode: str = "peers_range"
    check_mode: bool = False
    clock_limit: float = 5.0
    deadline: float = 120.0
    init_timeout: float = 10.0
    inventory: str = "INVENTORY"
    planned: bool = True
    odd: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scope: ProbeScope | None = None
    bisect: Sequence[BisectRun] = ()

    def facts(self, name: str) -> LadderFacts:
        """What ladder_node saw on a node; {} where it did not answer."""
        return cast("LadderFacts", self.nodes.get(name, {}).get("node", {}).get("facts", {}))

    def left_out(self) -> list[str]:
        """The nodes that the run does not look at (--limit); one that could not be looked at ends the run."""
        return [name for name in self.plan["nodes"] if "node" not in self.nodes.get(name, {})]

    def survey(self, name: str) -> NodeSurvey:
        """What the survey of a node found; {} where there was none."""
        return get_survey(self.nodes.get(name))

    def address(self, name: str) -> str:
        """The cluster address of a node."""
        return str(self.plan["nodes"][name]["address"])

    def apply(self, phase: str = "") -> str:
        """The command that brings the nodes back to the plan."""
        if not self.planned:
            return "give Fullmesh a plan (inventory/prod), which then configures it"
        tags = f" --tags {phase}" if phase else ""
        return f"ansible-playbook site.yml -i {self.inventory}{tags} -e fullmesh_converge=always"
