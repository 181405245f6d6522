"""Read a running job's processes, their environments, and their sockets.

Reads /proc only: nothing is injected into the job, and torch is not needed. Runs on nodes.
"""

from __future__ import annotations

import errno
import os
import re
import select
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import fullmesh_ports as ports
import fullmesh_sockets as sockets
from fullmesh_foreign_text import parse_decimal

if TYPE_CHECKING:
    from fullmesh.observed.watch import JobSnapshot, WatchedProcess, WatchedSocket

# The variables that mpirun and srun set. A torchrun below them sets its own.
RANKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
TOLD = (
    *(name for pair in RANKS for name in pair),
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "JAX_COORDINATOR_ADDRESS",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
)
ENDPOINT = ("--rdzv-endpoint", "--rdzv_endpoint")
NODES = ("--nnodes",)
ADDRESS = ("--master-addr", "--master_addr")
PORT = ("--master-port", "--master_port")
LAST_PORT, MOST_RANKS = 65535, 1 << 17  # of a job
PROBE_SECONDS = 5.5  # SYNs at 0, 1 and 3 s. ARP gives up after about 3 s, later on a busy machine.
RESOLVE_SECONDS = 5.0
COMMAND_SECONDS = 5.0
MOST_READ, MOST_COMMAND_LINE = 64 << 20, 1 << 20  # bytes
MOST_PRINTED = 8 << 20  # bytes of a command's answer
OUTCOMES = {
    0: "open",
    errno.ECONNREFUSED: "refused",
    errno.ETIMEDOUT: "dropped",
    errno.ENETUNREACH: "no_network",
}
ARP_WORDS = {"failed": "no_route", "reachable": "rejected", "unknown": "unroutable"}


def read_proc_bytes(path: str, most: int = MOST_READ) -> bytes:
    """Return the beginning of a file of /proc, or b"": processes may end at any time."""
    try:
        with open(path, "rb") as stream:
            return stream.read(most)
    except OSError:
        return b""


def map_parents() -> dict[int, int]:
    """Return the parent of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            # the name in brackets may hold blanks and brackets
            rest = read_proc_bytes(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(rest) > 1 and rest[0] not in (b"Z", b"X"):
                found[int(name)] = int(rest[1])
    return found


def list_process_tree(root: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for pid, parent in map_parents().items():
        children.setdefault(parent, []).append(pid)
    found, left = [], [root]
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def find_option(words: list[str], names: tuple[str, ...]) -> str:
    """Return the value of a command-line option, ``--x=y`` or ``--x y``. The last one counts."""
    found = ""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else (words[index + 1] if index + 1 < len(words) else "")
    return found


def split_endpoint(text: str) -> tuple[str, int]:
    """Split ``host:port`` and ``[v6]:port``. Port 0 if there is none."""
    host, colon, port = text.rpartition(":")
    number = parse_decimal(port, LAST_PORT) if colon else None
    if number is None:
        return text.strip("[]"), 0
    return host.strip("[]"), number


def read_argv(pid: int) -> list[str]:
    """Return the command line of a process."""
    raw = read_proc_bytes(f"/proc/{pid}/cmdline", MOST_COMMAND_LINE)
    return [word.decode("utf-8", "replace") for word in raw.split(b"\0") if word]


def read_launch_environment(pid: int) -> dict[str, str]:
    """Return the relevant variables of a process's initial environment."""
    found = {}
    for pair in read_proc_bytes(f"/proc/{pid}/environ").split(b"\0"):
        name, equals, value = pair.partition(b"=")
        key = name.decode("utf-8", "replace")
        if equals and key in TOLD:
            found[key] = value.decode("utf-8", "replace")
    return found


