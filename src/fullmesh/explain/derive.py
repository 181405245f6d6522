"""What a message means beside what it says: swapped ports, directions, ports in the range, errno."""

from __future__ import annotations

import ipaddress

from fullmesh.explain.model import ExplainOptions, Fields
from fullmesh.observed.ports import HIGHEST_PORT, KERNEL_RANGE

STORE_PORT, RENDEZVOUS_PORT = 29500, 29400
VERDICTS = {
    "113": (
        "rejected (errno 113, No route to host: what firewalld's REJECT answers; without an"
        " ARP entry the host is away)"
    ),
    "111": "refused (errno 111: a firewall that answers with a TCP reset, or nobody listens)",
    "110": "dropped (errno 110, no answer at all: a firewall with DROP, a security group, or the host is away)",
    "104": "reset (errno 104: what listens there is no TCPStore, or it ended)",
    "101": "without a route (errno 101)",
}


def swap_port_bytes(printed: int) -> int:
    """The port that Gloo means: it prints sin_port without ntohs (gloo/transport/tcp/address.cc)."""
    return (printed & 0xFF) << 8 | printed >> 8


def is_loopback_host(host: str) -> bool:
    """Whether a name or address is this host itself."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.partition(".")[0] == "localhost"


def describe_port_range(port: int, options: ExplainOptions) -> str:
    """A sentence that says whether a port lies in the plan's range; empty when no range is known."""
    data = options.data_ports
    if data is None:
        return ""
    text = f"Port {port} lies {{}} the data range {data.first}-{data.last}: {{}}."
    if port in data:
        return text.format("in", "a firewall or the way between is to blame, not the pin")
    why = (
        "net.ipv4.ip_local_port_range is not pinned on the listening node, or the job runs in a"
        " container with a range of its own"
    )
    return text.format("OUTSIDE", why)


def derive_gloo_remote(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Put Gloo's port right and say which way the connection goes."""
    printed = int(fields["printed"])
    if printed > HIGHEST_PORT:
        return None
    port = swap_port_bytes(printed)
    note = f"port {port} (Gloo prints it byte-swapped, as {printed})"
    return {
        **fields,
        "port": str(port),
        "port_note": note,
        "range_note": describe_port_range(port, options),
    }


def derive_nccl_remote(fields: Fields, options: ExplainOptions) -> Fields | None:
    """NCCL prints its ports right."""
    port = int(fields["port"])
    if port > HIGHEST_PORT:
        return None
    return {**fields, "port_note": f"port {port}", "range_note": describe_port_range(port, options)}


def is_kernel_chosen_port(port: int, options: ExplainOptions) -> bool:
    """Whether it is a port that the kernel gave out, so torchrun's own second store."""
    data = options.data_ports
    return port in KERNEL_RANGE or (data is not None and port in data)


def derive_fixed_store(fields: Fields, options: ExplainOptions) -> Fields | None:
    """A store at a port that somebody chose."""
    host, port = fields["host"], int(fields["port"])
    if is_loopback_host(host) or is_kernel_chosen_port(port, options):
        return None
    kind = {STORE_PORT: "the master port", RENDEZVOUS_PORT: "the rendezvous port"}
    return {**fields, "kind": kind.get(port, "the store's port")}


def derive_hidden_store(fields: Fields, options: ExplainOptions) -> Fields | None:
    """torchrun's c10d rendezvous opens a second store on a port that the kernel picks."""
    host, port = fields["host"], int(fields["port"])
    if is_loopback_host(host) or not is_kernel_chosen_port(port, options) or port > HIGHEST_PORT:
        return None
    return {**fields, "range_note": describe_port_range(port, options)}


def derive_loopback_store(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """A store that is looked for on the own host."""
    return fields if is_loopback_host(fields["host"]) else None


def derive_c10d_errno(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Say what the errno tells and whether the address can be believed."""
    errno = fields["errno"]
    if errno not in VERDICTS:
        return None
    peer = fields["peer"]
    # socket.cpp prints [name]:port when the reverse lookup works; else it prints its own pointer as an address
    named = peer.startswith("[")
    shown = (
        peer
        if named
        else "the store (the address in this line is not to be trusted, the reverse lookup failed)"
    )
    return {**fields, "verdict": VERDICTS[errno], "target": shown}


def describe_gids(own: str, remote: str) -> str:
    """What the addresses (GIDs) of an RDMA connection's two ends have to do with its failure; empty if nothing."""
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
    # the usual lengths of a link's prefix; the log does not have the real ones
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


def derive_joined_ranks(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """How many ranks came; unknown where the line was cut off before its numbers."""
    if not fields["all"]:
        return {**fields, "came": "?"}
    came = f"{fields['some']} of {fields['all']}"
    return {**fields, "came": came} if int(fields["some"]) < int(fields["all"]) else None


def derive_low_somaxconn(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """A somaxconn below a small cluster's world size."""
    return fields if int(fields["value"]) < 128 else None  # noqa: PLR2004 (the old kernel default, enough for most)


def derive_invalid_rank(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Rank r of n: which of the two is wrong."""
    rank, size = int(fields["rank"]), int(fields["size"])
    return fields if rank >= size else None


def derive_rank_host(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """A rank of which torchrun's one-line message gives neither number nor host."""
    return {**fields, "rank": fields["rank"] or "?", "host": fields["host"] or "?"}


def derive_lookup_failure(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """A name resolution failure that counts: localhost has no IPv6 line on many hosts."""
    host = fields["host"]
    return None if is_loopback_host(host) else {**fields, "host": host or "of the store's node"}


def derive_barrier_count(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """The store's barrier counts workers: too few means missing ranks, too many means an old store."""
    came, wanted = int(fields["came"]), int(fields["wanted"])
    if came == wanted or (came < wanted and "waits" in fields):
        return None
    few_text = f"{wanted - came} of {wanted} ranks never came to the barrier"
    many_text = (
        f"{came} workers counted for {wanted} ranks: ranks of an earlier try or another job"
        " use the same store"
    )
    return {**fields, "what": few_text if came < wanted else many_text}
