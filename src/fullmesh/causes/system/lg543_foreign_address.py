"""A program wants an address that is not on this node

A program could not bind {detail}: the address is not one of this node's own. A setting such as
MASTER_ADDR, VLLM_HOST_IP or --host names another node, a public address behind NAT, or an address
that changed. A container has its own addresses.

**Place:** the settings of the node of this log

**Prove:** on that node, in the job's container: ip -brief addr; env | grep -E '_ADDR|_IP|_HOST'

**Fix:** Give each node its own address in these settings, and rank 0's in MASTER_ADDR. Start the
container with --network=host.

**Source:** read: bind(2) and ZeroMQ's zmq_bind(3)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-543",
    __doc__,
    examples=(
        "zmq.error.ZMQError: Cannot assign requested address (addr='tcp://192.0.2.5:5557')",
        (
            "OSError: [Errno 99] error while attempting to bind on address ('192.0.2.5', 80): "
            "cannot assign requested address"
        ),
    ),
    patterns=(
        Pattern(
            "annot assign requested address",
            r"ZMQError: Cannot assign requested address \(?addr='(?P<detail>[^']{5,80})'",
        ),
        Pattern(
            "while attempting to bind on address",
            r"bind on address (?P<detail>\('[^)]{3,60}\)): (?:\[Errno 99\] )?cannot assign",
        ),
        Pattern(
            "[Errno 99] Cannot assign requested address",
            r"^(?:\[rank\d{1,7}\]: ?)?OSError: \[Errno 99\] Cannot assign requested address",
            fields=(("detail", "an address"),),
        ),
        Pattern(
            "name: EADDRNOTAVAIL",
            r"(?P<detail>port: \d{1,5}, useIpv6: \w+, code: -\d+), name: EADDRNOTAVAIL",
        ),
    ),
    weight=86,
)
