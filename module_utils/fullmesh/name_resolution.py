# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Make every node's names resolve to its cluster address, and prove it with the resolver itself.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import glob
import os
import socket
from typing import TYPE_CHECKING

from . import hosts_file as text
from .files import put, read
from .state import written
from .state.record import Point

if TYPE_CHECKING:
    from typing import Any

    Entry = dict[str, Any]

HOSTS = "/etc/hosts"
NSSWITCH = "/etc/nsswitch.conf"
ROLE = "name_resolution"
CLOUD = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg")


class HostsError(Exception):
    """A coded sentence for the user."""


def refuse_order(nsswitch: str) -> None:
    """Refuse a resolver that asks somebody else before /etc/hosts."""
    sources = text.nsswitch_sources(nsswitch)
    if sources[:1] != ["files"]:
        raise HostsError(
            "[NR-103] {} asks {} for host names, so /etc/hosts is not the first word. "
            "Let the line `hosts:` begin with files.".format(
                NSSWITCH, " then ".join(sources) or "nobody"
            )
        )


def cloud_init() -> str:
    """Where cloud-init is told to write /etc/hosts; the last file wins."""
    found = ""
    for pattern in CLOUD:
        for path in sorted(glob.glob(pattern)):
            value = text.cloud_init_hosts(read(path))
            if value is not None:
                found = f"manage_etc_hosts: {value} in {path}" if value else ""
    return found


def resolve(name: str) -> list[str]:
    """The addresses of a name in the resolver's order."""
    try:
        found = socket.getaddrinfo(name, None, 0, socket.SOCK_STREAM)
    except socket.gaierror:
        return []
    addresses = [str(entry[4][0]) for entry in found]
    return sorted(set(addresses), key=addresses.index)


def converge(params: Entry, check: bool) -> Entry:
    """Write what differs, then ask the resolver."""
    refuse_order(read(NSSWITCH))
    hosts = text.with_own(params["hosts"], params["address"], params["own_names"])
    before = read(HOSTS)
    after = text.render(before, hosts)
    changed = before != after
    result: Entry = {
        "changed": changed,
        "cloud_init": cloud_init(),
        "diff": diff(before, after),
    }
    if changed and check:
        return result
    if changed:
        put(os.path.realpath(HOSTS), after)
    result["names"] = {name: resolve(name) for host in hosts for name in host["names"]}
    wrong = text.wrong_answers(hosts, result["names"])
    if wrong:
        raise HostsError(
            "[NR-104] names do not resolve to their cluster address: {}. "
            "See `getent ahosts NAME` and {} on the node.".format("; ".join(wrong), NSSWITCH)
        )
    return result


def diff(before: str, after: str) -> dict[str, str]:
    """The whole file, then and now."""
    return {"before": before, "after": after, "before_header": HOSTS, "after_header": HOSTS}


def original() -> tuple[str, str]:
    """What the undo point has of the file: its kind (empty without a point), and its text."""
    point = Point("", ROLE)
    then = point.load()["files"].get(HOSTS)
    if then is None:
        return "", ""
    return then["kind"], point.blob(then).decode("utf-8", "surrogateescape")


def give_back(check: bool) -> Entry:
    """Take out what is ours; where nobody else has changed the file, it is the one of before, byte for byte."""
    kind, then = original()
    before = read(HOSTS)
    after = before
    if kind == "file" and written.known("", ROLE).get(HOSTS) == written.sum_of(before):
        after = then
    elif kind and text.BEGIN in before.splitlines():
        after = text.given_back(before, then)
    changed = before != after
    if changed and not check:
        if kind == "absent" and not after:
            os.unlink(HOSTS)
        else:
            put(os.path.realpath(HOSTS), after)
    return {"changed": changed, "diff": diff(before, after)}
