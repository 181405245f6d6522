"""Transactions on nodes (module_utils/fullmesh/transaction): their codes, connections and failure messages.

Pure, except for the token: data in, data or text out.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.model.addresses import is_address, parse_bare_address, split_host_port
from fullmesh.model.types import ClusterPlan, PlanLink

CODES: dict[str, str] = {
    "TX-101": "Another change to the node is still waiting for confirmation",
    "TX-102": "The current state could not be saved. Nothing was changed",
    "TX-103": "systemd did not start the guard or the change. Nothing was changed",
    "TX-106": "The path of a file to change holds something that is neither a file nor a link",
    "TX-107": "An unconfirmed change has not ended, so nothing was undone",
    "TX-108": "A test before the change showed that the rollback does not work on this node",
    "TX-109": "The pending change belongs to another run",
    "TX-110": "The confirmation could not be written, so the node reverts the change",
}

SSH_PORT = 22
ALIAS = "HostKeyAlias"
# In addition to the master. Several, because one of them may be down for another reason.
WITNESSES = 8


def find_first_connection(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return how the inventory reaches a host, even if the host has moved since: ``{host, port, args}``."""
    return dict(variables.get("fullmesh_bootstrap") or find_current_connection(variables, name))


def make_change_token(_host: str) -> str:
    """Return a new token that identifies one change of a host. A filter needs an input value, which is ignored."""
    return secrets.token_hex(8)


