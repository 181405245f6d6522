# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""A change of a node's links: the files and commands of the owners that make it and take it back. Stdlib only."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TYPE_CHECKING

from ..answer import diff, diff_file
from ..state.record import Point
from ..transaction import engine as rollback
from ..transaction import session as way_in
from . import owner as backends
from . import reach
from . import static_ip as text
from .backends.common import HEAD
from .checks import below
from .machine import LinkError, Node, our_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..answer import Diff
    from ..state.record import NetworkBefore
    from ..transaction.engine import Content, Ours
    from .types import EveryRoute, Link, SeenLink

NAME = "static_ip"

# A line about name servers or search domains, in the words of any owner.
RESOLVER = re.compile(r"^\s*(dns|nameservers|domains?\b)", re.IGNORECASE | re.MULTILINE | re.ASCII)


def diff_links(
    root: str, old: Mapping[str, str], new: Mapping[str, Content | None], faults: list[str]
) -> list[Diff]:
    """Compare each file that differs, and what the kernel lacks.

    Files of others may hold passwords. Fullmesh's own are made from the plan alone, so they are shown whatever their
    mode is.
    """
    shown = []
    for path, content in sorted(new.items()):
        before, after = old.get(path, ""), content["text"] if content else ""
        if before == after:
            continue
        if all(not text or text.startswith(HEAD) for text in (before, after)):
            shown.append(diff(path, before, after))
        else:
            shown.append(diff_file(path, before, after, root, content["mode"] if content else None))
    if faults:
        shown.append(diff("the kernel's view", "\n".join(faults) + "\n", ""))
    return shown


class Change:
    """What one transaction writes and runs, worked out before anything is touched."""

    def __init__(self, node: Node, links: list[Link], owners: dict[str, str]) -> None:
        self.node = node
        self.links = backends.prepared(node.read, node.listed, links)
        self.owners = owners
        self.old: dict[str, str] = backends.present(node.read, node.listed)
        self.ours: dict[str, str] = {}
        # {interface: addresses} that no link means any more
        self.dropped: dict[str, list[str]] = {}
        self.changes: dict[str, str | None] = dict.fromkeys(self.old)
        for name in sorted(set(owners.values())):
            backend, mine = backends.backend(name), self.of(name)
            self.ours.update(backend.files(mine))
            self.changes.update(backend.files(mine))
            try:
                self.changes.update(backend.foreign(node.read, node.listed, mine))
            except backends.ForeignError as exc:
                raise LinkError(f"[IP-118] {exc}") from exc
        stand = {path: node.read(path) for path in self.changes}
        self.before_text = stand
        self.changes = {
            path: content
            for path, content in self.changes.items()
            if content is None or content != stand[path] or not self.private(path)
        }

    def of(self, owner: str) -> list[Link]:
        """The links of one owner."""
        return [link for link in self.links if self.owners[link["interface"]] == owner]

    def rewritten(self, link: Link) -> list[str]:
        """The files of a link that change, ours and those of others for the same interface."""
        backend, name = backends.backend(self.owners[link["interface"]]), link["interface"]
        alone = [one for one in self.links if one["interface"] == name]
        about = {*backend.files(alone)}
        about |= {*backend.foreign(self.node.read, self.node.listed, alone)}
        return sorted(about & {*self.changes})

    def untried(
        self, link: Link, seen: Mapping[str, SeenLink], routes: list[EveryRoute]
    ) -> list[str]:
        """Say what the new files change of a link that is as wanted: adopted, that would come with the next boot."""
        paths = self.rewritten(link)
        if not paths:
            return []
        extra = text.surplus(link, seen, routes)
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
        """Ours as their owner wants them; a file of others keeps its mode."""
        for name in set(self.owners.values()):
            if path in backends.backend(name).files(self.of(name)):
                return int(backends.backend(name).mode(path))
        try:
            return os.stat(self.node.root + path).st_mode & 0o7777
        except OSError:
            return 0o644

    def private(self, path: str) -> bool:
        """Say whether a file has the mode that it shall have."""
        try:
            have = os.stat(self.node.root + path).st_mode & 0o7777
        except OSError:
            return False
        return have == self.mode(path)

    def validate(self) -> None:
        """Let each owner's own tool read what would stand there."""
        for name in sorted(set(self.owners.values())):
            scratch = backends.scratch(name, self.node.read, self.node.listed, self.changes)
            said = backends.backend(name).validate(self.node.run, scratch) if self.changes else ""
            if said:
                raise LinkError(
                    f"[IP-106] {name} refuses the links, nothing was written: {said}. "
                    "Fix the links, or the file that it names."
                )

    def touched(self, links: list[Link] | None = None) -> list[str]:
        """Every interface whose state changes, or may: what a VLAN stands on as well.

        systemd-networkd gives up a card on which it could not make a VLAN, and leaves it without its lease.
        """
        every = self.links if links is None else links
        names = [*backends.touched(every), *(name for link in every for name in below(link))]
        return list(dict.fromkeys(names))

    def snapshot(self) -> NetworkBefore:
        """The run-time state, in each owner's words and in ours."""
        names = {one: self.touched(self.of(one)) for one in sorted(set(self.owners.values()))}
        found = {
            one: backends.with_remade(
                self.of(one), backends.backend(one).snapshot(self.node.run, names[one])
            )
            for one in sorted(names)
        }
        return {"owners": found, "names": names, "runtime": rollback.runtime(self.watched())}

    def watched(self) -> list[str]:
        """What has to be there again when nobody confirms the change."""
        return watched(self.node, [*self.touched(), *self.dropped])

    def steps(self, before: NetworkBefore, wait: int, names: list[str]) -> list[list[str]]:
        """The commands that bring the new files into force."""
        found: list[list[str]] = []
        for one in sorted(before["owners"]):
            found += backends.backend(one).apply(self.of(one), before["owners"][one], wait, names)
        return found

    def files(self) -> dict[str, Content | None]:
        """What the transaction writes."""
        return {
            path: None if content is None else {"text": content, "mode": self.mode(path)}
            for path, content in self.changes.items()
        }

    def list_given(self) -> Ours:
        """What the change gives its interfaces, for a rollback that deletes nothing else."""
        addresses = {
            link["interface"]: [str(ipaddress.ip_interface(one)) for one in link["addresses"]]
            for link in self.links
        }
        return {"addresses": addresses, "routes": [], "links": self.touched()}

    def words(self) -> str:
        """The change in a few words."""
        parts = []
        for link in self.links:
            words = [link["interface"] + ":", ", ".join(link["addresses"])]
            words += ["gateway " + link["gateway"]] if link.get("gateway") else []
            words += ["MTU {}".format(link["mtu"])] if link.get("mtu") else []
            parts.append(" ".join([*words, "({})".format(self.owners[link["interface"]])]))
        return "; ".join(parts)


