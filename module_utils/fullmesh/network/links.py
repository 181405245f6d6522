# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Change a node's links in one call of static_ip_links: apply, verify over a new connection, undo.

Standard library only.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ..facts.configured import read_configured_networks
from ..state.record import UndoPoint
from ..transaction import engine, session
from . import carried, give_back, owner, reach, static_ip
from .backends import networkmanager
from .change import (
    NAME,
    LinkChange,
    build_boot_commands,
    build_restore_commands,
    diff_links,
    list_rail_tables,
    list_watched_interfaces,
    read_original_files,
)
from .checks import (
    find_providers,
    get_vlan_parent,
    refuse_dropped_interfaces,
    refuse_duplicate_addresses,
    refuse_link_faults,
    refuse_lost_default_route,
    refuse_missing_interfaces,
    refuse_missing_tables,
)
from .leases import exclude_interfaces, find_taken_leases, refuse_taken_leases
from .machine import LinkError, NetworkNode, read_ssh_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..state.record import NetworkBefore
    from ..tools.ip import IpLink
    from ..transaction.engine import ApplyProgress, FileContent, KernelGoal, RestoreReport
    from .calls import (
        HeardPeers,
        LinkChangeResult,
        LinkCheckResult,
        LinkProofResult,
        LinkRestoreResult,
        LinkUndoResult,
        StaticIpParams,
    )
    from .types import LinkSettings

POLL_SECONDS = 0.3
NOTHING: NetworkBefore = {
    "owners": {},
    "names": {},
    "runtime": {"links": {}, "routes": [], "connected": []},
}
# Time that a confirmation needs after the last check of the kernel.
RESERVE_SECONDS = 2.0
# Before the engine ends the command: the owner's own words say more than that.
OWNER_SECONDS = engine.APPLY_SECONDS - 5