def inspect_process(pid: int) -> WatchedProcess:
    """Describe one process: a rank, torchrun's agent, or another program."""
    words, environment = read_argv(pid), read_launch_environment(pid)
    endpoint = find_option(words, ENDPOINT)
    static = not endpoint and bool(find_option(words, ADDRESS))
    if static:
        endpoint = "{}:{}".format(find_option(words, ADDRESS), find_option(words, PORT) or "29500")
    host, port = split_endpoint(endpoint) if endpoint else ("", 0)
    nodes = find_option(words, NODES).partition(":")[0] or environment.get("JAX_NUM_PROCESSES", "")
    # without its number a process was not started to be one of several
    meet = (
        environment.get("JAX_COORDINATOR_ADDRESS", "") if environment.get("JAX_PROCESS_ID") else ""
    )
    return {
        "pid": pid,
        "rank": parse_decimal(environment.get("RANK"), MOST_RANKS),
        "world": parse_decimal(environment.get("WORLD_SIZE"), MOST_RANKS) or 0,
        "master": environment.get("MASTER_ADDR", ""),
        "port": parse_decimal(environment.get("MASTER_PORT", "29500"), LAST_PORT) or 0,
        "agent": (host, port) if port else None,
        "coordinator": split_endpoint(meet) if meet else None,
        # with "1:4" the job continues with one
        "nnodes": parse_decimal(nodes, MOST_RANKS) or 0,
        "groups": parse_decimal(environment.get("GROUP_WORLD_SIZE"), MOST_RANKS) or 0,
        "static": static,  # ranks follow from the node's number, not from the order of arrival
        "command": " ".join(words)[:200],
        "told": environment,
    }


def assign_ranks(found: list[WatchedProcess]) -> list[WatchedProcess]:
    """Give processes their ranks from mpirun's or srun's variables, if RANK is not set."""
    if any(one["rank"] is not None or one["agent"] for one in found):
        return found
    for one in found:
        for name, size in RANKS:
            rank = parse_decimal(one["told"].get(name), MOST_RANKS)
            if one["rank"] is None and rank is not None:
                one["rank"] = rank
                world = parse_decimal(one["told"].get(size), MOST_RANKS)
                one["world"] = world or one["world"]
    return found


def read_socket_tables(pids: list[int]) -> dict[str, sockets.SocketRow]:
    """Return inode -> socket of every network namespace that one of the processes is in."""
    found: dict[str, sockets.SocketRow] = {}
    seen = set()
    for pid in pids:
        try:
            space = os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            continue
        if space in seen:
            continue
        seen.add(space)
        for name in ("tcp", "tcp6"):
            text = read_proc_bytes(f"/proc/{pid}/net/{name}").decode("ascii", "replace")
            for row in sockets.parse_socket_table(text) if text else []:
                found[row["inode"]] = row
    return found


def observe_job(root: int) -> JobSnapshot:
    """Observe a job: its processes and their sockets."""
    pids = list_process_tree(root)
    rows = read_socket_tables(pids)
    found: list[WatchedSocket] = []
    shown = set()
    for pid in pids:
        for inode in sockets.list_socket_inodes(pid):
            # a forked child holds its parent's sockets, too
            if inode in rows and inode not in shown:
                shown.add(inode)
                found.append({**rows[inode], "pid": pid})
    others: list[WatchedSocket] = [
        {**row, "pid": 0}
        for inode, row in rows.items()
        if row["state"] == sockets.LISTEN and inode not in shown
    ]
    processes = assign_ranks([inspect_process(pid) for pid in pids])
    return {"processes": processes, "sockets": found, "others": others}


def find_socket_holder(inode: str) -> str:
    """Describe the process that holds a socket, or return "" if it is not visible."""
    for pid in sorted(map_parents()):
        if inode in sockets.list_socket_inodes(pid):
            # a program's text can be an argument
            shown = "".join(one if one.isprintable() else " " for one in " ".join(read_argv(pid)))
            return f"process {pid} ({shown[:80]})"
    return ""


class NameResolver:
    """Resolves names without making the caller wait."""

    def __init__(self) -> None:
        """Start without names."""
        self._found: dict[str, list[str] | None] = {}

    def _resolve(self, name: str) -> None:
        try:
            rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            self._found[name] = sorted({str(row[4][0]).partition("%")[0] for row in rows})
        except OSError:
            self._found[name] = []

    def addresses(self, name: str, wait: float = 0.0) -> list[str] | None:
        """Return the addresses of a name, None while waiting for the answer, [] if there are none."""
        if name not in self._found:
            self._found[name] = None
            thread = threading.Thread(target=self._resolve, args=(name,))
            thread.daemon = True
            thread.start()
            thread.join(0.2)
        deadline = time.monotonic() + wait
        while self._found[name] is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return self._found[name]


