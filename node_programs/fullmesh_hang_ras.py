# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What NCCL's own watch (RAS, NCCL 2.24 and newer) knows of the ranks on this node. Asked on this machine alone.

RAS asks nobody for a password and takes commands that change a job (CONTROL, 2.31), so only the two that read are sent,
and only to a loopback address. Its silence is no sign of health: a rank that it says nothing of may stand all the same
(NCCL's user guide, Troubleshooting, RAS).
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fullmesh.observed.hang import Ras

ADDRESS, PORT = "localhost", 28028  # NCCL_RAS_ADDR's default
SECONDS = 6.0  # it waits 5 s itself for a process that does not answer
LARGEST = 32 << 20  # about 500 bytes a rank and communicator
QUESTION = b"SET FORMAT json\nTIMEOUT 4\nSTATUS\n"
MOST = 4  # collectives of a rank that are told


def place(env: Mapping[str, str]) -> tuple[str, int]:
    """Where RAS of a job with this environment listens; port 0 where it does not, or not for this machine alone."""
    if env.get("NCCL_RAS_ENABLE") == "0":
        return "", 0
    host, _, port = env.get("NCCL_RAS_ADDR", f"{ADDRESS}:{PORT}").rpartition(":")
    host = host.strip("[]")
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return "", 0
    return host, int(port) if port.isdigit() else 0


def ask(host: str, port: int) -> dict[str, Any]:
    """The status of a job.

    Raises:
        OSError: nobody listens there, or no answer came.
        ValueError: the answer is no JSON: NCCL before 2.28.7.
    """
    came = b""
    with socket.create_connection((host, port), SECONDS) as sock:
        sock.sendall(QUESTION)
        sock.settimeout(SECONDS)
        while True:
            part = sock.recv(1 << 16)
            came += part
            if not part or len(came) > LARGEST:
                break
    text = came.decode("utf-8", "replace")  # each command is acknowledged before
    found: dict[str, Any] = json.loads(text[text.index("{") :])
    return found


def is_here(address: str) -> bool:
    """Whether an address is this machine's: the same process numbers are on others as well."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def behind(ranks: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str, int, int]]:
    """Rank, collective, how often it launched that, how often others of its communicator did, where it is less."""
    for kind in sorted({kind for one in ranks for kind in one["collective_counts"]}):
        counts = [int(one["collective_counts"].get(kind, 0)) for one in ranks]
        for one, count in zip(ranks, counts):
            if count < max(counts):
                yield one, kind, count, max(counts)


def of_here(said: Mapping[str, Any]) -> dict[int, Ras]:
    """Process -> what is said of it, of the processes on this machine of which there is something to say.

    Raises:
        KeyError, TypeError, ValueError: it is no status of RAS.
    """
    found: dict[int, Ras] = {}
    here: dict[str, bool] = {}

    def local(one: Mapping[str, Any]) -> Ras | None:
        host = str(one["host"])
        if host not in here:
            here[host] = is_here(host)
        silent: Ras = {"answers": True, "dead": False, "behind": []}
        return found.setdefault(int(one["pid"]), silent) if here[host] else None

    for communicator in said["communicators"]:
        for one in communicator.get("missing_ranks", []):
            mine = local(one)
            if mine is not None:
                mine["answers"] = mine["answers"] and not one["status"]["unresponsive"]
                mine["dead"] = mine["dead"] or bool(one["status"]["considered_dead"])
        for one, kind, count, most in behind(communicator.get("ranks", [])):
            mine = local(one)
            if mine is not None and len(mine["behind"]) < MOST:
                mine["behind"].append({"kind": kind, "count": count, "most": most})
    return {
        pid: one for pid, one in found.items() if one["behind"] or not one["answers"] or one["dead"]
    }


def known(env: Mapping[str, str]) -> tuple[dict[int, Ras], str]:
    """What RAS of a job says of the processes here, and why it says nothing where it should."""
    host, port = place(env)
    if not port:
        return {}, ""
    try:
        return of_here(ask(host, port)), ""
    except OSError as exc:
        return {}, f"NCCL's RAS at {host}:{port} does not answer: {exc.strerror or exc}"
    except (KeyError, TypeError, ValueError):
        return {}, f"NCCL's RAS at {host}:{port} knows no JSON, as before NCCL 2.28.7"
