"""Hands to Ansible what nodes are told of a peer that joined or left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fullmesh import settings, transaction
from fullmesh.border import answered
from fullmesh.model.node_view import node_view
from fullmesh.model.types import Plan
from fullmesh.observed.node import Facts
from fullmesh.observed.peer_list import PeersWanted
from fullmesh.plain import plain
from fullmesh.roles import peers as core

NAMED = 5
SETTINGS = (
    "name_resolution_own_names",
    "peer_firewall_extra_ports",
    "peer_firewall_mode",
    "peer_firewall_rdma",
    "peer_firewall_rollback_seconds",
    "peer_firewall_start",
    "peer_firewall_ufw",
    "peer_firewall_zone",
)


def peers_wanted(plan: Plan, hostvars: Any, hosts: Sequence[str]) -> PeersWanted:
    """What the nodes *hosts* are told; once for all of them, as the roles' defaults are read for it."""
    made: Plan = plain(plan)
    defaults = settings.role_defaults()
    found: PeersWanted = {"shared": core.shared(made), "own": {}, "tokens": {}}
    for host in map(str, hosts):
        variables = hostvars[host]
        chosen = {name: plain(variables.get(name, defaults[name])) for name in SETTINGS}
        facts = answered(Facts, of_ours(variables["ansible_facts"]), f"node_facts on {host}")
        node = node_view(made, host, facts["fullmesh"]["interfaces"])
        found["tokens"][host] = transaction.token(host)
        found["own"][host] = core.own(made, node, facts, chosen)
    return found


def of_ours(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that node_facts sets, without what Ansible adds."""
    return {key: facts[key] for key in Facts.__annotations__ if key in facts}


def named(hosts: Sequence[str]) -> str:
    """Some hosts by name, the rest as a number."""
    shown = ", ".join(str(host) for host in hosts[:NAMED])
    return shown if len(hosts) <= NAMED else f"{shown} and {len(hosts) - NAMED} more"


def peers_left_out(drifted: Sequence[str], group: Sequence[str], others: Sequence[str]) -> str:
    """What a run that leaves nodes out (--limit) leaves undone on them; empty where it leaves nothing.

    Args:
        drifted: the nodes that the run configured.
        group: all nodes.
        others: the run's other nodes, which knew of them or were told.
    """
    seen = {str(host) for host in (*drifted, *others)}
    out = [str(host) for host in group if str(host) not in seen]
    if not out:
        return ""
    return (
        f"[PR-180] this run leaves out {named(out)}, which are not told of {named(drifted)}: "
        "their firewalls, hosts files and lists of nodes stay as they were. The same command without --limit tells "
        "them, in one call each, and tries the new links."
    )


class FilterModule:
    """Filters of playbooks/phases/peers.yml."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {"peers_wanted": peers_wanted, "peers_left_out": peers_left_out}
