"""The evidence for causes in a cluster: the plan, and all observations of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fullmesh.foreign_text import LARGEST_NUMBER, parse_decimal
from fullmesh.model.types import ClusterPlan
from fullmesh.netfilter.ruleset import Ruleset, build_ruleset, parse_iptables_save
from fullmesh.observed.ladder import LinkResult
from fullmesh.observed.ports import PortRange, parse_port_range
from fullmesh.observed.survey import Nic, NodeSurvey
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations

LEGACY = " (iptables-legacy)"  # behind the name of a table of the old iptables
LOOPBACKS = ("127.", "::1")


@dataclass(frozen=True)
class ClusterEvidence:
    """All observations of a cluster, after validation.

    Attributes:
        seen: the observations, with a plan that has only the nodes that could be queried.
        plan: the whole plan.
        assumed: Fullmesh did not configure these nodes, so no data port range is required.
        silent: node -> why it could not be queried: ``unreachable`` or ``failed``, and the message.
        given: nodes of the group, in the plan's order.
        cloud: AWS's data on the nodes' security groups (``raw``, ``settings``, and ``why`` if there is none).
        rulesets: packet filter rules that were read so far, by node.
    """

    seen: ClusterObservations
    plan: ClusterPlan
    assumed: bool = False
    silent: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    cloud: Mapping[str, Any] = field(default_factory=dict)
    rulesets: dict[str, Ruleset] = field(default_factory=dict, repr=False, compare=False)

    @property
    def nodes(self) -> list[str]:
        """The nodes that could be queried."""
        return list(self.seen.plan["nodes"])

    @property
    def master(self) -> str:
        """The node that hosts the store, whether it could be queried or not."""
        return str(self.plan["master"]["node"])

    def address(self, name: str) -> str:
        """Return the cluster address of a node."""
        return str(self.plan["nodes"][name]["address"])

    def peers(self, name: str) -> list[str]:
        """Return the other nodes."""
        return [other for other in self.plan["nodes"] if other != name]

    def survey(self, name: str) -> NodeSurvey:
        """Return the survey of a node, or {} if there is none."""
        return self.seen.survey(name)

    def ruleset(self, name: str) -> Ruleset:
        """Return a node's packet filter rules, without chains if they are not known."""
        if name not in self.rulesets:
            nft = self.survey(name).get("nft", {})
            parts = (nft.get("chains", []), nft.get("rules", []), nft.get("sets", []))
            self.rulesets[name] = build_ruleset(*parts)
            for family, lines in self.survey(name).get("legacy_rules", {}).items():
                old = parse_iptables_save("\n".join(lines), family)
                for (_, table, chain), held in old["chains"].items():
                    self.rulesets[name]["chains"][(family, table + LEGACY, chain)] = held
        return self.rulesets[name]

    def sysctl(self, name: str, key: str) -> str:
        """Return a kernel setting, or "" if it is not known."""
        return str(self.survey(name).get("sysctls", {}).get(key, ""))

    def number(self, name: str, key: str) -> int | None:
        """Return a kernel setting as a whole number."""
        return parse_decimal(self.sysctl(name, key), least=-LARGEST_NUMBER)

    def variable(self, name: str, key: str) -> tuple[str, str] | None:
        """Return a variable as a job on the node would see it, and its source.

        The launchers keep the values that a login session sets.
        """
        found = self.survey(name).get("environment", {}).get("values", {}).get(key)
        login = self.survey(name).get("job_start")
        value = {**login["command"], **login["login"]}.get(key) if login else None
        if login and value is not None and (not found or found["value"] != value):
            return value, login["sources"].get(key, f"the login of {login['account']}")
        return (found["value"], found["source"]) if found else None

    def list_nics(self, name: str) -> list[Nic]:
        """Return the interfaces of a node, in the kernel's order."""
        return self.survey(name).get("interfaces", [])

    def find_nic(self, name: str, interface: str) -> Nic | None:
        """Return one interface by name."""
        return next((nic for nic in self.list_nics(name) if nic["name"] == interface), None)

    def get_cluster_interface(self, name: str) -> str:
        """Return the interface that has the cluster address, else the plan's."""
        held = self.seen.facts(name).get("addresses", {}).get(self.address(name), "")
        return str(held or self.plan["nodes"][name].get("interface", ""))

    def holds(self, name: str, address: str) -> bool:
        """Return whether an address is on one of the node's interfaces."""
        return address in self.seen.facts(name).get("addresses", {})

    def counter(self, name: str, key: str) -> int:
        """Return the growth of a kernel counter during the probe."""
        listeners = self.seen.nodes.get(name, {}).get("started", {}).get("listeners", {})
        return int(listeners.get("counters", {}).get(key, 0))

    def port_range(self, name: str) -> PortRange | None:
        """Return the range from which the node's kernel assigns ports."""
        return parse_port_range(self.sysctl(name, "net.ipv4.ip_local_port_range"))

    def records(self, name: str) -> Sequence[LinkResult]:
        """Return the results of a node's connections to its peers."""
        found: Sequence[LinkResult] = (
            self.seen.nodes.get(name, {}).get("links", {}).get("links", [])
        )
        return found


Rule = Callable[[ClusterEvidence], Iterator[Finding]]


def has_loopback_prefix(address: str) -> bool:
    """Return whether an address never leaves its machine."""
    return address.startswith(LOOPBACKS)