def probe_endpoint(address: str, port: int, seconds: float = PROBE_SECONDS) -> str:
    """Connect once and return the result: open, refused, rejected, no_route, dropped, or an errno's name."""
    sock = socket.socket(sockets.find_address_family(address), socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        code = sock.connect_ex((address, port))
        if code in (errno.EINPROGRESS, errno.EALREADY):
            writable = select.select([], [sock], [], seconds)[1]
            if not writable:
                return "dropped"
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    finally:
        sock.close()
    if code == errno.EHOSTUNREACH:
        return ARP_WORDS[sockets.find_path_to(address)["neighbour"]]
    return OUTCOMES.get(code) or sockets.errno_to_name(code)


def is_own_address(address: str) -> bool:
    """Return whether an address is this node's: a socket can only be bound to such an address."""
    try:
        with socket.socket(sockets.find_address_family(address), socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def capture_command(*command: str) -> str:
    """Return the output of a command, or "" if it is missing, fails, or prints too much."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return ""
    late = threading.Timer(COMMAND_SECONDS, process.kill)
    late.daemon = True
    late.start()
    with process:
        raw = process.stdout.read(MOST_PRINTED + 1) if process.stdout else b""
        if len(raw) > MOST_PRINTED:
            process.kill()
    late.cancel()
    return raw.decode("utf-8", "replace") if process.returncode == 0 else ""


# tools/firewalld.py does not lie beside a node program, so this one reads firewall-cmd itself.
def parse_active_zones(text: str) -> list[tuple[str, str, list[str]]]:
    """Parse ``firewall-cmd --get-active-zones``: zone, interfaces or sources, and their values."""
    found, zone = [], ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            zone = line.split()[0]
        elif ":" in line:
            kind, _, rest = line.strip().partition(":")
            found.append((zone, kind, rest.split()))
    return found


def find_zone_of(address: str) -> str:
    """Return the firewalld zone for packets from *address*, or "" without firewalld."""
    active = parse_active_zones(capture_command("firewall-cmd", "--get-active-zones"))
    for zone, kind, held in active:
        for source in held if kind == "sources" else []:
            if source == address:
                return zone
            if source.startswith("ipset:"):
                wanted = "--ipset=" + source[6:]
                if (
                    capture_command("firewall-cmd", wanted, "--query-entry=" + address).strip()
                    == "yes"
                ):
                    return zone
    device = sockets.find_path_to(address)["dev"]
    for zone, kind, held in active:
        if kind == "interfaces" and device in held:
            return zone
    return capture_command("firewall-cmd", "--get-default-zone").strip() if active else ""


def is_port_open_in(info: str, port: int) -> bool:
    """Return whether ``firewall-cmd --info-zone`` opens a TCP port, or may: rich rules and services are not parsed."""
    held = {}
    for line in info.splitlines():
        name, colon, rest = line.strip().partition(":")
        if colon:
            held[name] = rest.strip()
    if held.get("target") == "ACCEPT":
        return True
    rich = re.findall(r'port port="([0-9-]+)" protocol="tcp"', info.partition("rich rules:")[2])
    entries = [*held.get("ports", "").split(), *(f"{span}/tcp" for span in rich)]
    return bool(ports.is_port_listed(entries, port))


def has_open_policy(zone: str, port: int) -> bool:
    """Return whether a policy opens a TCP port for a zone, or may: the sources of its rules are not parsed."""
    for line in capture_command("firewall-cmd", "--get-active-policies").splitlines():
        if not line or line[0].isspace():
            continue
        info = capture_command("firewall-cmd", "--info-policy=" + line.split()[0])
        held = dict(re.findall(r"^ +(ingress-zones|egress-zones): *(.*)$", info, re.MULTILINE))
        ways = held.get("ingress-zones", "").split()
        bound = ("ANY" in ways or zone in ways) and "HOST" in held.get("egress-zones", "")
        if bound and (is_port_open_in(info, port) or has_accept_all_rule(info)):
            return True
    return False


def has_accept_all_rule(info: str) -> bool:
    """Return whether a rich rule accepts all packets of its source."""
    return bool(re.search(r'rule [^\n]*source (?:ipset|address)="[^"]+" accept', info))


def find_blocking_zone(address: str, port: int) -> str:
    """Return this node's zone that blocks *address* from a port, or "" if there is none or it is unknown."""
    zone = find_zone_of(address)
    if not zone:
        return ""
    info = capture_command("firewall-cmd", "--info-zone=" + zone)
    shut = info and not is_port_open_in(info, port) and not has_open_policy(zone, port)
    return zone if shut else ""
