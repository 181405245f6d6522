"""Transactions on nodes (module_utils/fullmesh/transaction): codes, the rollback to a node, how a failure is told.

Pure, but for the token: data in, data or text out.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.model.addresses import is_address, parse_bare_address, split_host_port
from fullmesh.model.types import ClusterPlan, PlanLink

CODES: dict[str, str] = {
    "TX-101": "another change of the node still waits for its confirmation",
    "TX-102": "what is there could not be saved; nothing was changed",
    "TX-103": "systemd did not start the guard or the change; nothing was changed",
    "TX-106": "something that is neither a file nor a link stands where a file is changed",
    "TX-107": "an unconfirmed change has not ended, so nothing was undone",
    "TX-108": "the rollback was tried before anything was changed, and would not work on this node",
    "TX-109": "the change that waits for its confirmation is another run's",
    "TX-110": "the confirmation could not be written, so the node puts back what it had",
}

SSH_PORT = 22
ALIAS = "HostKeyAlias"
# Besides the master; when one of them is away for reasons of its own, the others are asked.
WITNESSES = 8


def find_first_connection(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return how the inventory reaches a host, whatever has moved since: ``{host, port, args}``."""
    return dict(variables.get("fullmesh_bootstrap") or find_current_connection(variables, name))


def make_change_token(_host: str) -> str:
    """Return what one change of a host is known by, new with every call; a filter has to begin with some value."""
    return secrets.token_hex(8)


def find_current_connection(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return how a host is reached now: ``{host, port, args}``; port 0 is ssh's own default.

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
    """Return how to reach a host that has moved to *address*: ``{host, port, args}``.

    The host key that is known is the one under the bootstrap name, so ssh is told to look there: a machine that answers
    at the new address and is not this node is refused. ``fullmesh_ssh_address`` goes before *address* (NAT).

    Raises:
        ValueError: *address* is none; ssh would read "-o..." as an option.
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
    """Return where a node is once it has its cluster addresses: the first one, without prefix; empty for none."""
    given = variables.get("fullmesh_address") or [
        address
        for link in variables.get("fullmesh_links") or []
        for address in to_text_list(link.get("address") or link.get("addresses") or [])
    ]
    every = [one.split("/")[0] for one in to_text_list(given)]
    return every[0] if every and is_address(every[0]) else ""


def check_destination(moves_to: Any, name: str, links: Sequence[PlanLink] | None) -> str:
    """Return the address at which a node says that it answers after its change; empty if it stays.

    Args:
        moves_to: of the node's answer.
        name: the node.
        links: of the plan; None for an undo, after which the node has an address that no inventory needs to know.

    Raises:
        RefusedError: the node names something else.
    """
    address = str(moves_to)
    if address == "":
        return address
    planned = [one.partition("/")[0] for link in links or () for one in link["addresses"]]
    if is_address(address) and (links is None or address in planned):
        return address
    what = "not one of its planned addresses" if planned else "no address"
    text = f"{name} says that it moves to {address[:80]!r}, which is {what}"
    if planned:
        text += f" ({', '.join(planned)})"
    step = f"Nothing was changed. Check: look at {name}, it is broken or not yours"
    raise InvalidInputError([Fault("IP-122", text, step)])


def to_text_list(value: Any) -> list[str]:
    """Return a text or a list as a list of texts."""
    return [value] if isinstance(value, str) else [str(one) for one in value]


def list_witnesses(peers: Mapping[str, str], name: str, master: str) -> list[str]:
    """Return the addresses that a node asks before its change: the master's, and those of the nodes after it.

    Not all of them: a thousand nodes that knock at a thousand nodes would be an attack.

    Args:
        peers: the cluster address of each node, in the plan's order.
        name: the node that asks.
        master: the name of the master; empty for none.
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
    """Return the addresses of the nodes that are up: the converged, those that have come back, those that answered.

    A node that is not up yet is no fault of anybody's; nor is one that answered and is about to move itself (into a
    VLAN, say, with all the others, one after the other).

    Args:
        peers: the cluster address of each node.
        hostvars: the variables of every host of the inventory.
        name: the node that has changed.
        groups: preflight's ``fullmesh_converged`` and ``fullmesh_peers``, the nodes that are as the last run had left
            them, and ``fullmesh_drifted``, whose turn comes in this run or has come.
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
    """Return the sentence that ends a transaction which could not be confirmed.

    Args:
        failure: what went wrong; without a code of ours it is the connection that did not come back.
        name: the host.
        tried: the change, in a few words.
        report: what the node has done to put itself back (``restored`` of static_ip_links).
        where: the address that answers again.
    """
    words = " ".join(failure.split()).rstrip(".")
    if not words.startswith("["):
        words = f"[IP-113] {name} did not come back on a new connection: {words}"
    parts = [f"{words}.", f"Tried on {name}: {tried}."]
    if report:
        parts.append(
            f"The node has put everything back {report.get('after', '?')} s after it was armed "
            f"({report.get('why', '')}) and answers at {where} again."
        )
    else:
        # Either it was never armed, or the word that it is confirmed was lost on the way.
        parts.append(
            f"The node answers at {where}, and nothing waits to be put back: it is as it was, or the change stands and "
            "only its answer was lost. Run again, that shows which."
        )
    faults = [str(fault) for fault in report.get("faults", [])]
    if faults:
        parts.append(f"Not everything went well: {'; '.join(faults)}.")
    parts.append(
        "Compare address, prefix, gateway, VLAN and MTU of this link with those of a node that works, and see "
        "/var/lib/fullmesh/rollback/log on the node."
    )
    return " ".join(parts)
