"""Gloo: one rank uses IPv4, another IPv6

One rank announced an address of family {first}, another one of family {second} (2 is IPv4, 10 is
IPv6), so they can never connect.

**Place:** the node whose interface or host name gives the other family first

**Prove:** ./fullmesh verify -i INVENTORY (VC-101), or on every node: getent ahosts "$(hostname)"

**Fix:** Use one family on all nodes: ./fullmesh apply -i INVENTORY --tags network. The interfaces
in GLOO_SOCKET_IFNAME must have addresses of the same family.

**Source:** measured, gloo device.cc:285
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-107",
    __doc__,
    examples=(
        (
            "RuntimeError: [enforce fail at "
            "/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:285] ss1.ss_family == "
            "ss2.ss_family. 2 vs 10"
        ),
    ),
    patterns=(Pattern("ss2.ss_family", r"ss2\.ss_family\.? (?P<first>\d+) vs (?P<second>\d+)"),),
    weight=90,
)
