"""Exchange a few lines between probe and listener, so that each authenticates the other.

listener: ``fullmesh-probe/1 NODE NONCE TIME``            every client sees this
probe:    ``fullmesh-client/1 NODE NONCE PROOF SIZE``     then SIZE bytes
listener: ``ok PROOF SOURCE``                             then SIZE bytes, once all of the probe's arrived
"""

from __future__ import annotations

import hashlib
import hmac

from ..foreign_text import parse_decimal

HELLO = "fullmesh-probe/1"
CLIENT = "fullmesh-client/1"
LINE_LIMIT = 1024
PAYLOAD_LIMIT = 16 * 1024 * 1024


def compute_proof(token: str, *parts: str) -> str:
    """Compute a proof of the run's token that does not reveal it."""
    return hmac.new(token.encode(), "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def is_same_proof(one: str, other: str) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def format_hello_line(node: str, nonce: str, now: float) -> bytes:
    """Format the listener's greeting."""
    return f"{HELLO} {node} {nonce} {now:.6f}\n".encode()


def format_client_line(token: str, node: str, theirs: str, ours: str, size: int) -> bytes:
    """Format the probe's greeting."""
    shown = compute_proof(token, "client", node, theirs, ours, str(size))
    return f"{CLIENT} {node} {ours} {shown} {size}\n".encode()


def format_ok_line(token: str, node: str, ours: str, theirs: str, source: str) -> bytes:
    """Accept the probe, and report the source address that arrived here."""
    return "ok {} {}\n".format(compute_proof(token, "server", node, ours, theirs), source).encode()


def parse_hello_line(line: bytes) -> tuple[str, str, float] | None:
    """Parse the hello line of a Fullmesh listener into node, nonce and wall clock. None for any other line."""
    part = line.decode("utf-8", "replace").split()
    if len(part) != 4 or part[0] != HELLO:  # noqa: PLR2004 (words of the line)
        return None
    try:
        return part[1], part[2], float(part[3])
    except ValueError:
        return None


def parse_client_line(line: bytes, token: str, nonce: str) -> tuple[str, str, int] | None:
    """Parse the line of a probe of this run into node, nonce and payload size. None for any other client."""
    part = line.decode("utf-8", "replace").split()
    if len(part) != 5 or part[0] != CLIENT or parse_decimal(part[4]) is None:  # noqa: PLR2004 (words)
        return None
    node, theirs, shown, size = part[1:]
    good = is_same_proof(shown, compute_proof(token, "client", node, nonce, theirs, size))
    return (node, theirs, int(size)) if good and int(size) <= PAYLOAD_LIMIT else None


def parse_ok_line(line: bytes, token: str, node: str, theirs: str, ours: str) -> str | None:
    """Return the source address that the listener saw, or None if it does not know the token."""
    part = line.decode("utf-8", "replace").split()
    if len(part) != 3 or part[0] != "ok":  # noqa: PLR2004 (words of the line)
        return None
    return (
        part[2]
        if is_same_proof(part[1], compute_proof(token, "server", node, theirs, ours))
        else None
    )
