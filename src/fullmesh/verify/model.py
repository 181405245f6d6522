"""The data of the verification's rules: observations as input, checks and findings as output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, cast

from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import LadderFacts, LadderLinksResult, LadderNodeResult, TracedPacket
from fullmesh.observed.ranks import CollectedRanks, StartedRanks
from fullmesh.observed.survey import NodeSurvey
from fullmesh.result.findings import join_names
from fullmesh.result.survey import get_survey
from fullmesh.result.types import (
    BisectRun,
    CheckId,
    CheckRow,
    Status,
)
from fullmesh.verify.schedule import ProbeScope

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
NOT_RUN: Final = "not_run"
CHECKS: dict[CheckId, str] = {
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


def describe_limited_nodes(nodes: Sequence[str]) -> str:
    """Describe that nodes are left out of the run."""
    return f"{join_names(nodes)} left out of this run (--limit)"


@dataclass(frozen=True)
class CheckOutcome:
    """The outcome of one check."""

    id: CheckId
    status: Status
    reason: str = ""
    seconds: float = 0.0
    details: Mapping[str, object] = field(default_factory=dict)

    def as_dict(self) -> CheckRow:
        """Return plain data for the result."""
        return {
            "id": self.id,
            "name": CHECKS[self.id],
            "status": self.status,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "details": dict(self.details),
        }


class LinkProbe(LadderLinksResult, total=False):
    """A node's results about its peers. ``failed``: why it could not test them."""

    failed: str


class NodeAnswers(TypedDict, total=False):
    """The stored answers of a node: of ladder_node, ladder_links and, twice, ladder_gloo."""

    node: LadderNodeResult
    links: LinkProbe
    started: StartedRanks
    gloo: CollectedRanks
    traced: list[TracedPacket]


@dataclass(frozen=True)
class ClusterObservations:
    """All observations.

    Attributes:
        plan: the cluster plan.
        nodes: the answers of each node.
        outside: the connections of the controller (ladder_links), empty if they were not tested.
        checks: the selected checks.
        mode: firewall mode of the nodes.
        check_mode: nothing was configured, so nothing can be required.
        clock_limit: seconds that two clocks may differ.
        deadline: seconds for the test job if every rank has its own CPU.
        init_timeout: seconds for one attempt of Gloo, likewise.
        inventory: the user's name of the inventory, for the fixes.
        planned: the inventory has a plan that site.yml accepts.
        odd: node -> the parts of its answers that do not match their types.
        scope: the tested part of the mesh. None: every listener of every pair.
        bisect: the runs of --bisect.
    """

    plan: ClusterPlan
    nodes: Mapping[str, NodeAnswers]
    outside: Mapping[str, Any] = field(default_factory=dict)
    checks: Sequence[str] = tuple(CHECKS)
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
        """Return the facts of a node from ladder_node, or {}."""
        return cast("LadderFacts", self.nodes.get(name, {}).get("node", {}).get("facts", {}))

    def left_out(self) -> list[str]:
        """List the nodes outside this run (--limit). A failed survey ends the run instead."""
        return [name for name in self.plan["nodes"] if "node" not in self.nodes.get(name, {})]

    def survey(self, name: str) -> NodeSurvey:
        """Return the survey of a node, or {}."""
        return get_survey(self.nodes.get(name))

    def address(self, name: str) -> str:
        """Return the cluster address of a node."""
        return str(self.plan["nodes"][name]["address"])

    def apply(self, phase: str = "") -> str:
        """Return the command that configures the nodes again."""
        if not self.planned:
            return "give Fullmesh a plan (inventory/prod), which then configures it"
        tags = f" --tags {phase}" if phase else ""
        return f"ansible-playbook site.yml -i {self.inventory}{tags} -e fullmesh_converge=always"
