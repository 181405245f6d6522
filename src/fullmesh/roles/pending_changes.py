"""Read the changes that a node reverts by itself unless the run that made them confirms them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fullmesh import contract
from fullmesh.observed.node import PendingChange
from fullmesh.plain import to_json_value

# A node's pending changes are foreign data, so they are limited before they are shown or waited for. 3600 s is the
# longest rollback time that a role accepts.
PENDING_CHANGES, PENDING_WORDS, PENDING_SECONDS = 8, 100, 3600
PENDING_TEXTS: Sequence[Literal["name", "what", "since"]] = ("name", "what", "since")


def list_hosts_with_pending_changes(
    hostvars: Any, hosts: Sequence[str], asked: Mapping[str, Any]
) -> list[str]:
    """Return the hosts on which a change of an earlier run is still waiting for its confirmation.

    Args:
        hostvars: Ansible's, with the result of node_facts for hosts that were queried one by one.
        hosts: the hosts of this run.
        asked: the same for hosts that were queried at once.
    """
    found = []
    for host in hosts:
        said = to_json_value(hostvars[host].get("__preflight") or asked.get(host) or {})
        if said.get("pending"):
            found.append(host)
    return found


def read_pending_changes(changes: object) -> list[PendingChange]:
    """Return the plausible pending changes of a node: of a known form, printable, at most an hour."""
    found: list[PendingChange] = []
    for one in changes if isinstance(changes, list) else []:
        try:
            change = contract.convert_value(PendingChange, to_json_value(one))
        except contract.ContractError:
            continue
        words = {
            key: "".join(c for c in change[key] if c.isprintable())[:PENDING_WORDS]
            for key in PENDING_TEXTS
        }
        seconds = min(max(change["seconds"], 0), PENDING_SECONDS)
        found.append(
            {
                "name": words["name"],
                "what": words["what"],
                "since": words["since"],
                "seconds": seconds,
            }
        )
    return found[:PENDING_CHANGES]


def describe_pending_changes(changes: object) -> list[str]:
    """Return a sentence for each change that a node reverts by itself unless its run confirms it."""
    return [
        f"A run changed {change['what'] or change['name']} at {change['since'] or 'an unknown time'} and "
        f"has not confirmed it. The node reverts the change in {change['seconds']} s. "
        "This run waits for that, then continues."
        for change in read_pending_changes(changes)
    ]


def count_pending_seconds(changes: object) -> int:
    """Return how long to wait until a node has begun to revert all of its pending changes."""
    return max((change["seconds"] for change in read_pending_changes(changes)), default=0) + 1
