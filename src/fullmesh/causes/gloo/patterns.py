"""Patterns of several causes of Gloo (measured with torch 2.13, sources: pytorch/gloo@70dc360)."""

from __future__ import annotations

from fullmesh.causes.log_ports import describe_port_range
from fullmesh.causes.logs import ExplainOptions, Fields
from fullmesh.observed.ports import HIGHEST_PORT

# a loopback address is a cause of its own (LG-106)
REMOTE = r"remote=\[(?!127\.|::1\]|::ffff:127\.)(?P<peer>[0-9A-Fa-f.:%\w]+)\]:(?P<printed>\d{1,5})"


def swap_port_bytes(printed: int) -> int:
    """Return the port that Gloo means: it prints sin_port without ntohs (gloo/transport/tcp/address.cc)."""
    return (printed & 0xFF) << 8 | printed >> 8


def derive_gloo_remote(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Correct Gloo's port, and add the direction of the connection."""
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
