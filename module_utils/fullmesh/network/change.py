# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Compute a change of a node's links: files and commands to apply and to revert it. Standard library only."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TYPE_CHECKING

from ..answer import diff_file, make_diff
from ..foreign_text import parse_decimal
from ..schema.links import RAIL_TABLE, RAIL_TABLES
from ..state.record import UndoPoint
from ..transaction import engine, session
from . import owner as network_owner
from . import reach, static_ip
from .backends import netplan
from .backends.common import HEAD
from .checks import list_required_interfaces
from .machine import LinkError, NetworkNode, read_ssh_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..answer import Diff
    from ..state.record import NetworkBefore
    from ..tools.ip import IpLink
    from ..transaction.engine import FileContent, OwnChanges
    from .types import DetailedRoute, LinkSettings

NAME = "static_ip"

# A line about name servers or search domains, in the words of any owner.
RESOLVER = re.compile(r"^\s*(dns|nameservers|domains?\b)", re.IGNORECASE | re.MULTILINE | re.ASCII)


def diff_links(
    root: str, old: Mapping[str, str], new: Mapping[str, FileContent | None], faults: list[str]
) -> list[Diff]:
    """Return the diff of each file that changes, and of the kernel's faults.

    Foreign files may have passwords. Fullmesh's own files only have data of the plan, so they are always shown.
    """
    shown = []
    for path, content in sorted(new.items()):
        before, after = old.get(path, ""), content["text"] if content else ""
        if before == after:
            continue
        if all(not text or text.startswith(HEAD) for text in (before, after)):
            shown.append(make_diff(path, before, after))
        else:
            shown.append(diff_file(path, before, after, root, content["mode"] if content else None))
    if faults:
        shown.append(make_diff("the kernel's view", "\n".join(faults) + "\n", ""))
    return shown


class LinkChange:
    """The files and commands of one transaction, computed before any change."""

    def __init__(
        self, node: NetworkNode, links: list[LinkSettings], owners: dict[str, str]
    ) -> None:
        self.node = node
        self.links = network_owner.prepare_links(node.read, node.listed, links)
        self.owners = owners
        self.old: dict[str, str] = network_owner.read_own_files(node.read, node.listed)
        self.ours: dict[str, str] = {}
        # {interface: addresses} that no link means any more
        self.dropped: dict[str, list[str]] = {}
        self.changes: dict[str, str | None] = dict.fromkeys(self.old)
        for name in sorted(set(owners.values())):
            backend, mine = network_owner.get_backend(name), self.of(name)
            self.ours.update(backend.build_files(mine))
            self.changes.update(backend.build_files(mine))
            try:
                self.changes.update(backend.find_foreign_changes(node.read, node.listed, mine))
            except network_owner.ForeignError as exc:
                raise LinkError(f"[IP-118] {exc}") from exc
        stand = {path: node.read(path) for path in self.changes}
        self.before_text = stand
        self.changes = {
            path: content
            for path, content in self.changes.items()
            if content is None or content != stand[path] or not self.private(path)
        }

    def of(self, owner: str) -> list[LinkSettings]:
        """Return the links of one owner."""
        return [link for link in self.links if self.owners[link["interface"]] == owner]

    def rewritten(self, link: LinkSettings) -> list[str]:
        """Return the changed files of a link, including foreign files for the same interface."""
        backend, name = network_owner.get_backend(self.owners[link["interface"]]), link["interface"]
        alone = [one for one in self.links if one["interface"] == name]
        about = {*backend.build_files(alone)}
        about |= {*backend.find_foreign_changes(self.node.read, self.node.listed, alone)}
        return sorted(about & {*self.changes})

    def untried(
        self, link: LinkSettings, seen: Mapping[str, IpLink], routes: list[DetailedRoute]
    ) -> list[str]:
        """Describe changes in the files of a link whose state is right: if adopted, they come with the next boot."""
        paths = self.rewritten(link)
        if not paths:
            return []
        extra = static_ip.find_surplus_state(link, seen, routes)
        extra = [f"{one}, which the files no longer give" for one in extra]
        if link.get("mac"):
            extra.append(
                "whether the owner finds {} by its MAC shows only then".format(link["interface"])
            )
        either = [one for path in paths for one in (self.before_text[path], self.changes[path])]
        if any(RESOLVER.search(one or "") for one in either):
            extra.append(
                "name servers or search domains of {} may change".format(link["interface"])
            )
        return extra

    def mode(self, path: str) -> int:
        """Return the owner's mode for Fullmesh's files. Foreign files keep their mode."""
        for name in set(self.owners.values()):
            if path in network_owner.get_backend(name).build_files(self.of(name)):
                return network_owner.get_backend(name).get_file_mode(path)
        try:
            return os.stat(self.node.root + path).st_mode & 0o7777
        except OSError:
            return 0o644

    def private(self, path: str) -> bool:
        """Return whether a file has the right mode."""
        try:
            have = os.stat(self.node.root + path).st_mode & 0o7777
        except OSError:
            return False
        return have == self.mode(path)

    def validate(self) -> None:
        """Let each owner's own tool check the new files."""
        for name in sorted(set(self.owners.values())):
            scratch = network_owner.build_scratch_files(
                name, self.node.read, self.node.listed, self.changes
            )
            said = (
                network_owner.get_backend(name).check_files(self.node.run, scratch)
                if self.changes
                else ""
            )
            if said:
                raise LinkError(
                    f"[IP-106] {name} rejects the links: {said}. Nothing was written. "
                    "Fix: correct the links, or the reported file."
                )

    def touched(self, links: list[LinkSettings] | None = None) -> list[str]:
        """Return every interface whose state changes or may change, including parents of VLANs.

        If systemd-networkd cannot create a VLAN on an interface, it gives up that interface, without its lease.
        """
        every = self.links if links is None else links
        names = [
            *network_owner.list_affected_interfaces(every),
            *(name for link in every for name in list_required_interfaces(link)),
        ]
        return list(dict.fromkeys(names))

    def snapshot(self) -> NetworkBefore:
        """Return the run-time state, from each owner and from the kernel."""
        names = {one: self.touched(self.of(one)) for one in sorted(set(self.owners.values()))}
        found = {
            one: network_owner.with_remade(
                self.of(one),
                network_owner.get_backend(one).read_snapshot(self.node.run, names[one]),
            )
            for one in sorted(names)
        }
        return {
            "owners": found,
            "names": names,
            "runtime": engine.read_kernel_view(self.watched()),
        }

    def watched(self) -> list[str]:
        """Return the interfaces that must be restored if the change is not confirmed."""
        return list_watched_interfaces(self.node, [*self.touched(), *self.dropped])

    def steps(self, before: NetworkBefore, wait: int, names: list[str]) -> list[list[str]]:
        """Return the commands that activate the new files."""
        found: list[list[str]] = []
        for one in sorted(before["owners"]):
            found += network_owner.get_backend(one).build_activation_commands(
                self.of(one), before["owners"][one], wait, names
            )
        return found

    def files(self) -> dict[str, FileContent | None]:
        """Return the files that the transaction writes."""
        return {
            path: None if content is None else {"text": content, "mode": self.mode(path)}
            for path, content in self.changes.items()
        }

    def list_given(self) -> OwnChanges:
        """Return the addresses that the change adds, so that a rollback deletes nothing else."""
        addresses = {
            link["interface"]: [str(ipaddress.ip_interface(one)) for one in link["addresses"]]
            for link in self.links
        }
        return {"addresses": addresses, "routes": [], "links": self.touched()}

    def words(self) -> str:
        """Describe the change briefly."""
        parts = []
        for link in self.links:
            words = [link["interface"] + ":", ", ".join(link["addresses"])]
            words += ["gateway " + link["gateway"]] if link.get("gateway") else []
            words += ["MTU {}".format(link["mtu"])] if link.get("mtu") else []
            parts.append(" ".join([*words, "({})".format(self.owners[link["interface"]])]))
        return "; ".join(parts)


