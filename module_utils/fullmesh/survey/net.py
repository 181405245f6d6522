"""Survey a node's network for a diagnosis: interfaces, routes, neighbours, sockets, counters, namespaces.

Reads /proc and /sys, and uses ip if only that has the data. Output is limited.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from typing import TYPE_CHECKING

from ..facts.sockets import (
    LISTEN,
    list_socket_inodes,
    read_socket_table,
    run_ip,
)
from ..facts.sysctl import normalize_value, sysctl_key_to_path
from ..foreign_text import LARGEST_NUMBER, parse_decimal, parse_tool_json
from ..tools import ip
from . import job_accounts
from .lookup import look_up_names
from .queues import read_queue_drops

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from ..schema.ports import PortRange
    from ..schema.survey import (
        ChangedSetting,
        Listener,
        Neighbour,
        NeighbourTable,
        NetworkNamespace,
        Nic,
        ReverseName,
        Route,
        SocketSummary,
    )

    Entry = TypeVar("Entry")

TIME_WAIT = 6
BY_HAND = (
    "PERMANENT",
    "NOARP",
)  # states of an entry that the kernel never refreshes, ip-neighbour(8)
UNCOUNTED = ("NOARP", "NONE")  # multicast addresses, and entries that were never queried
SETTINGS_MOST = 200
PEERS_MOST = 256  # limit of routes and neighbours that are queried one by one
LISTENERS_MOST = 200
NAMESPACES_MOST = 16
COMMANDS_MOST = 8  # of a namespace: enough to recognise a container
CLONE_NEWNET = 0x40000000
# Counters that explain lost or refused packets in this kernel, from /proc/net/netstat and /proc/net/snmp.
COUNTERS = (
    "TcpExt.IPReversePathFilter",
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "TcpExt.TCPReqQFullDrop",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.TCPTimeouts",
    "Tcp.RetransSegs",
    "Tcp.OutSegs",
    "Tcp.InErrs",
    "Ip.OutNoRoutes",
    "Ip.InAddrErrors",
    "Ip.ReasmFails",
    "Ip.FragFails",
    "Ip.InDiscards",
    "Ip.OutDiscards",
    "Ip.InHdrErrors",
    "IpExt.InNoRoutes",
    "IpExt.InCsumErrors",
    "TcpExt.TCPMD5NotFound",
    "TcpExt.TCPMD5Unexpected",
    "TcpExt.TCPMD5Failure",
    "TcpExt.TCPAORequired",
    "TcpExt.TCPAOKeyNotFound",
    "TcpExt.TCPMinTTLDrop",
    "TcpExt.TCPMemoryPressures",
    "TcpExt.TCPZeroWindowDrop",
    "TcpExt.TCPRcvQDrop",
    "TcpExt.PAWSPassive",
    "TcpExt.PAWSEstab",
    "TcpExt.PFMemallocDrop",
)
XFRM = "/proc/net/xfrm_stat"
SYSCTLS = (
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_local_reserved_ports",
    "net/core/somaxconn",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_syn_retries",
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/all/arp_ignore",
    "net/ipv4/conf/all/arp_filter",
    "net/ipv4/neigh/default/gc_thresh3",
    "net/ipv6/neigh/default/gc_thresh3",
    "net/ipv6/conf/all/disable_ipv6",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_count",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_tcp_loose",
    "fs/file-max",
    "kernel/pid_max",
)


def read_kernel_file(path: str, limit: int = 65536) -> str:
    """Return a file of /proc or /sys, or "" if it is missing or unreadable."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limit).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def parse_whole_number(text: str) -> int:
    """Parse a whole number. 0 for anything else."""
    return parse_decimal(text.strip(), least=-LARGEST_NUMBER) or 0


def read_interface_addresses() -> dict[str, list[str]]:
    """Return addresses with prefix by interface."""
    return ip.parse_addresses(run_ip(*ip.SHOW_ADDRESSES[1:]))


def find_interface_of(address: str, addresses: dict[str, list[str]]) -> str:
    """Return the interface that has an address, or "". *addresses*: those of all interfaces."""
    for name, held in addresses.items():
        if any(one.split("/")[0] == address for one in held):
            return name
    return ""


