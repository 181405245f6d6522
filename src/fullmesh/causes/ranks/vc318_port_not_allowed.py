"""The account of jobs may not bind a port of the plan

SELinux, or a lowest port for accounts without special rights, keeps the account from binding the master, rendezvous or
data port.

**Prove:** su -s /bin/sh ACCOUNT -c 'python3 -m http.server --bind ADDRESS PORT'

**Fix:** Allow the port: sysctl net.ipv4.ip_unprivileged_port_start, semanage port.

**Source:** ip-sysctl, ip_unprivileged_port_start
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "VC-318",
    __doc__,
    weight=280,
    cases=(CauseCase("job-port-privileged", "net.ipv4.ip_unprivileged_port_start=30000"),),
)
