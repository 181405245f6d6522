# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Make every node's names resolve to its cluster address, and verify it with the resolver.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import glob
import os
import socket
from typing import TYPE_CHECKING, TypedDict

from . import hosts_file
from .answer import diff_file
from .facts.nsswitch import parse_nsswitch_sources
from .files import read_text_file, write_file_atomically
from .state import written
from .state.record import UndoPoint

if TYPE_CHECKING:
    from .answer import Diff

HOSTS = "/etc/hosts"
NSSWITCH = "/etc/nsswitch.conf"
ROLE = "name_resolution"
CLOUD = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg")


class ClusterHostsParams(TypedDict):
    """The parameters of cluster_hosts: the plan's lines, this node's address in them, its own names."""

    hosts: list[hosts_file.HostsEntry]
    address: str
    own_names: list[str]


class HostsChange(TypedDict):
    """The change of the file."""

    changed: bool
    diff: Diff


class HostsResultBase(HostsChange):
    """``cloud_init``: the file that makes cloud-init manage /etc/hosts, or ""."""

    cloud_init: str


class HostsResult(HostsResultBase, total=False):
    """``names``: the resolver's answers. Not in check mode, since they would come from the old file."""

    names: dict[str, list[str]]


class HostsError(Exception):
    """A coded sentence for the user."""


def check_hosts_order(nsswitch: str) -> None:
    """Refuse a resolver that queries another source before /etc/hosts."""
    sources = parse_nsswitch_sources(nsswitch)
    if sources[:1] != ["files"]:
        raise HostsError(
            "[NR-103] {} uses {} for host names, so /etc/hosts does not come first. "
            "Fix: make `files` the first source in its line `hosts:`.".format(
                NSSWITCH, " then ".join(sources) or "no source"
            )
        )


def find_cloud_init_setting() -> str:
    """Return the file that makes cloud-init manage /etc/hosts. The last file wins."""
    found = ""
    for pattern in CLOUD:
        for path in sorted(glob.glob(pattern)):
            value = hosts_file.parse_manage_etc_hosts(read_text_file(path))
            if value is not None:
                found = f"manage_etc_hosts: {value} in {path}" if value else ""
    return found


def resolve_name(name: str) -> list[str]:
    """Return the addresses of a name in the resolver's order."""
    try:
        found = socket.getaddrinfo(name, None, 0, socket.SOCK_STREAM)
    except socket.gaierror:
        return []
    addresses = [str(entry[4][0]) for entry in found]
    return sorted(set(addresses), key=addresses.index)


def configure_hosts_file(params: ClusterHostsParams, check: bool) -> HostsResult:
    """Write the differences, then query the resolver."""
    check_hosts_order(read_text_file(NSSWITCH))
    hosts = hosts_file.add_own_names(params["hosts"], params["address"], params["own_names"])
    before = read_text_file(HOSTS)
    after = hosts_file.build_hosts_file(before, hosts)
    changed = before != after
    result: HostsResult = {
        "changed": changed,
        "cloud_init": find_cloud_init_setting(),
        "diff": diff_file(HOSTS, before, after),
    }
    if changed and check:
        return result
    if changed:
        write_file_atomically(os.path.realpath(HOSTS), after)
    result["names"] = {name: resolve_name(name) for host in hosts for name in host["names"]}
    wrong = hosts_file.describe_wrong_answers(hosts, result["names"])
    if wrong:
        raise HostsError(
            "[NR-104] Names do not resolve to their cluster address: {}. "
            "Check: `getent ahosts NAME` and {} on the node.".format("; ".join(wrong), NSSWITCH)
        )
    return result


def load_original_hosts() -> tuple[str, str]:
    """Return the file's kind (empty without an undo point) and text from the undo point."""
    point = UndoPoint("", ROLE)
    then = point.load()["files"].get(HOSTS)
    if then is None:
        return "", ""
    return then["kind"], point.blob(then).decode("utf-8", "surrogateescape")


def restore_hosts_file(check: bool) -> HostsChange:
    """Remove Fullmesh's block. If nothing else has changed, restore the original file byte for byte."""
    kind, then = load_original_hosts()
    before = read_text_file(HOSTS)
    after = before
    if kind == "file" and written.load_known_files("", ROLE).get(HOSTS) == written.fingerprint_text(
        before
    ):
        after = then
    elif kind and hosts_file.BEGIN in before.split("\n"):
        after = hosts_file.remove_hosts_block(before, then)
    changed = before != after
    if changed and not check:
        if kind == "absent" and not after:
            os.unlink(HOSTS)
        else:
            write_file_atomically(os.path.realpath(HOSTS), after)
    return {"changed": changed, "diff": diff_file(HOSTS, before, after)}