def list_watched_interfaces(node: NetworkNode, names: list[str]) -> list[str]:
    """Return the interfaces to watch during a transaction: *names*, this connection's, and those of default routes."""
    server = session.get_server_address(read_ssh_session())
    every = [*names, reach.find_carrier(server, node.links())]
    every += [one["dev"] for one in node.routes() if one["to"] in ("0.0.0.0/0", "::/0")]
    return list(dict.fromkeys(name for name in every if name))


def build_restore_commands(before: NetworkBefore, tables: Iterable[int] = ()) -> list[list[str]]:
    """Return the commands that activate the old files.

    Args:
        before: the state before the change.
        tables: the routing tables of rails whose rules the change adds. Rules from before come back with the old files
            or at the end of the rollback.
    """
    found = [build_rule_removal(number) for number in tables]
    for one in sorted(before["owners"]):
        found += network_owner.get_backend(one).build_reactivation_commands(
            before["names"][one], before["owners"][one]
        )
    return found


def build_rule_removal(number: int) -> list[str]:
    """Return the command that removes the rule of a rail's table, if there is one."""
    script = 'ip -4 rule show priority "$0" | grep -q . || exit 0; ip -4 rule del priority "$0" table "$0"'
    return ["/bin/sh", "-c", script, str(number)]


def list_rail_tables(links: list[LinkSettings], rules: Iterable[list[str]]) -> list[int]:
    """List the routing tables of rails: those of *links*, and those with a rule in the kernel's view."""
    wanted = {link.get("table", 0) for link in links}
    last = RAIL_TABLE + RAIL_TABLES - 1
    wanted |= {parse_decimal(one[1], last, RAIL_TABLE) or 0 for one in rules}
    return sorted(wanted - {0})


def build_boot_commands(before: NetworkBefore) -> list[list[str]]:
    """Return the commands early in a boot, after the old files are restored.

    Only netplan's have been read by then.
    """
    if netplan.NAME not in before["owners"]:
        return []
    names, state = before["names"][netplan.NAME], before["owners"][netplan.NAME]
    return netplan.build_early_boot_commands(names, state)


def decode_file_text(content: bytes) -> str:
    """Decode a file's bytes like `NetworkNode.read`, so that both can be compared."""
    return content.decode("utf-8", "surrogateescape")


def read_original_files(node: NetworkNode) -> dict[str, FileContent | None]:
    """Return the files in the role's undo point: {path: {text, mode}, None for a missing file}."""
    point = UndoPoint(node.root, NAME)
    result: dict[str, FileContent | None] = {}
    for path, then in point.load()["files"].items():
        if then["kind"] == "file":
            result[path] = {"text": decode_file_text(point.blob(then)), "mode": then["mode"]}
        if then["kind"] not in ("file", "link"):
            result[path] = None
    return result
