"""SGLang: --dist-init-addr is no address and port

SGLang was to meet its other nodes at an address that it cannot read as host:port.

**Where:** the node that printed this

**Prove:** the command line, with the variables that it was made of

**Fix:** Write --dist-init-addr ADDRESS:20000, an IPv6 address in brackets (docs/services.md).

**Source:** read: sglang/srt/server_args.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-689",
    __doc__,
    looks=("AssertionError: please provide --dist-init-addr as host:port of head node",),
    patterns=(Pattern("please provide --dist-init-addr as host:port of head node"),),
    weight=94,
)
