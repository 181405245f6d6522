"""The account of jobs may not bind a port of the plan

SELinux, or a lowest port for accounts without special rights, keeps the account from binding the master, rendezvous or
data port.

**Prove:** su -s /bin/sh ACCOUNT -c 'python3 -m http.server --bind ADDRESS PORT'

**Fix:** Allow the port: sysctl net.ipv4.ip_unprivileged_port_start, semanage port.

**Source:** ip-sysctl, ip_unprivileged_port_start
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.job_start import describe_account, is_for_all_jobs, list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_bound_ports(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account may bind the ports of a job."""
    for name, start, steps in list_failed_steps(seen, "bind"):
        ports = ["a free port" if one["subject"] == "0" else one["subject"] for one in steps]
        yield Finding(
            "VC-318",
            "L1",
            f"{describe_account(start)} cannot bind {join_names(ports)} on {name}",
            node=name,
            port=join_names([one["subject"] for one in steps if one["subject"] != "0"]),
            seen=steps[0]["error"],
            expected="allowed",
            check=f"on {name}: ausearch -m avc -ts recent; sysctl net.ipv4.ip_unprivileged_port_start",
            fix=f"on {name}: allow the port for this account, or choose another port in the inventory",
            severity=ERROR if is_for_all_jobs(seen, name, start) else WARNING,
        )


CAUSE = Cause(
    "VC-318",
    __doc__,
    find=rule_bound_ports,
    weight=280,
    explains=(Explains(("VC-325",), has_same_node),),
    cases=(CauseCase("job-port-privileged", "net.ipv4.ip_unprivileged_port_start=30000"),),
)
