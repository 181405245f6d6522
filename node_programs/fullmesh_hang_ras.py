# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Query NCCL's own monitoring (RAS, NCCL 2.24 and newer) for the ranks on this node.

Only this machine is queried.

RAS has no authentication and accepts commands that change a job (CONTROL, 2.31), so only the two reading commands are
sent, and only to a loopback address. A rank without a report may hang as well (NCCL's user guide, Troubleshooting,
RAS).
"""

from __future__ import annotations

import re
import socket
import time
from typing import TYPE_CHECKING, Any

import fullmesh_hang_answer as hang_answer
import fullmesh_hang_border as hang_border
import fullmesh_hang_evidence as hang_evidence
import fullmesh_sockets as sockets
import fullmesh_watch_look as watch_look
from fullmesh_foreign_text import parse_decimal, parse_foreign_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fullmesh.observed.hang import RasStatus

    Known = tuple[dict[int, RasStatus], str]

ADDRESS, PORT = "localhost", 28028  # NCCL_RAS_ADDR's default
VARIABLES = ("NCCL_RAS_ADDR", "NCCL_RAS_ENABLE")
SECONDS = 6.0  # it waits 5 s itself for a process that does not answer
LARGEST = 16 << 20  # about 500 bytes a rank and communicator
QUESTION = b"SET FORMAT json\nTIMEOUT 4\nSTATUS\n"
MOST = 4  # reported collectives of a rank
MOST_KINDS = 64  # kinds of collectives (NCCL has about 10)
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
ANY = {4: "0.0.0.0", 6: "::"}  # noqa: S104 (compared)
# NCCL before 2.29.2 writes a missing rank's data without the comma between these two
LACKS_COMMA = re.compile(rb'("nvml_dev": -?\d+)(?=\s+"status":)')
UID_AT = 7  # of a line of /proc/net/tcp (proc_net(5))


def find_ras_endpoint(env: Mapping[str, str]) -> tuple[str, int]:
    """Return the RAS address of a job with this environment. Port 0 if RAS is off or not on loopback."""
    if env.get("NCCL_RAS_ENABLE") == "0":
        return "", 0
    host, _, port = env.get("NCCL_RAS_ADDR", f"{ADDRESS}:{PORT}").rpartition(":")
    host = host.strip("[]")
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return "", 0
    return host, parse_decimal(port, watch_look.LAST_PORT) or 0


def find_port_listeners(port: int) -> Iterator[tuple[int, str, int]]:
    """Yield the listeners on a port of this machine: the address's family, the address, the account."""
    for family, name in ((4, "tcp"), (6, "tcp6")):
        lines = (
            watch_look.read_proc_bytes(f"/proc/net/{name}").decode("ascii", "replace").splitlines()
        )
        for line in lines[1:]:
            words = line.split()
            here, _, number = words[1].partition(":")
            if int(words[3], 16) == sockets.LISTEN and int(number, 16) == port:
                yield family, sockets.decode_address(here), int(words[UID_AT])


def choose_loopback(host: str, port: int, uids: set[int]) -> str:
    """Choose the loopback address that one of these accounts listens on, from the kernel's data.

    Raises:
        OSError: there is no listener, or it belongs to another account.
    """
    strangers = set()
    for family, wanted in LOOPBACK.items():
        target = wanted if host == ADDRESS else host
        if (":" in target) != (":" in wanted):
            continue
        found = {
            uid
            for kind, address, uid in find_port_listeners(port)
            if address in (target, ANY[family]) or (kind > family and address == ANY[kind])
        }
        if found and found <= uids:
            return target
        strangers |= found
    if strangers:
        raise OSError(
            f"another account listens there (uid {min(strangers)}), so it was not queried"
        )
    raise ConnectionRefusedError("no process listens there")


def ask_status(host: str, port: int) -> bytes:
    """Return the answer about a job.

    Raises:
        OSError: there is no listener, or no answer came.
    """
    came = bytearray()
    end = time.monotonic() + SECONDS
    with socket.create_connection((host, port), SECONDS) as sock:
        sock.sendall(QUESTION)
        for part in hang_answer.receive_answer(sock, end):
            came += part
            if len(came) > LARGEST:
                break
    return bytes(came)


