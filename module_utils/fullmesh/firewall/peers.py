# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The cluster's ports for its peers in firewalld: one transaction, proved in the kernel. Stdlib only."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING

from ..files import look, put, settle
from ..schema.ports import opens, parse_entry
from ..state.record import Point
from ..transaction import engine as rollback
from ..transaction import session as way_in
from . import denials as denied
from . import firewalld as core
from . import firewalld_files as own_files
from . import firewalld_others as theirs
from . import foreign as beside
from . import preserve as keep
from . import reached, ufw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Entry = dict[str, Any]
    Pause = Iterator[None]
    Runner = Callable[[list[str]], tuple[int, str]]

UNIT = "firewalld.service"
# firewalld.service conflicts with them: starting it would stop them and with them the rules they hold.
RIVALS = ("iptables.service", "ip6tables.service", "ebtables.service", "nftables.service")
NAME = "peer_firewall"
# What `systemctl enable` makes, by the [Install] section of the unit.
LINKS = (
    "/etc/systemd/system/multi-user.target.wants/firewalld.service",
    "/etc/systemd/system/dbus-org.fedoraproject.FirewallD1.service",
)
# Policies came with it (firewalld 0.9.0, 2020); without them nothing keeps ssh open whatever zone it comes through.
OLDEST = (0, 9)
# What listened before the first start and is open to the peers since; lies beside the undo point and goes with it.
CARRIED = "/var/lib/fullmesh/undo/peer_firewall/listeners.json"
# Where nobody has to confirm, for the change itself: systemd gives a start 90 s, D-Bus 25 s an answer.
ALONE_SECONDS = 300


