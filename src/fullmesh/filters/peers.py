"""Provide the updates for nodes when a peer joins or leaves to Ansible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh import settings, transaction
from fullmesh.border import validate_answer
from fullmesh.model.node_view import resolve_node_interfaces
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.node import Facts
from fullmesh.observed.peer_list import PeerFirewall, PeerListPlan
from fullmesh.plain import to_json_value
from fullmesh.roles import peer_firewall, peers

NAMED = 5
# The settings that a node's list of peers depends on.
SETTINGS = re.compile(r"name_resolution_own_names|peer_firewall_\w+")


def peers_wanted(plan: ClusterPlan, hostvars: Any, hosts: Sequence[str]) -> PeerListPlan:
    """Return the updates for the nodes *hosts*, in one call for all, because it reads the roles' defaults."""
    made: ClusterPlan = to_json_value(plan)
    known = settings.load_role_defaults()
    defaults = {name: known[name] for name in known if SETTINGS.fullmatch(name)}
    found: PeerListPlan = {"shared": peers.build_shared_update(made), "own": {}, "tokens": {}}
    for host in map(str, hosts):
        variables = hostvars[host]
        chosen = {name: to_json_value(variables.get(name, defaults[name])) for name in defaults}
        facts = validate_answer(
            Facts, select_module_facts(variables["ansible_facts"]), f"node_facts on {host}"
        )
        node = resolve_node_interfaces(made, host, facts["fullmesh"]["interfaces"])
        found["tokens"][host] = transaction.make_change_token(host)
        found["own"][host] = peers.build_node_update(made, node, facts, chosen)
    return found


def peer_firewall_request(variables: Mapping[str, Any]) -> PeerFirewall:
    """Build the request to a node's firewall from the variables of role peer_firewall."""
    given = to_json_value(variables)
    options = {name.removeprefix("peer_firewall_"): value for name, value in given.items()}
    return peer_firewall.build_firewall_request(options)


def select_module_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Select the facts that node_facts sets, without Ansible's own."""
    return {key: facts[key] for key in Facts.__annotations__ if key in facts}


def format_named_hosts(hosts: Sequence[str]) -> str:
    """Join the first hosts and count the rest."""
    shown = ", ".join(str(host) for host in hosts[:NAMED])
    return shown if len(hosts) <= NAMED else f"{shown} and {len(hosts) - NAMED} more"


def peers_left_out(drifted: Sequence[str], group: Sequence[str], others: Sequence[str]) -> str:
    """Describe the nodes that a run with --limit leaves without an update. Return "" if there are none.

    Args:
        drifted: the nodes that the run configured.
        group: all nodes.
        others: the run's other nodes, which are up to date.
    """
    seen = {str(host) for host in (*drifted, *others)}
    out = [str(host) for host in group if str(host) not in seen]
    if not out:
        return ""
    return (
        f"[PR-180] This run leaves out {format_named_hosts(out)}, so they do not know {format_named_hosts(drifted)}: "
        "their firewalls, hosts files and lists of nodes are unchanged. Fix: run the same command without --limit to "
        "update them and test the new links."
    )