class StaticIpLinks:
    """One call of the module."""

    def __init__(self, node: NetworkNode, params: StaticIpParams, check: bool) -> None:
        self.node = node
        self.links = params["links"]
        self.params = params
        self.check = check

    def present(self) -> LinkChangeResult:
        """Compute the change, refuse an unsafe one, arm and start."""
        seen = self.node.links()
        refuse_missing_interfaces(self.links, seen)
        faulty = [link for link in self.links if self.node.lacking([link])]
        owners = find_providers(self.node, self.links, self.params["provider"])
        refuse_missing_tables(self.links, owners)
        if self.params["check_duplicates"]:
            refuse_duplicate_addresses(faulty, seen, fresh=True)
        change = LinkChange(self.node, self.links, owners)
        change.dropped = static_ip.find_dropped_addresses(change.old.values(), self.links, seen)
        if change.dropped:
            refuse_dropped_interfaces(change.dropped, self.links, self.node.every_route())
        to_reactivate, words = self.to_reactivate(change, faulty, seen)
        change.validate()
        faults = self.node.lacking(faulty)
        changed = bool(faulty or change.changes)
        moves = self.moves(to_reactivate, seen)
        heard: HeardPeers = {"answered": [], "silent": []}
        if changed and not self.check:
            heard = self.heard()
            self.start(change, to_reactivate)
        names = [link["interface"] for link in self.links]
        brought = {link["interface"] for link in to_reactivate}
        return {
            "changed": changed,
            "needed": changed,
            "remembered": UndoPoint(self.node.root, NAME).exists(),
            "armed": changed and not self.check,
            "providers": owners,
            "files": sorted(change.ours),
            "paths": sorted(change.changes),
            "interfaces": change.touched(),
            "adopted": [name for name in names if changed and name not in brought],
            "lacking": faults,
            "moves_to": moves,
            "tried": change.words(),
            "diff": diff_links(self.node.root, change.before_text, change.files(), faults + words),
            **heard,
        }

    def to_reactivate(
        self, change: LinkChange, faulty: list[LinkSettings], seen: Mapping[str, IpLink]
    ) -> tuple[list[LinkSettings], list[str]]:
        """Return the links that are brought up again, and reasons in addition to *faulty*.

        An adopted link is confirmed without a test. So a link is only adopted if its new files give all that the kernel
        has. Otherwise it would work until the next boot and then cut the connection.
        """
        if not faulty and not change.changes:
            return [], []
        routes = self.node.every_route()
        rewritten = [link for link in self.links if change.rewritten(link)]
        refuse_lost_default_route(self.links, rewritten, seen, routes)
        found, words = list(faulty), []
        # VLANs disappear with a bond that is created again
        bonds = [link["interface"] for link in faulty if link.get("bond")]
        found += [
            link for link in self.links if get_vlan_parent(link) in bonds and link not in faulty
        ]
        for link in rewritten:
            why = [] if link in found else change.untried(link, seen, routes)
            found += [link] if why else []
            words += why
        return found, words

    def heard(self) -> HeardPeers:
        """Probe the other nodes before the change. Those that answer now must answer afterwards."""
        peers = self.params["peers"]
        why = reach.find_silent_peers(peers, self.node.run, reach.BEFORE_SECONDS) if peers else {}
        return {"answered": [one for one in peers if one not in why], "silent": sorted(why)}

    def moves(self, to_reactivate: list[LinkSettings], seen: Mapping[str, IpLink]) -> str:
        """Return the address for the new connection, or ""."""
        server = session.get_server_address(read_ssh_session())
        for link in to_reactivate:
            touched = owner.list_affected_interfaces([link])
            to = reach.find_return_address(link["addresses"], touched, server, seen)
            if to:
                return to
        return ""

    def start(self, change: LinkChange, to_reactivate: list[LinkSettings]) -> None:
        """Arm the transaction, and start the change on the node, independent of this connection."""
        before = change.snapshot()
        tables = list_rail_tables(self.links, before["runtime"].get("rules", []))
        self.keep_original(before)
        engine.arm(
            self.node.short,
            NAME,
            self.params["rollback_seconds"],
            sorted(change.changes),
            build_restore_commands(before, tables),
            boot=build_boot_commands(before),
            links=change.watched(),
            ours=change.list_given(),
            what=change.words(),
            token=self.params["token"],
        )
        patience = min(self.params["wait_seconds"], OWNER_SECONDS)
        steps = change.steps(before, patience, [link["interface"] for link in to_reactivate])
        known = carried.strip_prefixes(one for link in self.links for one in link["addresses"])
        others = self.others(change.watched(), known)
        files = change.files()
        engine.apply_change(self.node.short, NAME, files, steps, leave=os.getpid(), others=others)

    def others(self, names: list[str], known: set[str]) -> KernelGoal | None:
        """Return foreign state on the interfaces. Owners will configure *known*."""
        known = known | read_configured_networks(self.node.read, self.node.listed)
        goal = carried.find_unowned_state(engine.read_kernel_view(names), known)
        return goal if carried.has_unowned_state(goal) else None

    def keep_original(self, before: NetworkBefore) -> None:
        """Save the run-time state of each interface before its first change, if the role has an undo point."""
        point = UndoPoint(self.node.root, NAME)
        if not os.path.isdir(point.directory):
            return
        record = point.load()
        kept, before = record["part"].get("network"), owner.drop_watched_interfaces(before)
        whole = owner.merge_undo_states(kept, before) if kept else before
        if whole != kept:
            record["part"]["network"] = whole
            point.save(record, {})

    def verified(self) -> LinkCheckResult:
        """Check the links without any change."""
        faults = self.node.lacking(self.links)
        refuse_link_faults(faults, 0)
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

    # -- the rollback over a new connection

    def proved(self) -> LinkProofResult:
        """Verify the change over a new connection. If that fails, it is reverted at once."""
        journal = engine.read_json(engine.folder(NAME) + "/journal.json")
        if not journal:
            raise LinkError(describe_late_confirmation())
        engine.refuse_other_change(NAME, self.params["token"])
        left = engine.seconds_left(journal) - RESERVE_SECONDS
        applied = engine.wait_for_apply(NAME, max(left, 0))
        if not engine.is_fresh_connection(read_ssh_session(), applied):
            return {"changed": False, "fresh": False, "ballast": "", "lost": []}
        try:
            self.refuse_unapplied(applied)
            self.prove(left)
        except LinkError as exc:
            engine.fire(self.node.short, NAME, str(exc), os.getpid())
            raise
        # A link with a black hole for large packets lets a login and short answers pass.
        largest = max([state["mtu"] for state in self.node.links().values()] or [0])
        ballast = os.urandom(largest + 2048).hex()
        # none in the record of an older version's engine
        return {
            "changed": False,
            "fresh": True,
            "ballast": ballast,
            "lost": applied.get("lost", []),
        }

    def confirmed(self) -> dict[str, bool]:
        """Disarm the transaction, since the controller has received the proof."""
        why = describe_late_confirmation()
        word = engine.disarm(self.node.short, NAME, self.params["token"])
        if word != "disarmed":
            raise LinkError(why)
        return {"changed": True}

    def refuse_unapplied(self, applied: ApplyProgress) -> None:
        """Raise the error of a change that the node could not apply."""
        if applied.get("state") == "failed":
            raise LinkError(
                "[IP-108] The new configuration could not be applied: `{}` says {!r}. "
                "Check: `journalctl -u NetworkManager -u systemd-networkd` on the node.".format(
                    applied["step"], applied["words"]
                )
            )
        if engine.state_of(engine.folder(NAME)) in ("restoring", "fired"):
            raise LinkError(describe_late_confirmation())

    def prove(self, left: float) -> None:
        """Check the kernel, the link and the peers."""
        if not self.links:
            return
        begun = time.monotonic()
        seconds = max(min(self.params["wait_seconds"], left - reach.REACH_SECONDS), 0)
        faults = wait_for_links(self.node, self.links, seconds)
        refuse_link_faults(faults, seconds)
        if self.params["check_duplicates"]:
            # an interface that was down could not be asked before
            refuse_duplicate_addresses(self.links, self.node.links(), fresh=False)
        self.refuse_unheard(left - (time.monotonic() - begun))

    def refuse_unheard(self, left: float) -> None:
        """Reach the master and another node that is up. Each of them may need as long as this node."""
        peers, master = self.params["peers"], self.params["master"]
        if not peers:
            return
        patience = max(min(self.params["wait_seconds"], left), 1.0)
        why = reach.wait_for_peers(master, peers, self.node.run, patience)
        lost = reach.describe_silent_peers(master, peers, why)
        if lost:
            raise LinkError(
                "[IP-115] with the new addresses this node did not reach {} within {:.0f} s, although they answered "
                "before or are known to be up. Check: compare prefix, routes, VLAN and interface with theirs.".format(
                    ", nor ".join(lost), patience
                )
            )

    def restored(self) -> LinkRestoreResult:
        """Wait until the node has reverted the change, or start that now. Return the report."""
        report: RestoreReport = {}
        if not self.check:
            why = "its run could not confirm it"
            report = engine.undone(self.node.short, NAME, why, self.params["token"])
        return {"changed": False, "report": report}

    # -- undo

    def absent(self) -> LinkUndoResult:
        """Arm and start the undo: files and state from before the first change."""
        kept = UndoPoint(self.node.root, NAME).load()["part"].get("network")
        before = kept or NOTHING
        self.refuse_moved_profiles(before)
        files, stand = (
            read_original_files(self.node),
            owner.read_own_files(self.node.read, self.node.listed),
        )
        for path in stand:
            files.setdefault(path, None)
        differing = {path: then for path, then in files.items() if self.differs(path, then)}
        seen = self.node.links()
        names = [name for one in before["names"].values() for name in one]
        kernel = self.given_back(before, names, seen, stand)
        changed = bool(kept and (differing or (kernel and engine.build_kernel_commands(kernel))))
        moves = self.moves_back(before, names, seen, kernel) if changed else ""
        taken = find_taken_leases(kernel, seen) if changed and kernel else {}
        refuse_taken_leases(taken, moves)
        if changed and not self.check:
            last = exclude_interfaces(kernel, taken) if kernel else None
            self.start_undo(before, differing, names, last)
        old = {path: self.node.read(path) for path in differing}
        return {
            "changed": changed,
            "needed": changed,
            "armed": changed and not self.check,
            "paths": sorted(differing),
            "moves_to": moves,
            "tried": "undo of " + ", ".join(names),
            "diff": diff_links(self.node.root, old, differing, []),
        }

    def refuse_moved_profiles(self, before: NetworkBefore) -> None:
        """Refuse to undo while NetworkManager has a profile of Fullmesh in another file."""
        ours = before["names"].get(networkmanager.NAME, [])
        try:
            networkmanager.refuse_moved_profiles(self.node.read, self.node.listed, ours)
        except owner.ForeignError as exc:
            raise LinkError(f"[IP-118] {exc}") from exc

    def given_back(
        self,
        before: NetworkBefore,
        names: list[str],
        seen: Mapping[str, IpLink],
        stand: dict[str, str],
    ) -> KernelGoal | None:
        """Return the kernel state that undo must reach, or None if no old state was saved."""
        if not before["runtime"].get("links"):
            return None
        now = engine.read_kernel_view(names)
        return give_back.build_undo_goal(before["runtime"], now, seen, stand.values(), names)

    def moves_back(
        self,
        before: NetworkBefore,
        names: list[str],
        seen: Mapping[str, IpLink],
        kernel: KernelGoal | None,
    ) -> str:
        """Return the address for the new connection after the undo, or "" if it stays."""
        server = session.get_server_address(read_ssh_session())
        carrier = reach.find_carrier(server, seen)
        goal = kernel["links"].get(carrier) if kernel else None
        if goal and server in [one.split("/")[0] for one in goal["addresses"]]:
            return ""
        links = before["runtime"].get("links", {})
        # those of this session's interface (the addresses of a removed bond go to its members)
        own = links.get(carrier)
        kept = [one for link in ([own] if own else links.values()) for one in link["addresses"]]
        return reach.find_return_address(kept, names, server, seen) if kept else ""

    def differs(self, path: str, then: FileContent | None) -> bool:
        """Return whether a file has changed."""
        there = os.path.lexists(self.node.root + path)
        return there if then is None else not there or self.node.read(path) != then["text"]

    def start_undo(
        self,
        before: NetworkBefore,
        files: dict[str, FileContent | None],
        names: list[str],
        last: KernelGoal | None,
    ) -> None:
        """Start the undo like any change: without a confirmation, the present state is restored."""
        owners = sorted(before["owners"])
        now: NetworkBefore = {
            "owners": {
                one: owner.get_backend(one).read_snapshot(self.node.run, before["names"][one])
                for one in owners
            },
            "names": before["names"],
            "runtime": before["runtime"],
        }
        if last:
            given = give_back.build_owner_states(before["owners"], now["owners"], last)
            before = {**before, "owners": given}
        tables = list_rail_tables([], engine.read_kernel_view([]).get("rules", []))
        links = (last or before["runtime"]).get("links", {})
        back = {name: links[name]["addresses"] for name in names if name in links}
        # Devices with another shape are created again, in the undo and in its rollback.
        for one in owners:
            changed = owner.find_changed_devices(before["owners"][one], now["owners"][one])
            before["owners"][one]["remade"] = now["owners"][one]["remade"] = changed
        engine.arm(
            self.node.short,
            NAME,
            self.params["rollback_seconds"],
            sorted(files),
            build_restore_commands(now, tables),
            boot=build_boot_commands(now),
            links=list_watched_interfaces(self.node, names),
            ours={"addresses": back, "routes": [], "links": names},
            what="undo of " + ", ".join(names),
            token=self.params["token"],
        )
        steps, pid = build_restore_commands(before, tables), os.getpid()
        others = self.others(list_watched_interfaces(self.node, names), self.original(files))
        engine.apply_change(
            self.node.short, NAME, files, steps, leave=pid, last=last, others=others
        )

    def original(self, files: dict[str, FileContent | None]) -> set[str]:
        """Return the addresses and networks in the restored files."""
        texts = {path: then["text"] for path, then in files.items() if then}
        return read_configured_networks(
            lambda path: texts.get(path, ""), lambda _pattern: sorted(texts)
        )


def describe_late_confirmation() -> str:
    """Return the error for a confirmation that came after the node's rollback."""
    report = engine.report_of(NAME)
    if not os.path.isdir(engine.folder(NAME)):
        return (
            "[IP-114] No change of this node waits for a confirmation: another process has ended it. "
            f"Check: {engine.STORE}/log on the node. Then run again."
        )
    return (
        "[IP-114] The node reverted everything before it could be confirmed: {}. "
        "Fix: raise static_ip_rollback_seconds if it is only slow, and run again."
    ).format(report.get("why", f"see {engine.STORE}/log"))


def wait_for_links(node: NetworkNode, links: list[LinkSettings], seconds: float) -> list[str]:
    """Wait until the kernel has the wanted state. Return the differences at the deadline."""
    end = time.monotonic() + seconds
    while True:
        faults = node.lacking(links)
        if not faults or time.monotonic() >= end:
            return faults
        time.sleep(POLL_SECONDS)