class Firewall:
    """One run on one node."""

    def __init__(self, params: Entry, check: bool, run: Runner, root: str = "") -> None:
        self.params = params
        self.check = check
        self.run = run
        self.root = root
        self.faults: list[str] = []
        self.notes: list[Entry] = []
        self.diff: list[Entry] = []
        self.units: dict[str, Entry] = {}
        self.armed = False
        self.changed = False
        self.ufw_on = False
        self.begun = time.time()
        self.carried: list[str] = []

    # -- looking

    def look(self) -> None:
        """Ask systemd about firewalld and what would fight with it, in one call."""
        if not self.check:
            ufw.point(self.root).settle()
        names = (UNIT, *RIVALS)
        command = ["systemctl", "show", "--property=LoadState,ActiveState,UnitFileState", "--"]
        blocks = self.run([*command, *names])[1].strip().split("\n\n")
        for name, block in zip(names, blocks):
            self.units[name] = dict(
                line.split("=", 1) for line in block.splitlines() if "=" in line
            )

    def running(self) -> bool:
        """Say whether firewalld runs."""
        return self.units.get(UNIT, {}).get("ActiveState") in ("active", "reloading", "activating")

    def enabled(self) -> bool:
        """Say whether firewalld starts at boot."""
        return self.units.get(UNIT, {}).get("UnitFileState") == "enabled"

    def installed(self) -> bool:
        """Say whether firewalld is there."""
        return self.units.get(UNIT, {}).get("LoadState") not in (None, "not-found")

    def want(self) -> Entry:
        """Complete what was asked by what only the node knows: our way in."""
        pid = os.getpid()
        want = {name: self.params[name] for name in ("zone", "mode", "peers", "ports")}
        roce = self.params["rdma"] == "true" or (
            self.params["rdma"] == "auto" and core.has_roce(self.root)
        )
        if roce and core.ROCE_PORT not in want["ports"]:
            want["ports"] = [*want["ports"], core.ROCE_PORT]
        want["controllers"] = [*self.params["controllers"], *way_in.clients(os.environ, pid)]
        want["ssh_ports"] = way_in.ssh_ports(os.environ, pid) or [22]
        want["default_zone"] = theirs.conf_value(self.root, "DefaultZone", "public")
        want["ufw_policy"] = self.ufw_policy(want)
        want["own_service"] = self.own_service(want)
        self.carried = self.carry(want)
        want["ports"] = [*want["ports"], *self.carried]
        return want

    def first_start(self) -> bool:
        """Say whether this run starts a firewall where none judged before: firewalld off and never ours, no ufw."""
        place = own_files.paths(self.params["zone"])
        mine = any(own_files.MARK in look(self.root + place[name]) for name in ("job", "zone"))
        return not (self.running() or self.takes_ufw() or mine)

    def loses(self, want: Entry) -> list[Entry]:
        """List what listens and the default zone, or the zone of its interface, shuts once firewalld runs."""
        held = reached.cards(self.run)
        zones = reached.zones_of(self.run, self.root, self.running(), want["default_zone"])
        return [
            one
            for one in self.listeners(want)
            if not held
            or any(not self.lets(zones[name], one) for name in reached.ways_to(one, held))
        ]

    def listeners(self, want: Entry) -> list[Entry]:
        """List what listens here and is neither ssh nor the plan's."""
        ssh = [f"{port}/tcp" for port in want["ssh_ports"]]
        found = reached.listeners(self.root + "/proc")
        return [one for one in found if not opened(one["port"], [*ssh, *want["ports"]])]

    def lets(self, zone: str, one: Entry) -> bool:
        """Say whether a zone lets everybody to a listener."""
        number, _, protocol = one["port"].partition("/")
        return bool(theirs.zone_allows(self.root, zone, int(number), protocol))

    def carry(self, want: Entry) -> list[str]:
        """List the ports of other listeners that the peers keep, from the first start on."""
        if self.params["start"] != "carry":
            return []
        if self.first_start():
            return [one["port"] for one in self.loses(want)]
        try:
            return [str(port) for port in json.loads(look(self.root + CARRIED))]
        except (ValueError, TypeError):
            return []

    def ufw_policy(self, want: Entry) -> str:
        """Render what ufw's user allowed; also later on, when ufw is off because of us."""
        self.ufw_on = ufw.enabled(self.root) and ufw.installed(self.root)
        if not (self.ufw_on or ufw.taken(self.root)) or self.params["ufw"] == "refuse":
            return ""
        rules = ufw.carried(self.root, *self.ours(want))
        return str(ufw.policy(want["zone"], rules))

    def ours(self, want: Entry) -> tuple[list[str], list[str]]:
        """Return the senders that no rule of ufw's may keep from these ports."""
        ports = [*want["ports"], *(f"{port}/tcp" for port in want["ssh_ports"])]
        if self.params["mode"] == "peers_trusted":
            ports = ["1-65535/tcp", "1-65535/udp"]
        return [*want["peers"], *want["controllers"]], ports

    def own_service(self, want: Entry) -> bool:
        """Say whether the service ``ssh`` needs our file: sshd listens elsewhere, and it is us who shut the door."""
        path = self.root + own_files.paths(want["zone"])["service"]
        if own_files.MARK in look(path):
            return True
        # Under ufw it was ufw's rules that let anybody in, and they go on: a door for all would be a new one.
        starts = not self.running() and not self.takes_ufw()
        return starts and bool(self.shut(want)) and not os.path.exists(path)

    def shut(self, want: Entry) -> list[int]:
        """List the ssh ports that the default zone would not let in."""
        zone, ports = want["default_zone"], list(want["ssh_ports"])
        if not self.installed() and theirs.tree(self.root, "zones", zone) is None:
            return [port for port in ports if port != 22]  # noqa: PLR2004 (every distribution's public zone has ssh)
        return [port for port in ports if not theirs.zone_allows(self.root, zone, port)]

    # -- refusing

    def refuse(self, want: Entry) -> None:
        """Collect every reason not to touch this node's firewall."""
        self.refuse_ufw(want)
        for name in RIVALS if not self.running() else ():
            if self.units.get(name, {}).get("ActiveState") == "active":
                self.faults.append(
                    f"[PF-111] {name} is active and starting firewalld would stop it, with the rules it holds. "
                    f"Run `systemctl disable --now {name}` when they are no longer needed."
                )
        if self.units.get(UNIT, {}).get("LoadState") == "masked":
            self.faults.append(
                "[PF-112] firewalld.service is masked: somebody decided against it. "
                "Run `systemctl unmask firewalld`, or set peer_firewall_mode to off."
            )
        binds = want["mode"] in own_files.BINDING
        for claim in theirs.claims(self.root, want["zone"], want["peers"]) if binds else ():
            self.faults.append(
                "[PF-113] {}: firewalld asks one zone only, and it would not be {}. "
                "Take the source out of that zone.".format(claim, want["zone"])
            )
        self.refuse_flush()
        self.refuse_interface(want)
        self.refuse_beside(want, self.takes_ufw())
        self.refuse_start(want)
        self.refuse_loss(want)
        self.remark_loss(want)

    def takes_ufw(self) -> bool:
        """Say whether this run takes over from ufw."""
        return self.ufw_on and self.params["ufw"] != "refuse"

    def refuse_ufw(self, want: Entry) -> None:
        """Refuse to take over from ufw where that was not wanted, or where rules would get lost."""
        if not self.ufw_on:
            return
        if self.params["ufw"] == "refuse":
            self.faults.append(
                "[PF-110] ufw is active on this node (/etc/ufw/ufw.conf: ENABLED=yes): two firewalls would each drop "
                "what the other lets in. Set peer_firewall_ufw to carry, or run `ufw disable`, and run again."
            )
            return
        lost = self.lost(want)
        if lost and self.params["ufw"] == "carry":
            self.faults.append(
                "[PF-122] ufw is active and this cannot be carried over to firewalld: {}. Delete it in ufw, or set "
                "peer_firewall_ufw to discard to go on without it.".format("; ".join(lost))
            )

    def lost(self, want: Entry) -> list[str]:
        """Name what firewalld would not do as ufw did it: rules without words, and a door that its zone opens."""
        open_ = [port for port in want["ssh_ports"] if port not in self.shut(want)]
        rules = ufw.carried(self.root, *self.ours(want))
        found: list[str] = ufw.left_out(self.root, *self.ours(want))
        found += ufw.opened(self.root, want["default_zone"], open_, rules)
        return found

    def refuse_flush(self, verb: str = "start") -> None:
        """Refuse to let firewalld's iptables backend flush what others have in iptables; nftables' tables are apart."""
        if not (self.installed() and core.with_iptables(self.root)):
            return
        flushes = verb == "reload" or not self.running()
        others = core.rules_beside(self.run) if flushes else []
        step = "Set FirewallBackend=nftables in firewalld.conf"
        if self.running():
            step += ", `systemctl restart firewalld`, load their rules again (`systemctl restart docker` for Docker's)"
        if self.ufw_on or others:
            self.faults.append(
                "[PF-126] firewalld uses the iptables backend, whose {} flushes every rule of iptables, and "
                "there are others' ({}). {} and run again.".format(
                    verb, others[0] if others else "ufw's", step
                )
            )

    def refuse_interface(self, want: Entry) -> None:
        """Refuse, or say, where a zone of the cluster's interface lets everybody to what shall be the peers'."""
        links = beside.own_links(self.run, want["peers"])
        found: dict[tuple[str, str], str] = {}
        for interface in sorted({link["interface"] for link in links}):
            said = theirs.interface_zones(self.root, self.run, interface, self.running())
            for zone, who in said or [(want["default_zone"], "the default zone")]:
                found.setdefault((interface, zone), who)
        for (interface, zone), who in found.items():
            binds = want["mode"] in own_files.BINDING
            fine = (want["default_zone"], want["zone"]) if binds else ()
            if not binds and zone != want["zone"]:  # ours, which there is in `peers_only` alone
                self.remark_zone(interface, zone)
            elif zone not in fine:
                self.faults.append(
                    f"[PF-123] the cluster's interface {interface} is in zone {zone} ({who}): "
                    "that zone would decide what everybody "
                    f"who is no peer reaches there. Take it out (`firewall-cmd --permanent --zone={zone} "
                    f"--remove-interface={interface}`, or `nmcli connection modify PROFILE connection.zone ''`)."
                )

    def remark_zone(self, interface: str, zone: str) -> None:
        """Say where a zone opens the plan's ports to everybody: it was so before, and is the user's own."""
        first = [port.replace("-", "/").split("/") for port in self.params["ports"]]
        known = [(int(words[0]), words[-1]) for words in first]
        wide = [
            f"{number}/{protocol}"
            for number, protocol in known
            if theirs.zone_allows(self.root, zone, number, protocol)
        ]
        if wide:
            text = (
                "the cluster's interface {} is in zone {}, which lets everybody there to {}, not the peers only. "
                "Is that meant? `firewall-cmd --info-zone={}` says what it opens."
            )
            text = text.format(interface, zone, ", ".join(wide), zone)
            self.notes.append({"code": "PF-209", "text": text})

    def refuse_loss(self, want: Entry) -> None:
        """Refuse to start a firewall that would cut what others reach, or say what it cuts."""
        lost = self.loses(dict(want, ports=self.params["ports"])) if self.first_start() else []
        if not lost:
            return
        if self.params["start"] == "refuse":
            self.faults.append(
                "[PF-129] no firewall runs on this node, and firewalld's zone {} would cut what listens here: {}. "
                "Open what others need before it starts (`firewall-offline-cmd --zone={} --add-port={}`), or set "
                "peer_firewall_start to carry (open to the peers from now on) or to cut.".format(
                    want["default_zone"], reached.told(lost), want["default_zone"], lost[0]["port"]
                )
            )
            return
        who = "everybody but the peers" if self.params["start"] == "carry" else "everybody"
        text = f"firewalld was off; its start shuts for {who}: {reached.told(lost)}."
        self.notes.append({"code": "PF-211", "text": text})

    def remark_loss(self, want: Entry) -> None:
        """Say what peers reached so far and lose to a zone of their own."""
        place = self.root + own_files.paths(want["zone"])["zone"]
        if want["mode"] not in own_files.BINDING or own_files.MARK in look(place):
            return
        held = reached.cards(self.run)
        zones = reached.zones_of(self.run, self.root, self.running(), want["default_zone"])
        mine = {link["interface"] for link in beside.own_links(self.run, want["peers"])}
        lost = [
            one
            for one in self.listeners(want)
            if not self.running()
            or any(self.lets(zones[name], one) for name in mine & set(reached.ways_to(one, held)))
        ]
        if lost:
            text = f"peers reached this so far and lose it (peer_firewall_mode: peers_only): {reached.told(lost)}."
            self.notes.append({"code": "PF-210", "text": text})

    def refuse_beside(self, want: Entry, ufw_goes: bool) -> None:
        """Refuse where a rule beside firewalld would drop the peers' traffic all the same."""
        faults, notes = beside.look(self.run, want, ufw_goes)
        self.faults += faults
        self.notes += [note for note in notes if note not in self.notes]

    def refuse_start(self, want: Entry) -> None:
        """Refuse to start a firewall that shuts ssh for everybody but peers and controllers."""
        bare = not self.installed() and not want["own_service"]
        # Whom ufw let in comes in by its policy, and the controllers by theirs: the zone shuts nobody out.
        if self.running() or self.takes_ufw() or bare:
            return
        shut, zone = self.shut(want), want["default_zone"]
        by_service = want["own_service"] and (
            not self.installed() or theirs.zone_has_service(self.root, zone, "ssh")
        )
        if shut and not by_service:
            self.faults.append(
                f"[PF-115] sshd listens on {shut[0]} and firewalld's default zone {zone} would "
                "close it once it starts. "
                f"Run `firewall-offline-cmd --zone={zone} --add-port={shut[0]}/tcp` first."
            )

    def unsaved(self) -> list[str]:
        """List what others set at runtime only, and a reload would drop."""
        zone = str(self.params["zone"])
        found: list[str] = []
        flush = theirs.flushes_all(self.root)
        for kind, word in (("zone", "--list-all-zones"), ("policy", "--list-all-policies")):
            ran = self.run(["firewall-cmd", word])
            kept = self.run(["firewall-cmd", "--permanent", word])
            if ran[0] != 0 or kept[0] != 0:
                continue
            found += theirs.unsaved(ran[1], kept[1], zone, kind)
            if kind == "zone" and flush:
                passed = [zone, theirs.conf_value(self.root, "DefaultZone", "public")]
                found += theirs.unbound(self.run, ran[1], kept[1], passed)
        return found + (theirs.only_now(self.run, zone) if flush else [])

    def refuse_reload(self) -> None:
        """Refuse a reload that would drop what others set at runtime only."""
        self.refuse_flush("reload")
        for text in self.unsaved():
            self.faults.append(
                f"[PF-114] set at runtime only, the reload would drop it: {text}. "
                "Keep it with `firewall-cmd --runtime-to-permanent`, or drop it with `firewall-cmd --reload`."
            )

    # -- acting

    def stop_on_faults(self) -> None:
        """End with every fault found so far."""
        if self.faults:
            raise core_error(self.faults)

    def present(self) -> Entry:
        """Open the ports."""
        self.look()
        want = self.want()
        self.refuse(want)
        self.stop_on_faults()
        wanted = own_files.files(want)
        moved = {path: text for path, text in wanted.items() if self.differs(path, text)}
        result = self.describe(want, wanted)
        if not self.installed():
            # Once firewalld is here the next call says all of this again.
            self.notes = self.notes if self.check else []
            self.show("package firewalld", "absent\n", "installed, running, enabled\n")
            return dict(result, changed=True, needs_package=True)
        stale = [] if moved or not self.running() else self.runtime_faults(want)
        if self.takes_ufw():
            self.show("ufw", "active\n", "disabled\n")
            self.remark_ufw(want)
        if moved or stale or self.takes_ufw() or not (self.running() and self.enabled()):
            self.act(want, moved, stale)
        return dict(result, changed=self.changed, armed=self.armed)

    def act(self, want: Entry, moved: dict[str, str], stale: list[str]) -> None:
        """Write, start or reload, and prove."""
        self.changed = True
        if stale:
            self.show("firewalld at runtime", "\n".join(stale) + "\n", "as in the files\n")
        reload = self.running() and bool(moved or stale)
        if reload:
            self.refuse_reload()
        if moved or not self.running():
            self.validate(moved)
        self.stop_on_faults()
        if self.check:
            return
        if reload or self.takes_ufw() or not self.running():
            self.arm(want)
        try:
            self.change(want, moved, reload)
        except Exception as exc:
            self.go_back(exc)
            raise
        if self.armed and int(self.params["rollback_seconds"]) <= 0:
            self.disarmed()
            self.armed = False
        elif self.armed:
            rollback.changed(NAME)

    def change(self, want: Entry, moved: dict[str, str], reload: bool) -> None:
        """Do it: at no moment is the node open that was not, and nobody's rules get lost."""
        if self.takes_ufw():
            # ufw has to go first: firewalld's start would flush its rules and leave its INPUT DROP, which locks out.
            self.shut_gate(want)
            self.take_ufw()
        if self.carried and self.first_start():
            put(self.root + CARRIED, json.dumps(self.carried) + "\n")
        self.write(moved)
        with self.keeping():
            self.start_or_reload(reload)
        self.prove(want)
        if self.takes_ufw():
            keep.open_gate(self.run)
        # Once more: what firewalld's direct rules bring is in the kernel only now.
        self.refuse_beside(want, False)
        self.stop_on_faults()

    def shut_gate(self, want: Entry) -> None:
        """Let nothing new in but ssh; the way back opens it last, after ufw's rules are in."""
        said = keep.shut_gate(self.run, want["ssh_ports"])
        if said:
            raise core_error(
                [
                    f"[PF-125] ufw was left on: nothing could be put in its place until firewalld runs: {said!r}. "
                    "Install nftables and run again."
                ]
            )

    @contextlib.contextmanager
    def keeping(self) -> Pause:
        """Put back what firewalld flushes of other people's iptables rules; its own backend shares their chains."""
        others = {} if core.with_iptables(self.root) else keep.dump(self.run)
        yield
        faults = keep.restore(self.run, others)
        if faults:
            raise core_error(
                [
                    "[PF-128] firewalld flushed the iptables rules of others and they could not be put back: {}. Load "
                    "them again as you did before (`systemctl restart docker` for Docker's).".format(
                        "; ".join(faults)
                    )
                ]
            )

    def start_or_reload(self, reload: bool) -> None:
        """One reload, or the first start; a reload keeps established connections, firewall-cmd(1)."""
        # A ruleset that somebody flushed cannot be reloaded: firewalld stumbles over the missing table.
        lost = reload and not any(table for table, _ in core.kernel_tables(self.run, self.root))
        if reload and not lost:
            self.reload()
        if lost or not self.running():
            verb = "restart" if lost else "start"
            self.must(["systemctl", verb, UNIT], "PF-117", f"firewalld did not {verb}")
            # systemd calls it started once it has its D-Bus name; it answers there when the rules are loaded.
            # On a busy node that takes longer than D-Bus waits (25 s, seen at a load of 20 on two cores).
            if "Did not receive a reply" in self.run(["firewall-cmd", "--state"])[1]:
                self.run(["firewall-cmd", "--state"])
            self.must(["firewall-cmd", "--state"], "PF-117", "firewalld did not load its rules")
        if not self.enabled():
            self.must(["systemctl", "enable", UNIT], "PF-117", "firewalld could not be enabled")

    def reload(self) -> None:
        """Make firewalld read its files again, and only them."""
        self.must(["firewall-cmd", "--reload"], "PF-117", "firewalld did not take the reload")
        if not theirs.flushes_all(self.root):
            # What it cannot take out is seen by the proof.
            self.run(["/bin/sh", "-c", own_files.tidy(self.params["zone"])])

    def must(self, command: list[str], code: str, sentence: str) -> None:
        """Run a command that has to work."""
        rc, out = self.run(command)
        if rc == 0:
            return
        denials = denied.to("firewalld", self.run, self.begun, self.root)
        look = "See `journalctl -u firewalld`."
        if denials:
            look = (
                "SELinux is in its way: {}. Label its files again (`restorecon -Rv /etc/firewalld /usr/lib/firewalld`) "
                "or mend the policy; see `ausearch -m avc -ts recent`.".format(
                    "; ".join(denials[:3])
                )
            )
        said = "[{}] {}: `{}` says {!r}. {}{}"
        back = "Everything was put back. " if self.armed else ""
        raise core_error([said.format(code, sentence, " ".join(command), out.strip(), back, look)])

    def prove(self, want: Entry) -> None:
        """Compare the kernel's rules with the files."""
        found = self.runtime_faults(want)
        if found:
            raise core_error(
                [
                    "[PF-118] firewalld runs, and the kernel's rules are not what its files say: {}. Everything was "
                    "put back. See `journalctl -u firewalld` and `nft list table inet firewalld`.".format(
                        "; ".join(found)
                    )
                ]
            )

    def runtime_faults(self, want: Entry) -> list[str]:
        """Compare the kernel's rules with the files, whatever backend firewalld has."""
        found: list[str] = core.runtime_faults(self.run, self.root, want)
        return found

    def remark_ufw(self, want: Entry) -> None:
        """Say what becomes of ufw's rules."""
        rules = ufw.carried(self.root, *self.ours(want))
        lost = self.lost(want)
        self.notes += ufw.remarks(rules, want["ports"], lost)

    def take_ufw(self) -> None:
        """Switch ufw off, now that firewalld has the rules: at no moment is the node without a firewall."""
        if not self.takes_ufw():
            return
        ufw.remember(self.root, ufw.loaded(self.run))
        self.must([ufw.COMMAND, "disable"], "PF-125", "ufw could not be switched off")

    def validate(self, moved: dict[str, str]) -> None:
        """Let firewalld check a copy of its configuration with our files in it: nothing wrong ever gets to /etc."""
        version = self.run(["firewall-offline-cmd", "--version"])[1]
        if () < core.version_of(version) < OLDEST:
            self.faults.append(
                "[PF-127] firewalld {} has no policies, which keep ssh open to the controllers (0.9 or newer has). "
                "Bring a newer one (EL 8.4, Ubuntu 22.04 and newer have it), or set peer_firewall_mode to off and "
                "open {} to the peers with your own tool.".format(
                    version.strip(), ", ".join(self.params["ports"])
                )
            )
            return
        copy = tempfile.mkdtemp(prefix="fullmesh-firewalld-")
        try:
            target = copy + "/firewalld"
            shutil.copytree(self.root + own_files.ETC, target, symlinks=True)
            for path, text in moved.items():
                settle(target + path[len(own_files.ETC) :], text)
            rc, out = self.run(
                ["firewall-offline-cmd", "--system-config", target, "--check-config"]
            )
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        if rc != 0:
            self.faults.append(
                "[PF-116] firewalld does not accept the configuration with our files in it: "
                f"{out.strip()!r}. Nothing was changed. "
                "Is its version at least 0.9, is the rest of /etc/firewalld in order?"
            )

    def differs(self, path: str, text: str) -> bool:
        """Say whether a file of ours has to change, and keep the diff."""
        before = look(self.root + path)
        mine = own_files.MARK in before or path != own_files.paths(self.params["zone"])["service"]
        if before == text or not (text or mine):
            return False
        self.show(path, before, text)
        return True

    def show(self, name: str, before: str, after: str) -> None:
        """Keep one diff."""
        headers = {"before_header": name, "after_header": name}
        self.diff.append(dict(headers, before=before, after=after))

    def write(self, moved: dict[str, str]) -> None:
        """Write the files."""
        for path in sorted(moved) if not self.check else ():
            settle(self.root + path, moved[path])

    def arm(self, want: Entry) -> None:
        """Arm the way back."""
        seconds = int(self.params["rollback_seconds"])
        seconds = seconds if seconds > 0 else ALONE_SECONDS
        paths = [*sorted(own_files.paths(want["zone"]).values()), *LINKS, CARRIED]
        commands = ["firewall-cmd --reload || systemctl restart " + UNIT]
        if not theirs.flushes_all(self.root):
            commands.append(own_files.tidy(want["zone"]))
        boot: list[str] = []
        if not self.running():
            # It would be started all the same at that boot: systemd has the job already.
            boot = ["systemctl --no-block stop " + UNIT]
            commands = ["systemctl stop " + UNIT, "systemctl daemon-reload"]
        if self.takes_ufw():
            before = ufw.point(self.root)
            # and what an older version had kept of an earlier take-over
            kept = [before.path, *before.found().paths]
            paths += [ufw.CONF, *(path[len(self.root) :] for path in kept)]
        if not core.with_iptables(self.root):
            commands += keep.save(self.run, keep.dump(self.run))
        if self.takes_ufw():
            commands.append(keep.opening())
        try:
            what = "the peers' firewall"
            rollback.arm(self.run, NAME, seconds, paths, commands, boot=boot, what=what)
        except (rollback.RollbackError, OSError) as exc:
            raise core_error(
                [
                    "[PF-119] the timer that would put the firewall back could not be armed: "
                    f"{exc}. Nothing was changed. "
                    "Look at `systemctl status` on this node."
                ]
            ) from exc
        self.armed = True

    def go_back(self, cause: Exception) -> None:
        """Put everything back at once instead of waiting for the timer; say what could not be."""
        report = rollback.undone(self.run, NAME, "the change failed") if self.armed else None
        left = (report or {}).get("faults", [])
        if left:
            text = "{} But this could not be put back: {}.".format(cause, "; ".join(left))
            raise core_error([text]) from cause

    def describe(self, want: Entry, wanted: dict[str, str]) -> Entry:
        """Assemble what the role tells the manifest and the report."""
        controllers = own_files.by_family(want["controllers"])
        return {
            "files": sorted(path for path, text in wanted.items() if text),
            "ssh_ports": want["ssh_ports"],
            "controllers": [one for family in sorted(controllers) for one in controllers[family]],
            "default_zone": want["default_zone"],
            "ports": want["ports"],
            "ufw": self.takes_ufw() or ufw.taken(self.root),
            "needs_package": False,
            "armed": False,
        }

    # -- the other states

    def confirmed(self) -> Entry:
        """Disarm the way back over a connection that the new rules let in; one from before passes them by."""
        words = way_in.session(os.environ, os.getppid())
        if not self.check and rollback.proves_nothing(NAME, words):
            raise core_error([rollback.OLDER])
        return self.disarmed()

    def disarmed(self) -> Entry:
        """Disarm the way back."""
        word = "idle" if self.check else rollback.disarm(self.run, NAME)
        keep.forget()
        if word == "fired":
            raise core_error(
                [
                    "[PF-120] nobody came back in time, so this node has put its firewall back as it was. "
                    "Raise peer_firewall_rollback_seconds if it is only slow, and run again."
                ]
            )
        return {"changed": word == "disarmed", "rollback": word}

    def reloaded(self) -> Entry:
        """Make a running firewalld read its files again."""
        self.look()
        if not self.running():
            return {"changed": False}
        # An undo has to go through all the same: our files are gone, and the kernel still has their rules.
        lost = self.unsaved()
        lost += core.rules_beside(self.run) if core.with_iptables(self.root) else []
        if lost:
            text = (
                "set at runtime only, firewalld's reload for the undo dropped it: {}. Set it again."
            )
            self.notes.append({"code": "PF-208", "text": text.format("; ".join(lost))})
        if not self.check:
            with self.keeping():
                self.reload()
        return {"changed": True}

    def off(self) -> Entry:
        """Stop and disable firewalld, because we were told so."""
        self.look()
        text = (
            "the firewall of this node is off (peer_firewall_mode: off), every port is open to everybody. "
            "Fit for tests only; set it back to peers_range."
        )
        self.notes.append({"code": "PF-201", "text": text})
        if ufw.enabled(self.root):
            text = "ufw is active and not ours to stop: it still drops what it drops."
            self.notes.append({"code": "PF-202", "text": text})
        if not (self.running() or self.enabled()):
            return {"changed": False, "installed": self.installed()}
        self.show(UNIT, f"running: {self.running()}\nenabled: {self.enabled()}\n", "off\n")
        if not self.check:
            with self.keeping():
                command = ["systemctl", "disable", "--now", UNIT]
                self.must(command, "PF-117", "firewalld did not stop")
        return {"changed": True, "installed": True}

    def leaving(self) -> Entry:
        """Before an undo: note other people's rules, and change hands with ufw where firewalld came with us."""
        self.look()
        if not self.check and self.running() and not core.with_iptables(self.root):
            keep.save(self.run, keep.dump(self.run))
        if not self.waits_for_ufw() or not self.running() or self.ran_before():
            return {"changed": False}
        if not self.check:
            self.must(["systemctl", "stop", UNIT], "PF-117", "firewalld did not stop")
        return self.ufw_on_again()

    def left(self) -> Entry:
        """After an undo: put back what firewalld's end flushed."""
        result: Entry = self.ufw_on_again() if self.waits_for_ufw() else {"changed": False}
        if not self.check:
            faults = keep.restore(self.run, keep.saved())
            keep.forget()
            self.faults += [f"[PF-128] the iptables rules of others: {one}." for one in faults]
        self.stop_on_faults()
        return result

    def ran_before(self) -> bool:
        """Say whether firewalld ran before the role came, by the undo point; without one nothing is known."""
        services = Point(self.root, NAME).load()["services"]
        return services[UNIT]["active"] if UNIT in services else True

    def waits_for_ufw(self) -> bool:
        """Say whether ufw was on before the role came and is not now."""
        if not (ufw.taken(self.root) and ufw.installed(self.root)):
            return False
        same = ufw.conf_is_of_before(self.root)
        return not same or (ufw.was_loaded(self.root) and not ufw.loaded(self.run))

    def ufw_on_again(self) -> Entry:
        """Give ufw its configuration and its rules back."""
        wanted = ufw.was_loaded(self.root)
        self.show("ufw", "disabled\n", "active\n" if wanted else "enabled at boot\n")
        if not self.check:
            if wanted and not ufw.loaded(self.run):
                command = [ufw.COMMAND, "--force", "enable"]
                self.must(command, "PF-125", "ufw could not be switched on")
            ufw.give_conf_back(self.root)
        return {"changed": True}


class RefusedError(Exception):
    """Coded sentences for the user."""


def opened(port: str, ports: list[str]) -> bool:
    """Say whether a port with its protocol (``22/tcp``) is one of these."""
    one = parse_entry(port)
    return one is not None and opens(ports, one[0].first, one[1])


def core_error(faults: list[str]) -> RefusedError:
    """Wrap sentences."""
    return RefusedError("\n".join(faults))