def survey_interface(name: str, held: dict[str, list[str]]) -> Nic:
    """Describe an interface. Errors and drops are counted since it came up."""
    base = "/sys/class/net/" + name
    flags = read_kernel_file(base + "/flags")
    found: Nic = {
        "name": name,
        "index": parse_whole_number(read_kernel_file(base + "/ifindex")),
        "mac": read_kernel_file(base + "/address").lower(),
        "mtu": parse_whole_number(read_kernel_file(base + "/mtu")),
        "carrier": read_kernel_file(base + "/carrier") == "1",
        "running": bool(int(flags or "0", 16) & 0x1),
        "state": read_kernel_file(base + "/operstate"),
        "speed": max(0, parse_whole_number(read_kernel_file(base + "/speed"))),
        "duplex": read_kernel_file(base + "/duplex"),
        "physical": os.path.exists(base + "/device"),
        "addresses": held.get(name, []),
        "rp_filter": read_kernel_file("/proc/sys/net/ipv4/conf/" + name + "/rp_filter"),
        "errors": {
            key: parse_whole_number(read_kernel_file(base + "/statistics/" + key))
            for key in ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_crc_errors")
        },
    }
    if os.path.exists(base + "/master"):
        found["master"] = os.path.basename(os.path.realpath(base + "/master"))
        kind = read_kernel_file(base + "/master/uevent").partition("DEVTYPE=")[2]
        found["master_kind"] = kind.partition("\n")[0]
    return found


