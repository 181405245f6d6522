# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The addresses of a node: one transaction over whoever owns its interfaces. Stdlib only."""

from __future__ import annotations

import glob
import io
import os
import re
import time
from typing import TYPE_CHECKING

from ..state.record import Point
from ..transaction import engine as rollback
from ..transaction import session as way_in
from . import give_back, reach
from . import owner as backends
from . import static_ip as text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Entry = dict[str, Any]
    Runner = Callable[[list[str]], tuple[int, str, str]]

ETHERNET = "1"  # ARPHRD_ETHER, linux/if_arp.h
POLL_SECONDS = 0.3
# What confirming takes after the last look at the kernel.
RESERVE_SECONDS = 2.0
# Before the engine ends the command: the owner's own words say more than that.
OWNER_SECONDS = rollback.APPLY_SECONDS - 5
NAME = "static_ip"


# A line about name servers or search domains, in the words of any owner.
RESOLVER = re.compile(r"^\s*(dns|nameservers|domains?\b)", re.IGNORECASE | re.MULTILINE)


class LinkError(Exception):
    """A coded sentence for the user."""


class Node:
    """The machine: a root directory and a way to run commands, so that tests bring their own."""

    def __init__(self, run: Runner, root: str = "") -> None:
        self.run = run
        self.root = root

    def read(self, path: str) -> str:
        """Return a file's text, empty where there is none."""
        try:
            with open(self.root + path) as stream:
                return stream.read()
        except OSError:
            return ""

    def listed(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern."""
        return [path[len(self.root) :] for path in sorted(glob.glob(self.root + pattern))]

    def links(self) -> dict[str, Entry]:
        """Ask the kernel for its interfaces."""
        links: dict[str, Entry] = text.parse_links(self.run(text.SHOW)[1])
        return links

    def routes(self) -> list[dict[str, str]]:
        """Ask the kernel for its routes, both families."""
        found: list[dict[str, str]] = []
        for family in ("-4", "-6"):
            found += text.parse_routes(self.run(["ip", "-j", family, "route", "show"])[1])
        return found

    def every_route(self) -> list[Entry]:
        """The same with those that have no next hop, and who made each."""
        found: list[Entry] = []
        for family in (4, 6):
            out = self.run(["ip", "-j", f"-{family}", "route", "show"])[1]
            found += text.parse_every_route(out, family)
        return found

    def lacking(self, links: list[Entry]) -> list[str]:
        """Say what the kernel lacks of all links."""
        seen = self.links()
        # Two commands less where nobody asked for a route.
        routes = self.routes() if any(text.wanted_routes(link) for link in links) else []
        return [fault for link in links for fault in text.lacks(link, seen, routes)]

    def short(self, command: list[str]) -> tuple[int, str]:
        """Run a command for the transaction, which wants one text."""
        rc, out, err = self.run(command)
        return rc, out + err


# --- what must not be done --------------------------------------------------------------------


def made_by_us(link: Entry) -> bool:
    """Say whether the interface comes into being with the link."""
    return bool(link.get("vlan") or link.get("bond"))


def below(link: Entry) -> list[str]:
    """Name the interfaces that have to be there for a link."""
    bond, vlan = link.get("bond") or {}, link.get("vlan") or {}
    return list(bond.get("members", [])) or [vlan.get("parent") or link["interface"]]


def parent_of(link: Entry) -> str:
    """The interface that a VLAN stands on; nothing for others."""
    return str((link.get("vlan") or {}).get("parent", ""))


def refuse_missing(links: list[Entry], seen: dict[str, Entry]) -> None:
    """Refuse an interface that is not there and does not come with a link."""
    made = {link["interface"] for link in links if made_by_us(link)}
    for link in links:
        for name in below(link):
            if name not in seen and name not in made:
                raise LinkError(
                    "[IP-101] there is no interface {!r}; this node has {}. "
                    "Set fullmesh_interface to one of them, or to its MAC.".format(
                        name, ", ".join(sorted(seen))
                    )
                )


def unsupported(node: Node, interface: str) -> str:
    """Say why nobody may write this interface down as plain Ethernet."""
    base = "/sys/class/net/" + interface
    for part in ("bonding", "bridge"):
        if os.path.isdir(node.root + base + "/" + part):
            return "it is a " + {"bonding": "bond", "bridge": "bridge"}[part]
    if os.path.exists(node.root + "/proc/net/vlan/" + interface):
        return "it is a VLAN"
    kind = node.read(base + "/type").strip()
    return "" if kind == ETHERNET else f"it is no Ethernet interface (ARPHRD type {kind})"


def providers(node: Node, links: list[Entry], wanted: str) -> dict[str, str]:
    """Name the provider of each link; refuse what nobody may write down."""
    for link in links:
        why = "" if made_by_us(link) else unsupported(node, link["interface"])
        if why:
            raise LinkError(
                "[IP-103] {} cannot be configured by Fullmesh: {}. Describe it in the link (vlan, bond), or give it "
                "its address with your own tool and set static_ip_manage: false.".format(
                    link["interface"], why
                )
            )
    if wanted != "auto":
        return {link["interface"]: wanted for link in links}
    found, why_not = backends.owners(node.run, node.read, node.listed, links)
    for name, why in sorted(why_not.items()):
        raise LinkError(
            f"[IP-102] {name} cannot be configured: {why}. Install and start NetworkManager, "
            "netplan, systemd-networkd or "
            "ifupdown (see `nmcli device`), or configure the address yourself and set static_ip_manage: false."
        )
    result: dict[str, str] = found
    return result


def refuse_duplicates(links: list[Entry], seen: dict[str, Entry], fresh: bool) -> None:
    """Probe the IPv4 addresses that are not ours yet (*fresh*), or those that are; IPv6 is the kernel's job."""
    for link in links:
        state = seen.get(link["interface"], {"up": False, "addresses": []})
        have = {one["address"] for one in state["addresses"]}
        for value in text.of_family(link["addresses"], 4):
            address = value.split("/")[0]
            # with another prefix it is ours already
            if not state["up"] or fresh == (address in {one.split("/")[0] for one in have}):
                continue
            owner = reach.duplicate_of(link["interface"], state["mac"], address)
            if owner:
                raise LinkError(
                    "[IP-105] {} is already used on the link of {} by the host with MAC {}. "
                    "Give this node another address, or take it from that host.".format(
                        address, link["interface"], owner
                    )
                )


def refuse_lost_default(
    links: list[Entry],
    changing: list[Entry],
    seen: dict[str, Entry],
    routes: list[Entry],
) -> None:
    """Refuse to drop a default route that nobody may have meant to drop: ssh would miss it at the next boot."""
    for route in text.lost_defaults(links, changing, seen, routes):
        link = next(one for one in links if route["dev"] in backends.touched([one]))
        via, to, family, card = (route[key] for key in ("via", "to", "family", "dev"))
        key = (
            f'routes: [{{to: "{to}", via: "{via}"}}]' if link.get("gateway") else f"gateway: {via}"
        )
        addresses = ", ".join(f'"{one}"' for one in link["addresses"])
        raise LinkError(
            f"[IP-119] {card} carries the IPv{family} default route of this node (via {via}), and no link names it: it "
            "would go. Write it into the link; in place of fullmesh_address and fullmesh_interface that is "
            f"`fullmesh_links: [{{interface: {link['interface']}, addresses: [{addresses}], {key}}}]`. To do without "
            f"it, take it away first: `ip -{family} route del default dev {card}`. Where another tool keeps the "
            "addresses, set static_ip_manage: false."
        )


def refuse_dropped(
    lost: dict[str, list[str]],
    links: list[Entry],
    routes: list[Entry],
) -> None:
    """Refuse to let go of an interface that ssh needs: nothing would bring it up at the next boot."""
    server = way_in.server_of(our_session())
    why = {name: f"this connection, to {server}" for name in lost if server in lost[name]}
    wide = [one for one in routes if one["to"] in ("0.0.0.0/0", "::/0") and one["protocol"] != "ra"]
    elsewhere = [one for one in wide if one["dev"] not in [*lost, *backends.touched(links)]]
    given = text.with_default(links) | {one["family"] for one in elsewhere}
    for route in wide:
        if route["dev"] in lost and route["family"] not in given:
            words = f"the IPv{route['family']} default route of this node (via {route['via']})"
            why.setdefault(route["dev"], words)
    if why:
        raise LinkError(
            "[IP-120] {}: Fullmesh has configured it, and no link means it any more: the next boot would bring nothing "
            "up there. Name it in fullmesh_links beside the others; or undo what was done to this node first "
            "(playbooks/undo.yml with --limit), and run again.".format(
                "; ".join("{} carries {}".format(*one) for one in sorted(why.items()))
            )
        )


def refuse_lacking(faults: list[str], seconds: float) -> None:
    """Name the value that was read back."""
    if any("used by another host" in fault for fault in faults):
        raise LinkError(
            "[IP-105] {}. Give this node another address, or take it from that host.".format(
                "; ".join(faults)
            )
        )
    if faults:
        raise LinkError(
            f"[IP-107] the interfaces are not as wanted after {seconds} s: {'; '.join(faults)}. "
            "See `nmcli device`, `networkctl status` and `journalctl -b` on the node."
        )


def file_diff(
    old: dict[str, str], new: dict[str, str | None], faults: list[str]
) -> list[dict[str, str]]:
    """One entry a file that differs, and one for the kernel."""
    parts = [(path, old.get(path, ""), content or "") for path, content in sorted(new.items())]
    if faults:
        parts.append(("the kernel's view", "\n".join(faults) + "\n", ""))
    return [
        {"before": before, "after": after, "before_header": name, "after_header": name}
        for name, before, after in parts
        if before != after
    ]


# --- the change -------------------------------------------------------------------------------


class Change:
    """What one transaction writes and runs, worked out before anything is touched."""

    def __init__(self, node: Node, links: list[Entry], owners: dict[str, str]) -> None:
        self.node = node
        self.links = backends.prepared(node.run, node.read, node.listed, links)
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

    def of(self, owner: str) -> list[Entry]:
        """The links of one owner."""
        return [link for link in self.links if self.owners[link["interface"]] == owner]

    def rewritten(self, link: Entry) -> list[str]:
        """The files of a link that change, ours and those of others for the same interface."""
        backend, name = backends.backend(self.owners[link["interface"]]), link["interface"]
        alone = [one for one in self.links if one["interface"] == name]
        about = {*backend.files(alone)}
        about |= {*backend.foreign(self.node.read, self.node.listed, alone)}
        return sorted(about & {*self.changes})

    def untried(self, link: Entry, seen: dict[str, Entry], routes: list[Entry]) -> list[str]:
        """Say what the new files change of a link that is as wanted: adopted, that would come with the next boot."""
        paths = self.rewritten(link)
        if not paths:
            return []
        extra: list[str] = text.surplus(link, seen, routes)
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
                    "Mend the links, or the file that it names."
                )

    def touched(self, links: list[Entry] | None = None) -> list[str]:
        """Every interface whose state changes, or may: what a VLAN stands on as well.

        systemd-networkd gives up a card on which it could not make a VLAN, and leaves it without its lease.
        """
        every = self.links if links is None else links
        names = [*backends.touched(every), *(name for link in every for name in below(link))]
        return list(dict.fromkeys(names))

    def snapshot(self) -> Entry:
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

    def steps(self, before: Entry, wait: int, names: list[str]) -> list[list[str]]:
        """The commands that bring the new files into force."""
        found: list[list[str]] = []
        for one in sorted(before["owners"]):
            found += backends.backend(one).apply(self.of(one), before["owners"][one], wait, names)
        return found

    def files(self) -> Entry:
        """What the transaction writes."""
        return {
            path: None if content is None else {"text": content, "mode": self.mode(path)}
            for path, content in self.changes.items()
        }

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


