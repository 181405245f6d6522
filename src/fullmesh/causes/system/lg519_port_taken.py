"""a port is taken

A process could not bind its port{detail}: another process of the node has it, such as an earlier job
that did not end, a second job with the same settings, or an outgoing connection that the kernel gave
this port.

**Where:** the node of this log

**Prove:** on that node: ss -tlnp and ss -tanp name the process of the port; sysctl
net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports

**Fix:** End the old process, or give each job of a node its own ports; fixed ports belong outside the
kernel's range or into ip_local_reserved_ports: ./fullmesh apply -i INVENTORY -- --tags tuning.

**Source:** uccl-project/uccl#507; read: errno EADDRINUSE of bind(2)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-519",
    __doc__,
    looks=(
        "bind failed: Address already in use",
        "OSError: [Errno 98] Address already in use",
        "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5570')",
    ),
    patterns=(
        Pattern(
            "ddress already in use",
            r"(?<!Call to )[Bb]ind(?:ing)?(?:\(\))? (?:failed|error)[:,]{1,2} ?[Aa]ddress already in use",
            fields=(("detail", ""),),
        ),
        Pattern(
            "[Errno 98]",
            r"\[Errno 98\] [Aa]ddress already in use",
            fields=(("detail", ""),),
        ),
        Pattern(
            "while attempting to bind on address",
            r"while attempting to bind on address(?P<detail> .{1,80}): (?:\[Errno 98\] )?address already",
        ),
        Pattern(
            "ZMQError: Address already in use",
            r"ZMQError: Address already in use(?P<detail>(?: \(addr=[^)]{1,80}\))?)",
        ),
    ),
    weight=76,
)
