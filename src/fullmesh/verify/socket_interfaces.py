"""The interfaces that GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME select."""

from __future__ import annotations

from collections.abc import Sequence

from fullmesh.observed.survey import Nic

INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
LOOPBACK = "lo"


def is_matched_by_nccl(value: str, name: str) -> bool:
    """Return whether NCCL would use an interface: prefixes, ``=`` exact names, ``^`` exceptions (NCCL, os/linux.cc)."""
    other, exact = value.startswith("^"), value.lstrip("^").startswith("=")
    wanted = [w for w in value.lstrip("^").lstrip("=").split(",") if w]
    hit = any(
        name == w.split(":")[0] if exact else name.startswith(w.split(":")[0]) for w in wanted
    )
    return hit != other


def select_interfaces(value: str, variable: str, cards: Sequence[Nic]) -> list[str]:
    """Return the interfaces that a variable selects on a node."""
    if variable == "GLOO_SOCKET_IFNAME":
        wanted = [w.strip() for w in value.split(",") if w.strip()]
        return [card["name"] for card in cards if card["name"] in wanted]
    return [card["name"] for card in cards if is_matched_by_nccl(value, card["name"])]