def our_session() -> list[str]:
    """Return the SSH_CONNECTION that carries this call: client, port, server, port."""
    words: list[str] = way_in.session(os.environ, os.getppid())
    return words


def way_back(before: Entry) -> list[list[str]]:
    """The commands that bring old files into force again."""
    found: list[list[str]] = []
    for one in sorted(before["owners"]):
        found += backends.backend(one).restore(before["names"][one], before["owners"][one])
    return found


def at_boot(before: Entry) -> list[list[str]]:
    """The commands early in a boot, once the old files are back; only netplan's have been read by then."""
    if "netplan" not in before["owners"]:
        return []
    steps: list[list[str]] = backends.backend("netplan").at_boot(
        before["names"]["netplan"], before["owners"]["netplan"]
    )
    return steps


def as_text(content: bytes) -> str:
    """The bytes of a file as `Node.read` returns them: with its line ends, so that the two can be compared."""
    with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8") as stream:
        return stream.read()


def original_files(node: Node) -> Entry:
    """What the undo point of the role has kept: {path: {text, mode}, None where there was none}."""
    point = Point(node.root, NAME)
    result: Entry = {}
    for path, then in point.load()["files"].items():
        if then["kind"] == "file":
            result[path] = {"text": as_text(point.blob(then)), "mode": then["mode"]}
        if then["kind"] not in ("file", "link"):
            result[path] = None
    return result


