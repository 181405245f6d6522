"""SELinux denied an operation

SELinux denied {detail}.

**Place:** the node of this log

**Prove:** ausearch -m avc -ts recent | audit2why

**Fix:** Label the files or ports as audit2why suggests. Use selinux_mode: permissive for a test
only.

**Source:** read: kernel audit messages
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-507",
    __doc__,
    examples=(
        (
            "audit: type=1400 audit(1700000000.1:2): avc:  denied  { name_bind } for  pid=1 "
            'comm="python3" src=29500'
        ),
    ),
    patterns=(Pattern("avc:  denied", r"avc:  denied  (?P<detail>\{ [^}]{1,60}\}.{0,60})"),),
    key=("detail",),
    weight=67,
    recorded=(
        RecordedLog(
            "selinux",
            (
                "audit: type=1400 audit(1.1:2): avc:  denied  { name_bind } for  pid=1 "
                'comm="python3" src=29500'
            ),
        ),
    ),
)