def watched(node: Node, names: list[str]) -> list[str]:
    """*names*, which change or go, our way in, every default route's interface: for the minutes of a transaction."""
    server = way_in.server_of(our_session())
    every = [*names, reach.carrier_of(server, node.links())]
    every += [one["dev"] for one in node.routes() if one["to"] in ("0.0.0.0/0", "::/0")]
    return list(dict.fromkeys(name for name in every if name))


def way_back(before: NetworkBefore) -> list[list[str]]:
    """The commands that bring old files into force again."""
    found: list[list[str]] = []
    for one in sorted(before["owners"]):
        found += backends.backend(one).restore(before["names"][one], before["owners"][one])
    return found


def at_boot(before: NetworkBefore) -> list[list[str]]:
    """The commands early in a boot, once the old files are back; only netplan's have been read by then."""
    if "netplan" not in before["owners"]:
        return []
    steps: list[list[str]] = backends.backend("netplan").at_boot(
        before["names"]["netplan"], before["owners"]["netplan"]
    )
    return steps


def as_text(content: bytes) -> str:
    """The bytes of a file as `Node.read` returns them, so that the two can be compared."""
    return content.decode("utf-8", "surrogateescape")


def original_files(node: Node) -> dict[str, Content | None]:
    """What the undo point of the role has kept: {path: {text, mode}, None where there was none}."""
    point = Point(node.root, NAME)
    result: dict[str, Content | None] = {}
    for path, then in point.load()["files"].items():
        if then["kind"] == "file":
            result[path] = {"text": as_text(point.blob(then)), "mode": then["mode"]}
        if then["kind"] not in ("file", "link"):
            result[path] = None
    return result
