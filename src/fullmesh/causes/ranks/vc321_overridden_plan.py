"""A login sets a variable of the plan to another value

The launchers read `/etc/fullmesh/env`, but variables that the caller already has win. `/etc/environment` sets them for
every login, profile files for login shells. A job that a login starts there uses another master, port or interface than
the other nodes.

**Prove:** ssh NODE env | grep -E 'MASTER_|IFNAME|FULLMESH_|NNODES|NODE_RANK', and compare with /etc/fullmesh/env

**Fix:** Remove the variable from the file that the message names. To change it for all jobs, change the inventory.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.cards import OURS
from fullmesh.verify.job_start import LOGIN_FILE, OF_THE_PLAN, get_job_start
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.socket_interfaces import INTERFACES, select_interfaces

INTERFACE_CODES = ("DG-119", "DG-120", "DG-121", "DG-134", "DG-161", "DG-189")
MASTER_CODES = ("DG-124", "DG-125", "DG-126", "DG-127", "DG-128")


def has_same_effect(
    seen: ClusterObservations, name: str, key: str, values: tuple[str, str]
) -> bool:
    """Return whether two values of a variable mean the same on a node."""
    nics = seen.survey(name).get("interfaces", [])
    if key not in INTERFACES or not nics:
        return values[0] == values[1]
    return select_interfaces(values[0], key, nics) == select_interfaces(values[1], key, nics)


def find_overridden(seen: ClusterObservations, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of the plan that a login on a node replaces, and the plan's values."""
    files = seen.survey(name).get("environment", {}).get("files", {})
    start = get_job_start(seen, name)
    planned = {**files.get(OURS, {}), **(start["file"] if start else {})}
    logins = [start["command"], start["login"]] if start else [files.get(LOGIN_FILE, {})]
    odd = {
        key: login[key]
        for login in logins
        for key in OF_THE_PLAN
        if key in login
        and key in planned
        and not has_same_effect(seen, name, key, (login[key], planned[key]))
    }
    return odd, planned


def rule_overridden_plan(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no file of the login sets a variable of the plan to another value."""
    found = {name: find_overridden(seen, name) for name in seen.plan["nodes"]}
    # the same on all nodes may be meant
    same = len(found) > 1 and len({tuple(sorted(odd.items())) for odd, _ in found.values()}) == 1
    for name, (odd, planned) in found.items():
        if not odd:
            continue
        # the job starts, with another number of ranks than the plan's
        starts = set(odd) == {"NPROC_PER_NODE"}
        start = get_job_start(seen, name)
        sources = start["sources"] if start else {}
        places = join_names(list(dict.fromkeys(sources.get(key) or LOGIN_FILE for key in odd)))
        yield Finding(
            "VC-321",
            "L1",
            f"{places} on {name} sets {join_names(list(odd))}, which overrides {OURS} in jobs that a login starts",
            node=name,
            seen=f"{', '.join(f'{key}={value}' for key, value in odd.items())} from {places}",
            expected=", ".join(f"{key}={planned[key]}" for key in odd),
            fix=f"on {name}: remove {join_names(list(odd))} from {places}, then log in again",
            severity=WARNING if same or starts else ERROR,
        )


CAUSE = Cause(
    "VC-321",
    __doc__,
    find=rule_overridden_plan,
    weight=600,
    explains=(Explains(INTERFACE_CODES + MASTER_CODES, has_same_node),),
    cases=(
        CauseCase(
            "login-overrides-plan", "GLOO_SOCKET_IFNAME=eth0 in /etc/environment, configured"
        ),
    ),
)
