"""Patterns that several causes of NCCL share.

Sources: NVIDIA/nccl@5067397 (2.30.7), tags 2.10 to 2.30, and the library 2.32.3 without a GPU.
"""

from __future__ import annotations

from fullmesh.causes.log_ports import describe_port_range
from fullmesh.causes.logs import NCCL_LINE, ExplainOptions, Fact, Fields, Pattern
from fullmesh.observed.ports import HIGHEST_PORT

INSIDE = r"(?:lo|docker|br-|virbr|veth|cni|flannel|cali|tailscale|podman|lxc)"
ADDRESS = r"(?P<peer>[^\s<>]{1,120})<(?P<port>\d{1,5})>"
BAD_NETWORK = (
    "LG-402",
    "LG-403",
    "LG-404",
    "LG-405",
    "LG-415",
    "LG-421",
    "LG-422",
    "LG-455",
    "LG-201",
    "LG-202",
    "LG-203",
)
BOOTSTRAP = Fact(
    "address",
    Pattern(
        "NCCL INFO Bootstrap",
        NCCL_LINE
        + r"Bootstrap ?: Using (?:\[0\])?(?P<interface>[^\s:]{1,32}):(?P<address>[^\s<]{1,60})<",
    ),
)
EFA = (
    Fact(
        "efa",
        Pattern(
            "FI_PROVIDER",
            r"FI_PROVIDER\W{0,3}(?: ?set (?:by environment )?to )?\W?(?P<detail>efa)\b",
        ),
    ),
    Fact("efa", Pattern("FI_EFA_", r"(?P<detail>FI_EFA_\w{1,40})")),
    Fact(
        "efa",
        Pattern("AWS Libfabric", r"(?P<detail>NCCL_NET\w* set by environment to AWS Libfabric)"),
    ),
)
OFI = Fact("ofi", Pattern("NET/OFI Initializing aws-ofi-nccl"))
RINGS = Fact("rings", Pattern("Connected all rings"))
LATE = Fact(
    "late",
    Pattern(
        "caught collective operation timeout",
        r"\[Rank (?P<rank>\d{1,7})\].{0,40}caught collective operation timeout:"
        r" WorkNCCL\(SeqNum=(?P<number>\d{1,15}), OpType=(?P<operation>\w{1,40})",
    ),
)


def build_connect_patterns(words: str) -> tuple[Pattern, ...]:
    """Return the patterns of a connection that failed with *words*, as NCCL 2.10 to 2.32 write it."""
    return (
        # the first of NCCL's 34 attempts prove nothing
        Pattern(
            "onnect to ",
            rf"[Cc]onnect to {ADDRESS} returned (?:\d+\()?{words}\)?(?!\)?, retrying \(\d/)",
        ),
        Pattern("onnect to ", rf"[Cc]onnect to {ADDRESS} failed ?: {words}"),
        Pattern(
            "error retry count",
            rf"connect to {ADDRESS} returned {words}, exceeded error retry count",
        ),
        # NCCL 2.30 and newer
        Pattern(
            "SocketPollConnect to ", rf"SocketPollConnect to {ADDRESS} failed with error {words}"
        ),
        # before 2.27 no line has the address
        Pattern(
            "error retry count",
            rf"connect returned {words}, exceeded error retry count(?P<peer>)(?P<port>)",
        ),
        # before 2.24 NCCL only logs the last attempt
        Pattern(
            "retrying (34/34)", rf"connect returned {words}, retrying \(34/34\)(?P<peer>)(?P<port>)"
        ),
    )


def derive_nccl_remote(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Add the notes about the port. Unlike c10d, NCCL prints the right port."""
    port = int(fields["port"])
    if port > HIGHEST_PORT:
        return None
    return {**fields, "port_note": f"port {port}", "range_note": describe_port_range(port, options)}


def derive_nccl_retry(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Add the peer. The retry line of an old NCCL has no address."""
    return (
        derive_nccl_remote(fields, options)
        if fields["port"]
        else {**fields, "peer": "a peer", "port_note": ""}
    )