# --- one call ---------------------------------------------------------------------------------


class Links:
    """One call of the module."""

    def __init__(self, node: Node, params: Entry, check: bool) -> None:
        self.node = node
        self.links: list[Entry] = params["links"]
        self.params = params
        self.check = check

    def present(self) -> Entry:
        """Work the change out, refuse what cannot work, arm and start."""
        seen = self.node.links()
        refuse_missing(self.links, seen)
        faulty = [link for link in self.links if self.node.lacking([link])]
        owners = providers(self.node, self.links, self.params["provider"])
        if self.params["check_duplicates"]:
            refuse_duplicates(faulty, seen, fresh=True)
        change = Change(self.node, self.links, owners)
        change.dropped = text.dropped(change.old.values(), self.links, seen)
        if change.dropped:
            refuse_dropped(change.dropped, self.links, self.node.every_route())
        stirred, words = self.stirred(change, faulty, seen)
        change.validate()
        faults = self.node.lacking(faulty)
        changed = bool(faulty or change.changes)
        moves = self.moves(stirred, seen)
        heard: dict[str, list[str]] = {"answered": [], "silent": []}
        if changed and not self.check:
            heard = self.heard()
            self.start(change, stirred)
        names = [link["interface"] for link in self.links]
        brought = {link["interface"] for link in stirred}
        return {
            "changed": changed,
            "needed": changed,
            "remembered": Point(self.node.root, NAME).exists(),
            "armed": changed and not self.check,
            "providers": owners,
            "files": sorted(change.ours),
            "paths": sorted(change.changes),
            "interfaces": change.touched(),
            "adopted": [name for name in names if changed and name not in brought],
            "lacking": faults,
            "moves_to": moves,
            "tried": change.words(),
            "diff": file_diff(change.before_text, change.changes, faults + words),
            **heard,
        }

    def stirred(
        self, change: Change, faulty: list[Entry], seen: dict[str, Entry]
    ) -> tuple[list[Entry], list[str]]:
        """The links that are brought up anew, and what else than *faulty* says speaks for it.

        What is adopted is confirmed without being tried. So a link is adopted only where its new files give all that
        the kernel has: what they drop would work until the next boot, and lock us out then.
        """
        if not faulty and not change.changes:
            return [], []
        routes = self.node.every_route()
        rewritten = [link for link in self.links if change.rewritten(link)]
        refuse_lost_default(self.links, rewritten, seen, routes)
        found, words = list(faulty), []
        # a bond that is made anew takes its VLANs with it
        bonds = [link["interface"] for link in faulty if link.get("bond")]
        found += [link for link in self.links if parent_of(link) in bonds and link not in faulty]
        for link in rewritten:
            why = [] if link in found else change.untried(link, seen, routes)
            found += [link] if why else []
            words += why
        return found, words

    def heard(self) -> dict[str, list[str]]:
        """Ask the other nodes before the change: who answers now has to answer afterwards."""
        peers = self.params["peers"]
        why = reach.silent(peers, self.node.run, reach.BEFORE_SECONDS) if peers else {}
        return {"answered": [one for one in peers if one not in why], "silent": sorted(why)}

    def moves(self, stirred: list[Entry], seen: dict[str, Entry]) -> str:
        """Say where our own connection has to come back."""
        server = way_in.server_of(our_session())
        for link in stirred:
            to = reach.moves_to(link, list(backends.touched([link])), server, seen)
            if to:
                return str(to)
        return ""

    def start(self, change: Change, stirred: list[Entry]) -> None:
        """Arm, and let the node do it once we are gone."""
        before = change.snapshot()
        self.keep_original(before)
        rollback.arm(
            self.node.short,
            NAME,
            self.params["rollback_seconds"],
            sorted(change.changes),
            way_back(before),
            boot=at_boot(before),
            links=change.watched(),
            what=change.words(),
        )
        patience = min(self.params["wait_seconds"], OWNER_SECONDS)
        steps = change.steps(before, patience, [link["interface"] for link in stirred])
        rollback.apply(self.node.short, NAME, change.files(), steps, leave=os.getpid())

    def keep_original(self, before: Entry) -> None:
        """Keep the run-time state of each interface's first time, where the role has remembered its files."""
        point = Point(self.node.root, NAME)
        if not os.path.isdir(point.directory):
            return
        point.settle()
        record = point.load()
        kept, before = record["part"].get("network"), backends.counted(before)
        whole = backends.together(dict(kept), before) if kept else before
        if whole != kept:
            record["part"]["network"] = {
                "owners": whole["owners"],
                "names": whole["names"],
                "runtime": whole["runtime"],
            }
            point.save(record, {})

    def verified(self) -> Entry:
        """Only look."""
        faults = self.node.lacking(self.links)
        refuse_lacking(faults, 0)
        return {
            "changed": False,
            "needed": False,
            "armed": False,
            "files": [],
            "paths": [],
            "interfaces": [],
            "lacking": faults,
            "moves_to": "",
        }

    # -- the way back over a new connection

    def proved(self) -> Entry:
        """Prove the change over a new connection; what cannot be proved is put back at once."""
        journal = rollback.read_json(rollback.folder(NAME) + "/journal.json")
        if not journal:
            raise LinkError(too_late())
        left = rollback.seconds_left(journal) - RESERVE_SECONDS
        applied = rollback.wait_applied(NAME, max(left, 0))
        if not rollback.fresh(our_session(), applied):
            return {"changed": False, "fresh": False, "ballast": ""}
        try:
            self.refuse_unapplied(applied)
            self.prove(left)
        except LinkError as exc:
            rollback.fire(self.node.short, NAME, str(exc), os.getpid())
            raise
        # A link with a black hole for large packets lets a login and short answers pass.
        largest = max([state["mtu"] for state in self.node.links().values()] or [0])
        return {"changed": False, "fresh": True, "ballast": os.urandom(largest + 2048).hex()}

    def confirmed(self) -> Entry:
        """Disarm: the controller has the proof in its hands."""
        why = too_late()
        word = rollback.disarm(self.node.short, NAME)
        if word != "disarmed":
            raise LinkError(why)
        return {"changed": True}

    def refuse_unapplied(self, applied: Entry) -> None:
        """Say what the node could not do."""
        if applied.get("state") == "failed":
            raise LinkError(
                "[IP-108] the new configuration could not be applied: `{}` says {!r}. "
                "See `journalctl -u NetworkManager -u systemd-networkd` on the node.".format(
                    applied["step"], applied["words"]
                )
            )
        if rollback.state_of(rollback.folder(NAME)) in ("restoring", "fired"):
            raise LinkError(too_late())

    def prove(self, left: float) -> None:
        """Ask the kernel, the link and the peers."""
        if not self.links:
            return
        begun = time.monotonic()
        seconds = max(min(self.params["wait_seconds"], left - reach.REACH_SECONDS), 0)
        faults = wait_for(self.node, self.links, seconds)
        refuse_lacking(faults, seconds)
        if self.params["check_duplicates"]:
            # an interface that was down could not be asked before
            refuse_duplicates(self.links, self.node.links(), fresh=False)
        self.refuse_unheard(left - (time.monotonic() - begun))

    def refuse_unheard(self, left: float) -> None:
        """Reach the master and one of the other nodes that are up; each of them may need as long as we do."""
        peers, master = self.params["peers"], self.params["master"]
        if not peers:
            return
        patience = max(min(self.params["wait_seconds"], left), 1.0)
        why = reach.unheard(master, peers, self.node.run, patience)
        lost = reach.lost(master, peers, why)
        if lost:
            raise LinkError(
                "[IP-115] with the new addresses this node does not reach {}, asked for {:.0f} "
                "s; before the change they "
                "answered, or they are known to be up. Compare prefix, routes, VLAN and interface with theirs.".format(
                    ", nor ".join(lost), patience
                )
            )

    def restored(self) -> Entry:
        """Wait until the node has put itself back, or let it do so now; say what it did."""
        report: Entry = {}
        if not self.check:
            report = rollback.undone(self.node.short, NAME, "its run could not confirm it")
        return {"changed": False, "report": report}

    # -- undo

    def absent(self) -> Entry:
        """Arm and start the undo: the files and the state of before the first change."""
        point = Point(self.node.root, NAME)
        if not self.check:
            point.settle()
        before = backends.counted(dict(point.load()["part"].get("network", {})))
        files, stand = original_files(self.node), backends.present(self.node.read, self.node.listed)
        for path in stand:
            files.setdefault(path, None)
        differing = {path: then for path, then in files.items() if self.differs(path, then)}
        seen = self.node.links()
        names = [name for one in before.get("names", {}).values() for name in one]
        kernel = self.given_back(before, names, seen, stand)
        changed = bool(before and (differing or rollback.unsettled(kernel)))
        moves = self.moves_back(before, names, seen, kernel) if changed else ""
        taken = taken_leases(kernel, seen) if changed else {}
        refuse_taken(taken, moves)
        if changed and not self.check:
            self.start_undo(before, differing, names, without(kernel, taken))
        old = {path: self.node.read(path) for path in differing}
        new = {path: then and then["text"] for path, then in differing.items()}
        return {
            "changed": changed,
            "needed": changed,
            "armed": changed and not self.check,
            "paths": sorted(differing),
            "moves_to": moves,
            "tried": "undo of " + ", ".join(names),
            "diff": file_diff(old, new, []),
        }

    def given_back(
        self, before: Entry, names: list[str], seen: Entry, stand: dict[str, str]
    ) -> Entry:
        """What the kernel shall show after the undo."""
        if not before.get("runtime", {}).get("links"):
            return {}
        shall: Entry = give_back.goal(
            before["runtime"], rollback.runtime(names), seen, stand.values(), names
        )
        return shall

    def moves_back(self, before: Entry, names: list[str], seen: Entry, kernel: Entry) -> str:
        """Say where our connection has to come back after the undo; nothing where its address stays."""
        server = way_in.server_of(our_session())
        carrier = reach.carrier_of(server, seen)
        shall = kernel.get("links", {}).get(carrier, {})
        if server in [one.split("/")[0] for one in shall.get("addresses", [])]:
            return ""
        links = before.get("runtime", {}).get("links", {})
        # those of the interface that carries us; a bond that goes leaves its members'
        own = links.get(carrier)
        kept = [one for link in ([own] if own else links.values()) for one in link["addresses"]]
        return str(reach.moves_to({"addresses": kept}, names, server, seen)) if kept else ""

    def differs(self, path: str, then: Entry | None) -> bool:
        """Say whether a file is another one than it was."""
        there = os.path.lexists(self.node.root + path)
        return there if then is None else not there or self.node.read(path) != then["text"]

    def start_undo(self, before: Entry, files: Entry, names: list[str], last: Entry) -> None:
        """The undo is a change like any other: what stands now comes back when nobody confirms it."""
        owners = sorted(before["owners"])
        now = {
            "owners": {
                one: backends.backend(one).snapshot(self.node.run, before["names"][one])
                for one in owners
            },
            "names": before["names"],
        }
        if last:
            before = dict(before, owners=give_back.owners(before["owners"], now["owners"], last))
        # What is a device of another shape now is made anew, on the way and on the way back.
        for one in owners:
            anew = backends.unlike(before["owners"][one], now["owners"][one])
            before["owners"][one]["remade"] = now["owners"][one]["remade"] = anew
        rollback.arm(
            self.node.short,
            NAME,
            self.params["rollback_seconds"],
            sorted(files),
            way_back(now),
            boot=at_boot(now),
            links=watched(self.node, names),
            what="undo of " + ", ".join(names),
        )
        steps = way_back(before)
        rollback.apply(self.node.short, NAME, files, steps, leave=os.getpid(), last=last)


