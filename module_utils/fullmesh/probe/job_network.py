# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Repeat the connections from inside the network of a container that runs ranks.

By default, docker and podman give a container its own network, with an address that no other host knows, behind NAT.
Outgoing connections work and incoming ones do not, because Gloo and NCCL announce the inside address. Runs on nodes:
standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
from typing import TYPE_CHECKING

from ..foreign_text import parse_decimal, parse_foreign_json
from ..survey.job_accounts import is_rank_environment, read_raw_environment
from ..survey.net import read_command_line, read_interface_addresses
from .job_account import select_targets_by_verdict
from .pairs import probe_links

if TYPE_CHECKING:
    from typing import Any, Callable

    from ..schema.ladder import JobNetwork, LinkResult, ProbeOrigin, ProbeTarget

CLONE_NEWNET = 0x40000000  # linux/sched.h
MOST = 4  # networks that are tried (a node's ranks mostly share one)
LARGEST = 4 << 20
LOOPBACKS = ("127.", "::1", "localhost")
NEITHER = ("127.", "::1", "fe80:")


def is_multi_node_job(environment: bytes) -> bool:
    """Return whether a rank's job runs on several nodes.

    A job inside one container needs no peers.

    torchrun sets the number of local ranks. Other launchers set a master that is not loopback.
    """
    if not is_rank_environment(environment):
        return False
    words = (one.partition(b"=") for one in environment.split(b"\0"))
    values = {name: value.decode("utf-8", "replace") for name, _, value in words}
    world = parse_decimal(values.get(b"WORLD_SIZE", ""))
    here = parse_decimal(values.get(b"LOCAL_WORLD_SIZE", "1"))
    alone = world is None or (here is not None and world <= here)
    return not alone and not values[b"MASTER_ADDR"].startswith(LOOPBACKS)


def find_ranks_by_namespace() -> dict[str, int]:
    """Return network namespace -> a rank in it, without this process's namespace."""
    mine = os.readlink("/proc/self/ns/net")
    found: dict[str, int] = {}
    for pid in sorted(filter(str.isdecimal, os.listdir("/proc")), key=int):
        with contextlib.suppress(OSError):
            inode = os.readlink(f"/proc/{pid}/ns/net")
            if (
                inode != mine
                and inode not in found
                and is_multi_node_job(read_raw_environment(pid))
            ):
                found[inode] = int(pid)
        if len(found) >= MOST:
            break
    return found


def run_in_network_namespace(pid: int, work: Callable[[], Any]) -> Any:
    """Run *work* in a child process in the network namespace of *pid*. None if that failed."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(out)
            handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET) == 0:
                with os.fdopen(into, "w") as stream:
                    json.dump(work(), stream)
        finally:
            os._exit(0)  # never back into Ansible's wrapper
    os.close(into)
    with os.fdopen(out, "rb") as stream:
        said = stream.read(LARGEST)
    os.waitpid(child, 0)
    try:
        return parse_foreign_json(said)
    except ValueError:
        return None


def probe_job_networks(
    targets: list[ProbeTarget], links: list[LinkResult], me: ProbeOrigin, seconds: float
) -> list[JobNetwork]:
    """Probe the peers from the network namespaces of containers that run ranks.

    Needs root.

    Args:
        targets: listeners.
        links: the results of this process' own connections to them.
        me: the origin of the connections.
        seconds: deadline of one try.
    """
    if os.geteuid() != 0:
        return []
    wanted = select_targets_by_verdict(targets, links)
    found: list[JobNetwork] = []
    for pid in find_ranks_by_namespace().values():

        def look() -> Any:
            held = [
                one.split("/")[0]
                for listed in read_interface_addresses().values()
                for one in listed
            ]
            # any source address will do: the peers report the one they see
            links = probe_links(wanted, {**me, "address": ""}, seconds, max(1, len(wanted)))
            return [[one for one in held if not one.startswith(NEITHER)], links]

        said = run_in_network_namespace(pid, look)
        if said is None:
            continue
        addresses, probed = said
        seen = [one["source"] for one in probed if one["verdict"] == "open" and one["source"]]
        found.append(
            {
                "pid": pid,
                "command": read_command_line(pid),
                "addresses": addresses,
                "tried": len(wanted),
                "links": [one for one in probed if one["verdict"] != "open"],
                "seen_as": seen[0] if seen else "",
            }
        )
    return found
