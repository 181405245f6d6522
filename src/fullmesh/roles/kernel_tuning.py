"""Derive a node's kernel settings, each with its reason, and check the user's values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.membership import ROOM_LEAST, compute_rank_room
from fullmesh.model.ports import CONNECTIONS_PER_RANK, parse_range
from fullmesh.observed.ports import PortRange, parse_port_ranges
from fullmesh.observed.sysctl import KernelSetting, Rule, SessionLimits

CODES: dict[str, str] = {
    "KT-101": "Link speed or round-trip time give no usable TCP buffer",
    "KT-102": "kernel_tuning_sysctls names a key that the cluster plan decides",
    "KT-103": "kernel_tuning_sysctls has a key or value that sysctl cannot read",
    "KT-104": "kernel_tuning_nofile is too small for the world size, or is not a number",
    "KT-105": "The pinned ports or the reserved ports differ from the plan",
    "KT-110": "The kernel did not accept a value",
    "KT-111": "kernel_tuning_nofile is above the node's fs.nr_open",
    "KT-112": "A file that the system reads later overrides a value at boot",
    "KT-113": "A key cannot be set on a real host, or a key that must be set cannot",
    "KT-114": "Ports inside the data range are reserved for another program",
    "KT-115": "A limit cannot be granted on a real host",
    "KT-201": "A key cannot be set in this container (the other keys are set)",
    "KT-202": "A limit cannot be granted in this container (the other limits are set)",
}

BUFFER_FLOOR = 16777216  # 16 MiB, which one stream needs for 10 Gbit/s and 13 ms
BUFFER_CEILING = 2147483647  # the kernel keeps buffer sizes in an int
QUEUE_FLOOR = 4096
NEIGHBOURS_ROOMY = ROOM_LEAST
FILES_PER_RANK = 4  # sockets per peer and process of Gloo, the store and NCCL (faults.md 47)
LOCAL_PORTS = "net.ipv4.ip_local_port_range"
RESERVED_PORTS = "net.ipv4.ip_local_reserved_ports"
# As in sysctl.d(5), without globs: a glob cannot be read back.
KEY = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_@:-]+)+\Z")


def compute_buffer_bytes(link_gbit: float, rtt_ms: float) -> int:
    """Compute the bytes that one stream sends in a round trip, times 2, and at least 16 MiB.

    Twice, because the kernel counts its own bookkeeping against the buffer (tcp_adv_win_scale).
    """
    product = float(link_gbit) * 1e9 / 8 * float(rtt_ms) / 1e3
    return max(BUFFER_FLOOR, -(-int(2 * product) // 4096) * 4096)


def build_kernel_settings(
    local_ports: str,
    reserved_ports: Sequence[object],
    world_size: int,
    options: Mapping[str, Any],
) -> list[KernelSetting]:
    """Return every key with value, rule and reason, in the order of the drop-in.

    Args:
        local_ports: ``50000 54095``, the plan's data range.
        reserved_ports: the plan's named ports and those of services, ``29400``, ``10002-13999``.
        world_size: ranks in the cluster.
        options: ``link_gbit``, ``rtt_ms``, ``rail_interfaces`` and ``sysctls`` (the user's own, which take
            precedence).
    """
    found = _build_port_settings(local_ports, reserved_ports)
    found += _build_buffer_settings(
        compute_buffer_bytes(float(options["link_gbit"]), float(options["rtt_ms"])), options
    )
    # for the next power of two, so that one more node changes nothing on the others (model/membership.py)
    ranks = compute_rank_room(int(world_size))
    found += _build_connection_settings(max(QUEUE_FLOOR, CONNECTIONS_PER_RANK * ranks))
    if ranks > NEIGHBOURS_ROOMY:
        found += _build_neighbour_settings(ranks)
    found += _build_rail_settings(options["rail_interfaces"])
    own = {_normalize_sysctl_key(key): str(value) for key, value in options["sysctls"].items()}
    kept = [entry for entry in found if entry["key"] not in own]
    return kept + [
        _make_kernel_setting(key, value, "exact", "kernel_tuning_sysctls asks for it.")
        for key, value in own.items()
    ]


def _make_kernel_setting(  # noqa: PLR0913 (two flags by name)
    key: str,
    value: object,
    rule: Rule,
    reason: str,
    *,
    must: bool = False,
    if_present: bool = False,
) -> KernelSetting:
    return {
        "key": key,
        "value": str(value),
        "rule": rule,
        "reason": reason,
        "must": must,
        "if_present": if_present,
    }


def _build_port_settings(local: str, reserved: Sequence[object]) -> list[KernelSetting]:
    return [
        _make_kernel_setting(
            LOCAL_PORTS,
            " ".join(local.split()),
            "exact",
            "The firewall opens exactly this range to the peers. Gloo and NCCL listen on ports that the kernel\n"
            "picks from it. Neither accepts a list of ports (pytorch/gloo#54, NVIDIA/nccl#388).",
            must=True,
        ),
        _make_kernel_setting(
            RESERVED_PORTS,
            ",".join(str(span) for span in sorted(_parse_reserved_spans(reserved))),
            "ports",
            "Ports of store, rendezvous and services, so that no outgoing connection uses them. Merged with the\n"
            "ports that this node had reserved, because the value replaces the kernel's whole list.",
            must=True,
        ),
    ]


def _parse_reserved_spans(reserved: Sequence[object]) -> list[PortRange]:
    return parse_port_ranges(",".join(map(str, reserved)))


def _build_buffer_settings(size: int, options: Mapping[str, Any]) -> list[KernelSetting]:
    why = f"{options['link_gbit']} Gbit/s x {options['rtt_ms']} ms x 2, at least 16 MiB"
    return [
        _make_kernel_setting(
            "net.core.rmem_max", size, "floor", f"Largest buffer that a program may request: {why}."
        ),
        _make_kernel_setting("net.core.wmem_max", size, "floor", "The same for sending."),
        _make_kernel_setting(
            "net.ipv4.tcp_rmem",
            f"4096 131072 {size}",
            "floor",
            "Smallest, initial and largest buffer of the kernel's own tuning (tcp(7)). The first two are defaults.",
        ),
        _make_kernel_setting(
            "net.ipv4.tcp_wmem", f"4096 16384 {size}", "floor", "The same for sending."
        ),
        _make_kernel_setting(
            "net.ipv4.tcp_mtu_probing",
            1,
            "floor",
            "If a path has a smaller MTU and loses ICMP, a job starts but hangs on the first 4 MB. RFC 4821 finds\n"
            "the size without ICMP.",
        ),
        _make_kernel_setting(
            "net.ipv4.tcp_slow_start_after_idle",
            0,
            "exact",
            "Collectives come in bursts. A slow start after every pause delays each of them (tcp(7)).",
        ),
        _make_kernel_setting(
            "net.core.netdev_max_backlog",
            16384,
            "floor",
            "All peers answer at once, which overflows the kernel's 1000 packets (column 2 of softnet_stat).",
        ),
    ]


def _build_connection_settings(queue: int) -> list[KernelSetting]:
    return [
        _make_kernel_setting(
            "net.core.somaxconn",
            queue,
            "floor",
            "All ranks connect to rank 0's store at once. With a short queue, init took 11 times as long\n"
            "(measured, 48 ranks).",
        ),
        _make_kernel_setting(
            "net.ipv4.tcp_max_syn_backlog",
            queue,
            "floor",
            "The same for incomplete handshakes.",
        ),
        _make_kernel_setting(
            "net.ipv4.tcp_fin_timeout",
            30,
            "exact",
            "Half-closed sockets of the last job release their port sooner.",
        ),
    ]


def _build_neighbour_settings(world: int) -> list[KernelSetting]:
    top = max(8192, 4 * world)
    reason = "A full mesh fills the neighbour table: with 1024 entries, 1024 of 4032 links worked (measured)."
    levels = ((1, top // 4), (2, top // 2), (3, top))
    return [
        _make_kernel_setting(
            f"net.{family}.neigh.default.gc_thresh{level}",
            value,
            "floor",
            reason,
            if_present=family == "ipv6",
        )
        for family in ("ipv4", "ipv6")
        for level, value in levels
    ]


def _build_rail_settings(interfaces: Sequence[str]) -> list[KernelSetting]:
    values = (
        (
            "arp_ignore",
            1,
            "A rail's NIC answers ARP for its own addresses only. Otherwise peers send a rail's packets to another\n"
            "NIC of this node on the same switch or port.",
        ),
        ("arp_announce", 2, "The same for the sender's address in its own ARP requests."),
        (
            "rp_filter",
            2,
            "Loose: packets between two rails may arrive on the other NIC. With 1, the kernel drops them.",
        ),
    )
    # in a name with dots (a VLAN), sysctl(8) writes them as slashes
    return [
        _make_kernel_setting(
            f"net.ipv4.conf.{nic.replace('.', '/')}.{name}", value, "exact", reason
        )
        for nic in interfaces
        for name, value, reason in values
    ]


def _normalize_sysctl_key(key: object) -> str:
    """Normalize ``net/ipv4/x`` to ``net.ipv4.x``. The first separator decides (sysctl.d(5))."""
    text = str(key).strip()
    slash, dot = text.find("/"), text.find(".")
    if slash != -1 and (dot == -1 or slash < dot):
        return text.translate({ord("."): "/", ord("/"): "."})
    return text


def build_session_limits(options: Mapping[str, Any]) -> SessionLimits:
    """Build the limits of every session."""
    return {"nofile": int(options["nofile"]), "memlock": str(options["memlock"])}


def find_kernel_faults(
    local_ports: object,
    reserved_ports: Sequence[Any],
    world_size: int,
    options: Mapping[str, Any],
) -> list[Fault]:
    """Return all faults in the input at once."""
    return [
        *_find_buffer_faults(options),
        *_find_sysctl_faults(options["sysctls"]),
        *_find_limit_faults(world_size, options),
        *_find_reserved_port_faults(local_ports, reserved_ports),
    ]


def _find_buffer_faults(options: Mapping[str, Any]) -> list[Fault]:
    found = []
    for name in ("link_gbit", "rtt_ms"):
        value = options[name]
        number = _parse_number(value)
        if number is None or number <= 0:
            step = "Use a number above 0, such as 25 for the link or 0.2 for the round trip"
            found.append(Fault("KT-101", f"kernel_tuning_{name} is {value!r}", step))
    if not found:
        size = compute_buffer_bytes(float(options["link_gbit"]), float(options["rtt_ms"]))
        if size > BUFFER_CEILING:
            text = f"{options['link_gbit']} Gbit/s x {options['rtt_ms']} ms need buffers of {size} bytes"
            step = f"Correct both values (Gbit/s, milliseconds). The kernel accepts at most {BUFFER_CEILING}"
            found.append(Fault("KT-101", text, step))
    return found


def _parse_number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(str(value))
    except ValueError:
        return None


def _find_sysctl_faults(sysctls: object) -> list[Fault]:
    if not isinstance(sysctls, Mapping):
        step = "Write a mapping, such as {net.ipv4.tcp_keepalive_time: 600}"
        return [Fault("KT-103", f"kernel_tuning_sysctls is {sysctls!r}", step)]
    found = []
    for key, value in sysctls.items():
        where = f"kernel_tuning_sysctls: {key}"
        if not KEY.match(str(key)):
            step = "Write it like net.ipv4.tcp_keepalive_time, without * or spaces"
            found.append(Fault("KT-103", f"{where} is not a sysctl name", step))
        elif _normalize_sysctl_key(key) in (LOCAL_PORTS, RESERVED_PORTS):
            step = "Set fullmesh_data_ports or fullmesh_services instead, because firewall and kernel must agree"
            found.append(Fault("KT-102", f"{where} is decided by the cluster plan", step))
        elif isinstance(value, bool) or value is None or not _is_one_line(value):
            step = "Write numbers or words on one line, 1 and 0 instead of yes and no"
            found.append(Fault("KT-103", f"{where} = {value!r} is not a sysctl value", step))
    return found


def _is_one_line(value: object) -> bool:
    text = str(value)
    return isinstance(value, (str, int, float)) and text.strip() != "" and text.isprintable()


def _find_limit_faults(world_size: int, options: Mapping[str, Any]) -> list[Fault]:
    found = []
    nofile, memlock = options["nofile"], str(options["memlock"])
    least = max(1024, FILES_PER_RANK * int(world_size))
    if isinstance(nofile, bool) or parse_decimal(str(nofile), least=least) is None:
        text = f"kernel_tuning_nofile is {nofile!r}"
        step = f"Set at least {least} for {world_size} ranks ({FILES_PER_RANK} per rank)"
        found.append(Fault("KT-104", text, step))
    if memlock != "unlimited" and parse_decimal(memlock) is None:
        text = f"kernel_tuning_memlock is {memlock!r}"
        found.append(Fault("KT-104", text, "Write unlimited, or a number of KiB"))
    return found


def _find_reserved_port_faults(local_ports: object, reserved_ports: Sequence[Any]) -> list[Fault]:
    try:
        data = parse_range(local_ports)
    except ValueError as error:
        step = "Load playbooks/vars/wiring.yml, which takes it from the plan"
        return [Fault("KT-105", f"kernel_tuning_local_ports: {error}", step)]
    inside = sorted(span for span in _parse_reserved_spans(reserved_ports) if span.shared(data))
    if inside:
        text = f"reserved port(s) {', '.join(map(str, inside))} lie inside the data range {local_ports}"
        step = "Move them or fullmesh_data_ports, because the kernel never assigns a reserved port to Gloo or NCCL"
        return [Fault("KT-105", text, step)]
    return []
