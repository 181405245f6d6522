"""a kernel setting will have another value after the next boot (warning)

systemd-sysctl reads sysctl.d(5) at boot: of files with one name that of /etc, then /run, /usr/local/lib, /usr/lib; in
the order of their names, a later value wins, a key that is named wins over patterns. What was set by hand is lost,
and what a file says comes back, whoever wrote it meanwhile. /etc/sysctl.conf counts only where a link in
/etc/sysctl.d leads to it. What tuned's profile sets is left out: it comes later.

**Prove:** systemd-analyze cat-config sysctl.d | grep KEY; sysctl KEY

**Fix:** Write what is meant into a file of its own in /etc/sysctl.d (role kernel_tuning does), and look with
systemd-analyze whether a later file takes it back.

**Source:** sysctl.d(5); systemd, src/sysctl/sysctl.c
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-163",
    __doc__,
    severity=WARNING,
    weight=100,
    cases=(CauseCase("boot-sysctl", "tcp_mtu_probing=2 in a file of /etc/sysctl.d, not read yet"),),
)
