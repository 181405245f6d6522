"""Hands to Ansible what nodes are told of a peer that joined or left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh import settings, transaction
from fullmesh.border import validate_answer
from fullmesh.model.node_view import resolve_node_interfaces
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.node import Facts
from fullmesh.observed.peer_list import PeerListPlan
from fullmesh.plain import to_json_value
from fullmesh.roles import peers

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


def peers_wanted(plan: ClusterPlan, hostvars: Any, hosts: Sequence[str]) -> PeerListPlan:
    """What the nodes *hosts* are told; once for all of them, as the roles' defaults are read for it."""
    made: ClusterPlan = to_json_value(plan)
    defaults = settings.load_role_defaults()
    found: PeerListPlan = {"shared": peers.build_shared_update(made), "own": {}, "tokens": {}}
    for host in map(str, hosts):
        variables = hostvars[host]
        chosen = {name: to_json_value(variables.get(name, defaults[name])) for name in SETTINGS}
        facts = validate_answer(
            Facts, select_module_facts(variables["ansible_facts"]), f"node_facts on {host}"
        )
        node = resolve_node_interfaces(made, host, facts["fullmesh"]["interfaces"])
        found["tokens"][host] = transaction.make_change_token(host)
        found["own"][host] = peers.build_node_update(made, node, facts, chosen)
    return found


def select_module_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that node_facts sets, without what Ansible adds."""
    return {key: facts[key] for key in Facts.__annotations__ if key in facts}


def format_named_hosts(hosts: Sequence[str]) -> str:
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
        f"[PR-180] this run leaves out {format_named_hosts(out)}, which are not told of {format_named_hosts(drifted)}: "
        "their firewalls, hosts files and lists of nodes stay as they were. The same command without --limit tells "
        "them, in one call each, and tries the new links."
    )