def taken_leases(kernel: Entry, seen: dict[str, Entry]) -> dict[str, tuple[str, str]]:
    """The IPv4 leases of before that another host has by now: {interface: (address, its MAC)}.

    A lease that ended may have been given to somebody else; the link knows.
    """
    have = {one["address"].split("/")[0] for state in seen.values() for one in state["addresses"]}
    found = {}
    for name, link in sorted(kernel.get("links", {}).items()):
        state = seen.get(name, {})
        for value in text.of_family(link.get("leases", []), 4):
            address = value.split("/")[0]
            # a bond's member does not speak for itself
            if address in have or not state.get("up") or state.get("master"):
                continue
            owner = reach.duplicate_of(name, state["mac"], address)
            if owner:
                found[name] = (address, str(owner))
    return found


def refuse_taken(taken: dict[str, tuple[str, str]], moves: str) -> None:
    """Refuse an undo after which this node would be looked for at an address of somebody else."""
    for name, (address, owner) in sorted(taken.items()):
        if address == moves:
            raise LinkError(
                f"[IP-105] {address}, the lease that {name} had before, is used by the host with "
                f"MAC {owner} by now, so nobody would "
                "find this node after the undo. Take it from that host, let the DHCP server keep it for this node, "
                "and run the undo again."
            )