def survey_interfaces(held: dict[str, list[str]]) -> list[Nic]:
    """Return every interface in the kernel's order, which Gloo and NCCL use as well. *held*: their addresses."""
    try:
        names = [n for n in os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net/" + n)]
    except OSError:
        names = []
    found = [survey_interface(name, held) for name in names[:PEERS_MOST]]
    return sorted(found, key=lambda nic: nic["index"])


def survey_routes(peers: list[str]) -> dict[str, Route]:
    """Return the kernel's route to each peer, and whether it has the peer's neighbour entry."""
    found: dict[str, Route] = {}
    for peer in peers[:PEERS_MOST]:
        routes = ip.parse_routes(run_ip(*ip.build_route_command(peer)[1:]))
        way = routes[0] if routes else None
        kind = way["kind"] if way else ""
        found[peer] = {
            "via": way["via"] if way else "",
            "dev": way["dev"] if way else "",
            "src": way["source"] if way else "",
            "kind": kind if kind in ("unreachable", "blackhole", "prohibit", "local") else "",
            "found": "yes" if way and not kind else "",
        }
    return found


def survey_neighbours(peers: list[str]) -> NeighbourTable:
    """Read the neighbour table: its usage, and the peers' entries."""
    wanted, count = set(peers), 0
    entries: dict[str, Neighbour] = {}
    # without "nud all" iproute2 leaves out entries that are NOARP, as one that was made by hand may be (ipneigh.c)
    for one in ip.parse_neighbours(run_ip(*ip.build_neighbours_command("nud", "all")[1:])):
        peer, nud = one["address"], (one["states"] or ["NONE"])[-1]
        count += nud not in UNCOUNTED
        if peer in wanted and len(entries) < PEERS_MOST:
            if peer in entries and entries[peer].get("by_hand"):
                continue  # of one address on two interfaces: a state that does not change by itself
            state = "reachable" if one["mac"] else "unknown"
            entries[peer] = {
                "mac": one["mac"].lower(),
                "state": "failed" if nud in ("FAILED", "INCOMPLETE") else state,
                "dev": one["dev"],
                "by_hand": nud in BY_HAND,
            }
            if nud in BY_HAND:
                entries[peer]["nud"] = nud
    return {"count": count, "entries": entries}


def survey_sysctls() -> dict[str, str]:
    """Return kernel settings by their dotted names. Missing ones are left out."""
    found = {}
    for path in SYSCTLS:
        if os.path.exists("/proc/sys/" + path):
            found[path.replace("/", ".")] = " ".join(read_kernel_file("/proc/sys/" + path).split())
    return found


def survey_changed_sysctls(manifest: str) -> dict[str, ChangedSetting]:
    """Return the kernel settings that differ from those in Fullmesh's manifest."""
    try:
        with open(manifest) as stream:
            held = parse_tool_json(stream.read())["state"]["sysctl"]
    except FileNotFoundError:
        return {}
    found: dict[str, ChangedSetting] = {}
    for key, written in list(held.items())[:SETTINGS_MOST]:
        path = "/proc/sys/" + sysctl_key_to_path(key)
        then, now = normalize_value(written), normalize_value(read_kernel_file(path))
        if isinstance(written, str) and os.path.exists(path) and now != then:
            found[key] = {"written": then, "now": now}
    return found


def parse_counters(text: str) -> dict[str, int]:
    """Parse /proc/net/netstat or snmp, in which lines come in pairs: names, then values."""
    found = {}
    lines = text.splitlines()
    for heads, values in zip(lines[::2], lines[1::2]):
        group = heads.split(":", 1)[0]
        for name, value in zip(heads.split()[1:], values.split()[1:]):
            found[group + "." + name] = parse_whole_number(value)
    return found


def read_network_counters() -> dict[str, int]:
    """Return the kernel's counters of this network namespace."""
    held = parse_counters(read_kernel_file("/proc/net/netstat"))
    held.update(parse_counters(read_kernel_file("/proc/net/snmp")))
    found = {name: held[name] for name in COUNTERS if name in held}
    for line in read_kernel_file(XFRM).splitlines():
        name, _, value = line.partition("\t")
        found["Xfrm." + name.strip()] = parse_whole_number(value)
    found.update(read_queue_drops())
    return found


def find_socket_owners() -> dict[str, int]:
    """Return inode of a socket -> its process, with one pass over /proc."""
    found: dict[str, int] = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        for inode in list_socket_inodes(pid):
            found.setdefault(inode, int(pid))
    return found


def read_command_line(pid: int) -> str:
    """Return a command line as one line of at most 300 characters."""
    words = read_kernel_file(f"/proc/{pid}/cmdline", 4096).replace("\0", " ").strip()
    return (words or read_kernel_file(f"/proc/{pid}/comm"))[:300]


def read_process_age(pid: int) -> float:
    """Return the seconds since a process was started, -1 if unknown."""
    stat = read_kernel_file(f"/proc/{pid}/stat").rpartition(")")[2].split()
    try:
        started = int(stat[19]) / float(os.sysconf("SC_CLK_TCK"))
        return round(max(0.0, float(read_kernel_file("/proc/uptime").split()[0]) - started), 1)
    except (IndexError, ValueError):
        return -1.0


def find_pid_owner(pid: int | str) -> int:
    """Return the owner of a process, -1 if it has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def find_priority_accounts() -> set[int]:
    """Return the accounts that take precedence if entries are left out: root, and those that run jobs."""
    entries = map(job_accounts.find_account_entry, job_accounts.find_unit_accounts())
    return {0, *(one.pw_uid for one in entries if one)}


def select_fair_share(
    entries: Sequence[tuple[int, Entry]], most: int, first: set[int]
) -> tuple[list[Entry], int]:
    """Return a limited number of the entries in their order, and the number left out.

    No account gets all places. Those of the *first* accounts come first, then one of each other account in turn.

    Args:
        entries: (uid, entry).
        most: the limit.
        first: accounts.
    """
    turns: dict[int, int] = {}
    ranked = []
    for place, (uid, _) in enumerate(entries):
        turns[uid] = turns.get(uid, 0) + 1
        ranked.append((uid not in first, turns[uid], place))
    kept = sorted(place for _, _, place in sorted(ranked)[:most])
    return [entries[place][1] for place in kept], len(entries) - len(kept)


def describe_left_out(count: int, what: str) -> str:
    """Return a sentence about entries that are left out, or ""."""
    return f"{count} more {what} were left out" if count else ""


def survey_sockets(span: PortRange) -> tuple[SocketSummary, str]:
    """Return the listeners and the usage of the local port range, and a sentence about listeners left out."""
    rows = read_socket_table()
    held = find_socket_owners()
    all_listening = [
        (find_pid_owner(held[r["inode"]]) if r["inode"] in held else 0, r)
        for r in rows
        if r["state"] == LISTEN
    ]
    kept, left = select_fair_share(all_listening, LISTENERS_MOST, find_priority_accounts())
    listening: list[Listener] = []
    for row in kept:
        pid = held.get(row["inode"], 0)
        listening.append(
            {
                "address": row["address"],
                "port": row["port"],
                "pid": pid,
                "process": read_kernel_file(f"/proc/{pid}/comm") if pid else "",
                "command": read_command_line(pid) if pid else "",
                "age": read_process_age(pid) if pid else -1.0,
            }
        )
    inside = [r for r in rows if r["port"] in span]
    found: SocketSummary = {
        "listening": listening,
        "in_range": len({r["port"] for r in inside}),
        "time_wait": sum(r["state"] == TIME_WAIT for r in inside),
        "total": len(rows),
    }
    return found, describe_left_out(left, "listeners")


def read_namespace_port_range(namespace: str) -> str:
    """Return the port range of another network namespace, read in a child process, or "" if that is not allowed."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            handle = os.open(namespace, os.O_RDONLY)
            libc = ctypes.CDLL(None, use_errno=True)
            said = b""
            if libc.setns(handle, CLONE_NEWNET) == 0:
                text = read_kernel_file("/proc/thread-self/net/dev")
                cards_here = [line.split(":")[0].strip() for line in text.splitlines()[2:]]
                if [name for name in cards_here if name != "lo"]:  # only lo: a sandboxed service
                    said = read_kernel_file("/proc/sys/net/ipv4/ip_local_port_range").encode()
            os.write(into, said)
        finally:
            os._exit(0)
    os.close(into)
    try:
        return os.read(out, 100).decode("ascii", "replace")
    finally:
        os.close(out)
        os.waitpid(child, 0)


def survey_namespaces() -> tuple[list[NetworkNamespace], str]:
    """Return the port ranges of containers on this node.

    A new network namespace never inherits the range that is set on the node.
    """
    mine = os.readlink("/proc/self/ns/net")
    pids: dict[str, list[int]] = {}
    for pid in sorted(filter(str.isdecimal, os.listdir("/proc")), key=int):
        try:
            inode = os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            continue
        if inode != mine:
            pids.setdefault(inode, []).append(int(pid))
    owned = [(find_pid_owner(inside[0]), inside) for inside in pids.values()]
    kept, left = select_fair_share(owned, NAMESPACES_MOST, find_priority_accounts())
    found: list[NetworkNamespace] = [
        {
            "pid": inside[0],
            "commands": [read_command_line(pid) for pid in inside[:COMMANDS_MOST]],
            "port_range": " ".join(read_namespace_port_range(f"/proc/{inside[0]}/ns/net").split()),
        }
        for inside in kept
    ]
    return [one for one in found if one["port_range"]], describe_left_out(left, "namespaces")


def look_up_reverse_name(address: str) -> ReverseName:
    """Resolve a peer's name as TCPStore does for every client, and measure the time."""
    begun = time.monotonic()
    try:
        name = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
    except (OSError, UnicodeError):
        name = ""
    return {"name": name, "seconds": round(time.monotonic() - begun, 3)}


def look_up_addresses(name: str, seconds: float) -> tuple[list[str], str]:
    """Return a name's addresses of both families in the order in which Gloo tries them, or why there are none."""
    found = look_up_names({name: 0}, seconds)[name] if name else []
    return (found, "") if found is not None else ([], "no answer in time")


def find_duplicate_addresses(interface: str, address: str) -> list[str]:
    """Probe the link for other hosts with this IPv4 address.

    Returns their MACs (RFC 5227 probe, needs root). [] without an interface.

    A probe with an all-zero sender changes no neighbour table.
    """
    if not interface:
        return []
    try:
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
    except OSError:
        return []
    found: list[str] = []
    try:
        link.bind((interface, 0x0806))
        mac = link.getsockname()[4]
        head = b"\xff" * 6 + mac + struct.pack("!H", 0x0806)
        body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + b"\0" * 4
        link.send(head + body + b"\0" * 6 + socket.inet_aton(address))
        ends = time.monotonic() + 0.3
        while len(found) < 8:  # noqa: PLR2004 (names enough of them)
            left = ends - time.monotonic()
            if left <= 0:
                break
            link.settimeout(left)
            packet = link.recv(128)
            sender, holder = packet[22:28], packet[28:32]
            if packet[20:22] == b"\0\2" and holder == socket.inet_aton(address) and sender != mac:
                shown = ":".join(f"{byte:02x}" for byte in sender)
                if shown not in found:
                    found.append(shown)
    except OSError:  # time is over, or the interface is down
        pass
    finally:
        link.close()
    return found
