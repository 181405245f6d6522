# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Resolve names as a job does, and handle names that have no answer.

If no name server knows a name without dots, systemd-resolved asks the link's neighbours (LLMNR, RFC 4795, and mDNS, RFC
6762), and repeats that for about 4 s before it fails. A neighbour has 100 ms to answer and up to 100 ms of jitter (RFC
4795, 7: LLMNR_TIMEOUT on IEEE 802 media, JITTER_INTERVAL). After three times as long, it is enough to ask resolved
whether its name servers know the name (org.freedesktop.resolve1(5) has the flags). Standard library only.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING

from ..facts.nsswitch import parse_nsswitch_sources
from ..facts.sockets import find_address_family
from ..foreign_text import parse_foreign_json

if TYPE_CHECKING:
    from ..schema.ladder import HostLine, ResolvedNames

RESOLVED = "/run/systemd/resolve/io.systemd.Resolve"
NSSWITCH, RESOLV_CONF = "/etc/nsswitch.conf", "/etc/resolv.conf"
# Sources that answer at once, or are resolved itself. With others, the silent one cannot be identified.
IMMEDIATE = frozenset(("files", "myhostname", "mymachines", "resolve", "dns"))
STUBS = frozenset(("127.0.0.53", "127.0.0.54"))
DNS_ONLY = 1  # SD_RESOLVED_DNS of org.freedesktop.resolve1(5): name servers, and no neighbours
NO_SUCH = frozenset(
    "io.systemd.Resolve." + word
    for word in ("NoNameServers", "NoSuchResourceRecord", "NetworkDown")
)
NXDOMAIN = 3  # RFC 1035, 4.1.1
NEIGHBOUR_SECONDS = 0.6
ANSWER_SECONDS = 0.5
MOST = 65536
AT_ONCE = 64
# Up to this number, every name is reported with its answer. Beyond it, only names that differ from the plan are.
NAMES_IN_FULL = 64
NAME_SECONDS = 3.0  # for all names together: a silent DNS server must not cost more


def look_up_name(name: str, family: int) -> list[str]:
    """Resolve a name as torch does. [] if it has no answer."""
    try:
        answers = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    found: list[str] = []
    for answer in answers:
        address = str(answer[4][0])
        if address not in found:
            found.append(address)
    return found


def read_resolver_file(path: str) -> str:
    """Return a small file's text, or ""."""
    try:
        with open(path, errors="replace") as stream:
            return stream.read(MOST)
    except OSError:
        return ""


def is_resolved_in_use() -> bool:
    """Return whether names are resolved by systemd-resolved, and by no other slow source."""
    # actions in brackets are no sources (nsswitch.conf(5))
    sources = [
        word for word in parse_nsswitch_sources(read_resolver_file(NSSWITCH)) if word[0].isalpha()
    ]
    if not sources or not set(sources) <= IMMEDIATE:
        return False
    words = [line.split() for line in read_resolver_file(RESOLV_CONF).splitlines()]
    servers = {word[1] for word in words if len(word) > 1 and word[0] == "nameserver"}
    return servers <= STUBS if "dns" in sources and servers else "resolve" in sources


def query_resolved(name: str, family: int) -> dict[str, object]:
    """Return the answer of resolved's name servers alone (its varlink interface), or {}."""
    want = {"name": name, "flags": DNS_ONLY, **({"family": family} if family else {})}
    question = {"method": "io.systemd.Resolve.ResolveHostname", "parameters": want}
    said = b""
    try:
        with socket.socket(socket.AF_UNIX) as there:
            there.settimeout(ANSWER_SECONDS)
            there.connect(RESOLVED)
            there.sendall(json.dumps(question).encode() + b"\0")
            while not said.endswith(b"\0"):
                block = there.recv(4096)
                said += block
                if not block or len(said) > MOST:
                    return {}
        answer = parse_foreign_json(said[:-1])
    except (OSError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


def is_unknown_name(name: str, family: int) -> bool:
    """Return whether no name server has the name, so that only neighbours could still answer."""
    answer = query_resolved(name, family)
    error, more = answer.get("error"), answer.get("parameters")
    rcode = more.get("rcode") if isinstance(more, dict) else None
    return error in NO_SUCH or (error == "io.systemd.Resolve.DNSError" and rcode == NXDOMAIN)


def look_up_names(wanted: dict[str, int], seconds: float) -> dict[str, list[str] | None]:
    """Resolve all names at once.

    None for names without an answer in time.

    Args:
        wanted: name -> address family, 0 for both.
        seconds: for all of them together.
    """
    results: dict[str, list[str] | None] = dict.fromkeys(wanted)
    gate = threading.Semaphore(AT_ONCE)

    def work(name: str, family: int) -> None:
        with gate:
            results[name] = look_up_name(name, family)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in wanted.items()]
    for thread in threads:
        thread.start()
    begun = time.monotonic()

    def wait_until(moment: float) -> None:
        for thread in threads:
            thread.join(max(0.0, moment - time.monotonic()))

    wait_until(begun + min(seconds, NEIGHBOUR_SECONDS))
    found = dict(results)
    # more than these were not asked at once, and have not waited for their neighbours
    if len(wanted) <= AT_ONCE and None in found.values() and is_resolved_in_use():
        for name, family in wanted.items():
            if found[name] is None and is_unknown_name(name, family):
                found[name] = []
    if None in found.values():
        wait_until(begun + seconds)
        found = {name: found[name] if results[name] is None else results[name] for name in wanted}
    return found


def observe_names(hosts: list[HostLine], own: str) -> ResolvedNames:
    """Resolve every name of the plan and this node's own."""
    wanted = {str(n): find_address_family(h["address"]) for h in hosts for n in h["names"]}
    mine = socket.gethostname()
    wanted.setdefault(mine, find_address_family(own))
    answers = look_up_names(wanted, NAME_SECONDS)
    own_answers = answers[mine]
    if len(hosts) > NAMES_IN_FULL:
        planned = {str(n): str(h["address"]) for h in hosts for n in h["names"]}
        answers = {
            n: a for n, a in answers.items() if n in planned and get_first_address(a) != planned[n]
        }
    return {"hostname": mine, "own": own_answers, "plan": answers}


def get_first_address(answers: list[str] | None) -> str:
    """Return the address that a job would use, or ""."""
    return answers[0] if answers else ""
