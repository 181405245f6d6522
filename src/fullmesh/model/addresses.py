"""Parse addresses as users write them, and check the rules for a cluster's addresses."""

from __future__ import annotations

import ipaddress
import re

from fullmesh.node_values import ADDRESS, HOST_NAME, PREFIXED_ADDRESS

Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_prefixed_address(text: object) -> Interface:
    """Read an address with its prefix, such as ``10.0.0.11/24`` or ``fd00::11/64``.

    Raises:
        ValueError: no prefix, or an address that no host can have (network, broadcast, loopback, multicast,
            link-local: peers would need a scope to reach it).
    """
    written = str(text)
    if "/" not in written:
        raise ValueError(f"{written!r} has no prefix. Write it like 10.0.0.11/24")
    try:
        if not PREFIXED_ADDRESS.match(written):
            raise ValueError("it has other characters than an address and a prefix length")
        value = ipaddress.ip_interface(written)
    except ValueError as error:
        raise ValueError(f"{written!r} is not an address: {error}") from error
    reason = _explain_unusable_address(value)
    if reason:
        raise ValueError(f"{written!r} {reason}")
    return value


def _explain_unusable_address(value: Interface) -> str:
    address, network = value.ip, value.network
    if address.is_loopback:
        return "is a loopback address, which no peer can reach"
    if address.is_multicast or address.is_unspecified:
        return "is not the address of one host"
    if address.is_link_local:
        return "is link-local, but peers need an address that works from every node"
    roomy = network.prefixlen < network.max_prefixlen - 1  # RFC 3021: a /31 has no network address
    if roomy and address == network.network_address:
        return f"is the address of the network {network} itself"
    if roomy and value.version == 4 and address == network.broadcast_address:  # noqa: PLR2004 (IP version)
        return f"is the broadcast address of {network}"
    return ""


def parse_bare_address(text: object) -> Address:
    """Read an address without a prefix.

    Raises:
        ValueError: not an address.
    """
    written = str(text)
    try:
        # ipaddress takes any text behind "%", line feeds too
        if ADDRESS.match(written):
            return ipaddress.ip_address(written)
    except ValueError:
        pass
    raise ValueError(f"{written!r} is not an address")


def parse_network(text: object, *, strict: bool = True) -> Network:
    """Read a network, such as ``10.0.0.0/24``. An address alone is a network of one.

    Raises:
        ValueError: not a network. If *strict*: also an address with host bits.
    """
    written = str(text)
    if "%" in written:
        raise ValueError(f"{written!r} has an IPv6 zone, which no network has")
    return ipaddress.ip_network(written, strict=strict)


def join_host_port(address: Address, port: int) -> str:
    """Format ``10.0.0.11:29400`` or ``[fd00::11]:29400`` (RFC 3986 3.2.2)."""
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"  # noqa: PLR2004 (IP version)


def is_address(text: str) -> bool:
    """Return whether *text* is an IPv4 or IPv6 address without a prefix."""
    try:
        parse_bare_address(text)
    except ValueError:
        return False
    return True


def is_host_name(text: object) -> bool:
    """Return whether *text* is a valid name for /etc/hosts, and not an address."""
    written = str(text)
    if not HOST_NAME.match(written):
        return False
    return not re.fullmatch(r"[0-9.]+", written)


def split_host_port(text: str) -> tuple[str, int]:
    """Read ``host``, ``host:port``, ``[v6]:port`` or a bare IPv6 address.

    Raises:
        ValueError: the port is not a number.
    """
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, int(rest.lstrip(":") or 0)
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, int(port)
    return text, 0
