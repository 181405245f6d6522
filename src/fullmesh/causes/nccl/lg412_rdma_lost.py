"""NCCL: RDMA packets do not arrive (completion 12 RETRY_EXC, vendor error 129)

RDMA to {peer} failed: a GID index is wrong, UDP port 4791 is blocked between the nodes, or a port
of the fabric is down.

**Place:** the path to {peer}: a switch, an ACL, or the GID that one side chose

**Prove:** compare the GID types and indexes that `show_gids` lists on all nodes, then run
`ibv_rc_pingpong -g INDEX PEER` and `ibstat`

**Fix:** Remove NCCL_IB_GID_INDEX: NCCL 2.21 and newer choose the RoCE v2 entry. Open UDP 4791 in
switch ACLs and security groups. Host firewalls do not see RDMA.

**Source:** NVIDIA/nccl#426, #1131, #1664
"""

from __future__ import annotations

import ipaddress

from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog


def describe_gids(own: str, remote: str) -> str:
    """Explain how the GIDs of both ends of an RDMA connection cause its failure. Empty if they do not."""
    ends = []
    for text in (own, remote):
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            return ""
        ends.append(address.ipv4_mapped or address)
    links = [end for end in ends if end.is_link_local]
    if len(links) == 1:
        return (
            f"One end has the link-local address {links[0]}: the GID index holds another entry there, or its"
            " interface has no IP address."
        )
    # the usual prefix lengths of a link, since the log does not have the real ones
    networks = {
        ipaddress.ip_network(f"{end}/{64 if end.max_prefixlen > 64 else 24}", strict=False)  # noqa: PLR2004 (bits)
        for end in ends
    }
    if not links and len(networks) > 1:
        return (
            f"The two ends ({ends[0]} and {ends[1]}) seem to be in different networks. If no router connects them,"
            " NCCL paired ports of different networks: name the right ones in NCCL_IB_HCA on each node."
        )
    return ""


def derive_rdma_peer(fields: Fields, _options: ExplainOptions) -> Fields:
    """Add the peer. Old messages about RDMA do not name it, and new ones have the GIDs of both ends and the device."""
    own, remote = fields.get("own", ""), fields.get("remote", "")
    device = fields.get("device", "")
    ends = " to ".join(end.removeprefix("::ffff:") for end in (own, remote))
    notes = [f"The connection used {device}, from {ends}."] if device else []
    notes += [describe_gids(own, remote)] if own and remote else []
    note = " ".join(filter(None, notes))
    return {**fields, "peer": fields["peer"] or "a peer", "range_note": note}


CAUSE = LogCause(
    "LG-412",
    __doc__,
    examples=(
        (
            "NET/IB : Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698 "
            "len=32696 vendor err 129 (Send)"
        ),
        (
            "NET/IB: Got completion from peer 7.6.13.83<36315> with "
            "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 localGid "
            "::ffff:7.6.13.82 remoteGids::ffff:7.6.13.83 hca mlx5_0"
        ),
    ),
    patterns=(
        Pattern(
            "Got completion",
            r"Got completion (?:from peer (?P<peer>[^\s<]{1,60})\S{0,10} )?with (?:status=|error )12\b",
        ),
        # NCCL 2.28.7 and newer
        Pattern(
            "Got completion",
            r"Got completion from peer (?P<peer>[^\s<]{1,60})\S{0,10} with status=\w{1,40}\(12\)"
            r"(?:.{0,200}? localGid (?P<own>\S{2,60}) remoteGids?\s?(?P<remote>\S{2,60})"
            r"(?: hca (?P<device>[\w.-]{1,40}))?)?",
        ),
        Pattern(
            "Got completion",
            r"Got completion (?:from peer (?P<peer>[^\s<]{1,60}))?.{0,200}vendor[ _]err[ =]129",
        ),
        Pattern(
            "ibv_modify_qp failed",
            r"ibv_modify_qp failed with (?:error )?\D{0,3}\d{0,4}\s?(?:Connection timed out"
            r"|Network is unreachable|Invalid argument|No data available|No route to host|Connection refused)(?P<peer>)"
            r"(?:.{0,200}?local GID (?P<own>[\w:.]{2,60}), remote GID (?P<remote>[\w:.]{2,60}))?",
        ),
    ),
    key=("peer",),
    derive=derive_rdma_peer,
    weight=82,
    recorded=(
        RecordedLog(
            "roce, queue pair",
            (
                "n:1:2 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_modify_qp failed with "
                "error Connection timed out"
            ),
        ),
    ),
)