def find_current_connection(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the current connection to a host: ``{host, port, args}``. Port 0 is ssh's own default.

    Args:
        variables: of the host.
        name: the host's inventory name.
    """
    return {
        "host": str(variables.get("ansible_host") or name),
        "port": int(variables.get("ansible_port") or 0),
        "args": str(variables.get("ansible_ssh_common_args") or ""),
    }


def find_new_connection(variables: Mapping[str, Any], name: str, address: str) -> dict[str, Any]:
    """Return the connection to a host that has moved to *address*: ``{host, port, args}``.

    ssh uses the host key that is known under the bootstrap name, so it rejects another machine that answers at the new
    address. ``fullmesh_ssh_address`` takes precedence over *address* (NAT).

    Raises:
        ValueError: *address* is not an address. ssh would read "-o..." as an option.
    """
    first = find_first_connection(variables, name)
    if address in ("", first["host"]):
        return first
    parse_bare_address(address)
    host, port = split_host_port(str(variables.get("fullmesh_ssh_address") or ""))
    args = first["args"]
    given = " ".join(
        [
            args,
            *(str(variables.get(f"ansible_ssh_{kind}") or "") for kind in ("args", "extra_args")),
        ]
    )
    if ALIAS not in given:
        known = first["host"]
        if first["port"] not in (0, SSH_PORT):
            known = f"[{known}]:{first['port']}"
        args = f"{args} -o {ALIAS}={known}".strip()
    return {"host": host or address, "port": port or first["port"], "args": args}


def find_moved_address(variables: Mapping[str, Any]) -> str:
    """Return the first cluster address of a node, without prefix, or an empty text."""
    given = variables.get("fullmesh_address") or [
        address
        for link in variables.get("fullmesh_links") or []
        for address in to_text_list(link.get("address") or link.get("addresses") or [])
    ]
    every = [one.split("/")[0] for one in to_text_list(given)]
    return every[0] if every and is_address(every[0]) else ""


def check_destination(moves_to: Any, name: str, links: Sequence[PlanLink] | None) -> str:
    """Return the address to which a node moves with its change, or an empty text if it does not move.

    Args:
        moves_to: the value in the node's answer.
        name: the node.
        links: of the plan. None for an undo, after which the node may have an address outside the inventory.

    Raises:
        InvalidInputError: the node names something else.
    """
    address = str(moves_to)
    if address == "":
        return address
    planned = [one.partition("/")[0] for link in links or () for one in link["addresses"]]
    if is_address(address) and (links is None or address in planned):
        return address
    what = "not one of its planned addresses" if planned else "not an address"
    text = f"{name} says that it moves to {address[:80]!r}, which is {what}"
    if planned:
        text += f" ({', '.join(planned)})"
    step = f"Nothing was changed. Check {name}: it is broken, or not your machine"
    raise InvalidInputError([Fault("IP-122", text, step)])


def to_text_list(value: Any) -> list[str]:
    """Return a text or a list as a list of texts."""
    return [value] if isinstance(value, str) else [str(one) for one in value]


def list_witnesses(peers: Mapping[str, str], name: str, master: str) -> list[str]:
    """Return the addresses that a node probes before its change: the master's, and those of the next nodes.

    Not all of them, because 1,000 nodes that probe 1,000 nodes would look like an attack.

    Args:
        peers: the cluster address of each node, in the plan's order.
        name: the node that probes.
        master: the name of the master, or empty.
    """
    order = list(peers)
    at = order.index(name) + 1 if name in peers else 0
    ring = [peer for peer in order[at:] + order[:at] if peer not in (name, master)]
    first = [master] if master in peers and master != name else []
    return [peers[peer] for peer in first + ring[:WITNESSES]]


def list_peers_up(
    peers: Mapping[str, str],
    hostvars: Mapping[str, Mapping[str, Any]],
    name: str,
    groups: Mapping[str, Iterable[str]],
    answered: Iterable[str] = (),
) -> list[str]:
    """Return the addresses of the nodes that are up: converged nodes, nodes that came back, and nodes that answered.

    Nodes that are not up yet, or that answered and will move themselves (into a VLAN, for example), do not count.

    Args:
        peers: the cluster address of each node.
        hostvars: the variables of every host of the inventory.
        name: the node that has changed.
        groups: preflight's ``fullmesh_converged`` and ``fullmesh_peers``, the nodes without drift, and
            ``fullmesh_drifted``, the nodes that this run changes.
        answered: addresses that answered *name* before its change.
    """
    still, learning, turn = (
        set(groups.get(f"fullmesh_{word}", ())) for word in ("converged", "peers", "drifted")
    )
    there = still | learning
    heard = set(answered)

    def stays(peer: str, plan: ClusterPlan | None) -> bool:
        return peer not in turn if plan is None else not plan.get("needed")

    # Ansible's hostvars has an undefined value for a host that it does not know
    facts = {peer: hostvars[peer] for peer in peers if peer in hostvars}
    found = []
    for peer in peers.keys() - {name}:
        known = facts.get(peer, {})
        back = peer in there or known.get("__static_ip_back")
        if back or (peers[peer] in heard and stays(peer, known.get("__static_ip_plan"))):
            found.append(peers[peer])
    return sorted(found)


def describe_failed_change(
    failure: str, name: str, tried: str, report: Mapping[str, Any], where: str
) -> str:
    """Describe a transaction that could not be confirmed.

    Args:
        failure: the error. Without a code of Fullmesh, it means that the connection did not come back.
        name: the host.
        tried: the change, in a few words.
        report: the report of the node's rollback (``restored`` of static_ip_links).
        where: the address that answers again.
    """
    words = " ".join(failure.split()).rstrip(".")
    if not words.startswith("["):
        words = f"[IP-113] {name} did not come back on a new connection: {words}"
    parts = [f"{words}.", f"Tried on {name}: {tried}."]
    if report:
        parts.append(
            f"The node reverted the change {report.get('after', '?')} s after its timer started "
            f"({report.get('why', '')}) and answers at {where} again."
        )
    else:
        # Either it never started, or the answer to its confirmation was lost.
        parts.append(
            f"The node answers at {where}, and no rollback is pending. Either nothing was changed, or the change is "
            "active and only its answer was lost. Run again to find out."
        )
    faults = [str(fault) for fault in report.get("faults", [])]
    if faults:
        parts.append(f"Not everything went well: {'; '.join(faults)}.")
    parts.append(
        "Compare address, prefix, gateway, VLAN and MTU of this link with those of a working node, and see "
        "/var/lib/fullmesh/rollback/log on the node."
    )
    return " ".join(parts)