def parse_status(raw: bytes) -> dict[str, Any]:
    """Return the status in an answer.

    Raises:
        ValueError: it is not JSON: NCCL before 2.28.7.
    """
    # each command is acknowledged before
    text = LACKS_COMMA.sub(rb"\1,", raw[raw.index(b"{") :])
    found = parse_foreign_json(text, most_bytes=LARGEST)
    if not isinstance(found, dict):
        raise TypeError("it is not a status")
    return found


def is_local_address(address: str) -> bool:
    """Return whether an address is this machine's. Other machines use the same process numbers."""
    family = sockets.find_address_family(address)
    try:
        socket.inet_pton(family, address.partition("%")[0])  # a name would be resolved by DNS
    except (OSError, ValueError):
        return False
    return watch_look.is_own_address(address)


def find_lagging_ranks(
    ranks: list[dict[str, Any]],
) -> Iterator[tuple[dict[str, Any], str, int, int]]:
    """Yield rank, collective, its count, and the higher count of other ranks in the communicator."""
    kinds = sorted({kind for one in ranks for kind in one["collective_counts"]})
    if len(kinds) > MOST_KINDS:
        raise ValueError(f"it counts {len(kinds)} kinds of collectives")
    for kind in kinds:
        counts = [int(one["collective_counts"].get(kind, 0)) for one in ranks]
        most = max(counts)
        for one, count in zip(ranks, counts):
            if count < most:
                yield one, kind[: hang_border.LONGEST_NAME], count, most


def of_here(said: Mapping[str, Any]) -> dict[int, RasStatus]:
    """Return process -> status, for processes on this machine with a finding.

    Raises:
        KeyError, TypeError, ValueError: it is not a status of RAS.
    """
    found: dict[int, RasStatus] = {}
    here: dict[str, bool] = {}

    def local(one: Mapping[str, Any]) -> RasStatus | None:
        host = str(one["host"])
        if host not in here:
            here[host] = is_local_address(host)
        silent: RasStatus = {"answers": True, "dead": False, "behind": []}
        return found.setdefault(int(one["pid"]), silent) if here[host] else None

    for communicator in said["communicators"]:
        for one in communicator.get("missing_ranks", []):
            mine = local(one)
            if mine is not None:
                mine["answers"] = mine["answers"] and not one["status"]["unresponsive"]
                mine["dead"] = mine["dead"] or bool(one["status"]["considered_dead"])
        for one, kind, count, most in find_lagging_ranks(communicator.get("ranks", [])):
            mine = local(one)
            if mine is not None and len(mine["behind"]) < MOST:
                mine["behind"].append({"kind": kind, "count": count, "most": most})
    return {
        pid: one for pid, one in found.items() if one["behind"] or not one["answers"] or one["dead"]
    }


def read_ras_status(env: Mapping[str, str], pid: int, uid: int) -> Known:
    """Return the RAS report on the processes here, and the reason if it is missing.

    Args:
        env, pid, uid: a rank's environment, process and account. Only listeners of this account or root are queried.
    """
    host, port = find_ras_endpoint(env)
    if not port:
        return {}, ""
    if hang_evidence.is_in_other_network(pid):
        return (
            {},
            "NCCL's RAS listens in a different network than this one: the rank is in a container",
        )
    try:
        uids = {0, uid, hang_border.read_effective_uid(pid)} - hang_border.read_overflow_uids(
            "self"
        )
        return of_here(parse_status(ask_status(choose_loopback(host, port, uids), port))), ""
    except OSError as exc:
        return {}, f"NCCL's RAS at {host}:{port} does not answer: {exc.strerror or exc}"
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        why = hang_border.describe_read_error(exc)
        return {}, f"NCCL's RAS at {host}:{port} does not support JSON (NCCL before 2.28.7): {why}"
