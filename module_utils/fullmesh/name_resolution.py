# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Make every node's names resolve to its cluster address, and prove it with the resolver itself.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import glob
import os
import socket
from typing import TYPE_CHECKING, TypedDict

from . import hosts_file as text
from .answer import diff_file
from .files import put, read
from .state import written
from .state.record import Point

if TYPE_CHECKING:
    from .answer import Diff

HOSTS = "/etc/hosts"
NSSWITCH = "/etc/nsswitch.conf"
ROLE = "name_resolution"
CLOUD = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg")


class Wanted(TypedDict):
    """What cluster_hosts is asked for: the plan's lines, this node's address in them, its own names."""

    hosts: list[text.Host]
    address: str
    own_names: list[str]


class Changed(TypedDict):
    """Whether the file differs."""

    changed: bool
    diff: Diff


class Told(Changed):
    """``cloud_init``: where it is told to write the file, or ""."""

    cloud_init: str


class Asked(Told, total=False):
    """``names``: what the resolver answers; not in check mode, where it would answer from the old file."""

    names: dict[str, list[str]]


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


def converge(params: Wanted, check: bool) -> Asked:
    """Write what differs, then ask the resolver."""
    refuse_order(read(NSSWITCH))
    hosts = text.with_own(params["hosts"], params["address"], params["own_names"])
    before = read(HOSTS)
    after = text.render(before, hosts)
    changed = before != after
    result: Asked = {
        "changed": changed,
        "cloud_init": cloud_init(),
        "diff": diff_file(HOSTS, before, after),
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


def original() -> tuple[str, str]:
    """What the undo point has of the file: its kind (empty without a point), and its text."""
    point = Point("", ROLE)
    then = point.load()["files"].get(HOSTS)
    if then is None:
        return "", ""
    return then["kind"], point.blob(then).decode("utf-8", "surrogateescape")


def give_back(check: bool) -> Changed:
    """Take out what is ours; where nobody else has changed the file, it is the one of before, byte for byte."""
    kind, then = original()
    before = read(HOSTS)
    after = before
    if kind == "file" and written.known("", ROLE).get(HOSTS) == written.sum_of(before):
        after = then
    elif kind and text.BEGIN in before.split("\n"):
        after = text.given_back(before, then)
    changed = before != after
    if changed and not check:
        if kind == "absent" and not after:
            os.unlink(HOSTS)
        else:
            put(os.path.realpath(HOSTS), after)
    return {"changed": changed, "diff": diff_file(HOSTS, before, after)}