def without(kernel: Entry, names: Entry) -> Entry:
    """The kernel's view without some interfaces: what their owner makes of the old files is right."""
    if not kernel:
        return kernel
    left = {name: one for name, one in kernel["links"].items() if name not in names}
    routes = {
        kind: [one for one in kernel[kind] if one[1] not in names]
        for kind in ("routes", "connected")
    }
    return dict(kernel, links=left, **routes)


def too_late() -> str:
    """Say that the node was faster."""
    report = rollback.report_of(NAME)
    if not os.path.isdir(rollback.folder(NAME)):
        return (
            "[IP-114] no change of this node waits for a confirmation: somebody else has ended it. "
            f"See {rollback.STORE}/log on the node, and run again."
        )
    return (
        "[IP-114] the node has put everything back before it could be confirmed: {}. Raise static_ip_rollback_seconds "
        "if it is only slow, and run again.".format(report.get("why", f"see {rollback.STORE}/log"))
    )


def wait_for(node: Node, links: list[Entry], seconds: float) -> list[str]:
    """Wait until the kernel lacks nothing; return what it lacks at the deadline."""
    end = time.monotonic() + seconds
    while True:
        faults = node.lacking(links)
        if not faults or time.monotonic() >= end:
            return faults
        time.sleep(POLL_SECONDS)
