"""SGLang: --dist-init-addr is not an address and a port

SGLang cannot parse --dist-init-addr, the address at which its nodes meet, as host:port.

**Place:** the node that printed this

**Prove:** check the command line and the variables in it

**Fix:** Write --dist-init-addr ADDRESS:20000, with an IPv6 address in brackets (docs/services.md).

**Source:** read: sglang/srt/server_args.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-689",
    __doc__,
    examples=("AssertionError: please provide --dist-init-addr as host:port of head node",),
    patterns=(Pattern("please provide --dist-init-addr as host:port of head node"),),
    weight=94,
)
