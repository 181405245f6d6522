# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Open exactly the cluster's ports to its peers in firewalld, in one transaction, and prove it in the kernel."""

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from ansible.module_utils import fullmesh_firewalld as core
from ansible.module_utils import fullmesh_rollback as rollback
from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Entry = dict[str, Any]
    Runner = Callable[[list[str]], tuple[int, str]]

DOCUMENTATION = r"""
---
module: peer_zone
short_description: A firewalld zone of the cluster's peers, as one transaction
description:
  - Writes a zone, its ipsets and an ssh policy as files of its own, checks them in a copy of the configuration,
    arms a timer that puts everything back, starts or reloads firewalld once, and compares the kernel's rules with
    the files. Established connections survive; other zones, interfaces and the default zone are not touched.
  - The controller's address is taken from the ssh connection and always keeps ssh, as all of C(controllers) do.
options:
  state:
    description:
      - V(present) makes the zone. V(confirmed) disarms the timer. V(reloaded) makes firewalld read its files again,
        when it runs. V(off) stops and disables firewalld.
    type: str
    choices: [present, confirmed, reloaded, off]
    default: present
  mode:
    description: V(peers_range) opens C(ports) to the peers, V(peers_trusted) everything.
    type: str
    choices: [peers_range, peers_trusted]
    default: peers_range
  zone:
    description: Name of the zone, at most 13 characters.
    type: str
    default: fullmesh
  peers:
    description: Addresses of all nodes.
    type: list
    elements: str
    default: []
  controllers:
    description: Addresses that must always reach ssh.
    type: list
    elements: str
    default: []
  ports:
    description: Ports with protocol, such as C(50000-54095/tcp).
    type: list
    elements: str
    default: []
  rollback_seconds:
    description: When nobody confirms within this time, the node puts everything back. 0 arms nothing.
    type: int
    default: 60
attributes:
  check_mode:
    description: Files are compared, nothing is started; on a bare node the files that would come are shown.
    support: full
  diff_mode:
    description: Every file that differs.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Let the peers in
  peer_zone:
    peers: [192.0.2.11, 192.0.2.12]
    controllers: [198.51.100.7]
    ports: [29500/tcp, 50000-54095/tcp]
"""

RETURN = r"""
needs_package:
  description: firewalld is not installed; the files are in place for its first start.
  type: bool
  returned: state is present
armed:
  description: The timer runs, somebody has to confirm on a new connection.
  type: bool
  returned: state is present
rollback:
  description: V(disarmed), V(idle), or V(fired) when the node had already put everything back.
  type: str
  returned: state is confirmed
files:
  description: Files that are ours now.
  type: list
  elements: str
  returned: state is present
ssh_ports:
  description: Where sshd listens.
  type: list
  elements: int
  returned: state is present
controllers:
  description: Addresses that keep ssh, the live one among them.
  type: list
  elements: str
  returned: state is present
default_zone:
  description: firewalld's default zone, which is left alone.
  type: str
  returned: state is present
notes:
  description: Warnings, each with C(code) and C(text).
  type: list
  elements: dict
  returned: always
"""

UNIT = "firewalld.service"
# firewalld.service conflicts with them: starting it would stop them and with them the rules they hold.
RIVALS = ("iptables.service", "ip6tables.service", "ebtables.service", "nftables.service")
NAME = "peer_firewall"


class Firewall:
    """One run on one node."""

    def __init__(self, params, check, run, root=""):  # type: (Entry, bool, Runner, str) -> None
        self.params = params
        self.check = check
        self.run = run
        self.root = root
        self.faults = []  # type: list[str]
        self.notes = []  # type: list[Entry]
        self.diff = []  # type: list[Entry]
        self.units = {}  # type: dict[str, Entry]
        self.armed = False
        self.changed = False

    # -- looking

    def look(self):  # type: () -> None
        """Ask systemd about firewalld and what would fight with it, in one call."""
        names = (UNIT, *RIVALS)
        command = ["systemctl", "show", "--property=LoadState,ActiveState,UnitFileState", "--"]
        blocks = self.run([*command, *names])[1].strip().split("\n\n")
        for name, block in zip(names, blocks):  # noqa: B905 (Python 3.6 has no strict; systemctl answers in order)
            self.units[name] = dict(
                line.split("=", 1) for line in block.splitlines() if "=" in line
            )

    def running(self):  # type: () -> bool
        """Say whether firewalld runs."""
        return self.units.get(UNIT, {}).get("ActiveState") in ("active", "reloading", "activating")

    def enabled(self):  # type: () -> bool
        """Say whether firewalld starts at boot."""
        return self.units.get(UNIT, {}).get("UnitFileState") == "enabled"

    def installed(self):  # type: () -> bool
        """Say whether firewalld is there."""
        return self.units.get(UNIT, {}).get("LoadState") not in (None, "not-found")

    def want(self):  # type: () -> Entry
        """Complete what was asked by what only the node knows: our way in."""
        live = core.ssh_connection(os.environ, os.getpid())
        ports = set(core.sshd_ports()) | ({int(live[3])} if live else set())
        want = {name: self.params[name] for name in ("zone", "mode", "peers", "ports")}
        want["controllers"] = [*self.params["controllers"], *live[:1]]
        want["ssh_ports"] = sorted(ports) or [22]
        want["default_zone"] = core.conf_value(self.root, "DefaultZone", "public")
        want["own_service"] = self.own_service(want)
        return want

    def own_service(self, want):  # type: (Entry) -> bool
        """Say whether the service ``ssh`` needs our file: sshd listens elsewhere, and it is us who shut the door."""
        path = self.root + core.paths(want["zone"])["service"]
        if core.MARK in core.read(path):
            return True
        return not self.running() and bool(self.shut(want)) and not os.path.exists(path)

    def shut(self, want):  # type: (Entry) -> list[int]
        """List the ssh ports that the default zone would not let in."""
        zone, ports = want["default_zone"], list(want["ssh_ports"])
        if not self.installed() and core.tree(self.root, "zones", zone) is None:
            return [port for port in ports if port != 22]  # noqa: PLR2004 (every distribution's public zone has ssh)
        return [port for port in ports if not core.zone_allows(self.root, zone, port)]

    # -- refusing

    def refuse(self, want):  # type: (Entry) -> None
        """Collect every reason not to touch this node's firewall."""
        if enabled_ufw(self.root):
            self.faults.append(
                "[PF-110] ufw is active on this node (/etc/ufw/ufw.conf: ENABLED=yes): two firewalls would each drop "
                "what the other lets in. Move its rules to firewalld, run `ufw disable`, and run again."
            )
        for name in RIVALS if not self.running() else ():
            if self.units.get(name, {}).get("ActiveState") == "active":
                self.faults.append(
                    "[PF-111] {} is active and starting firewalld would stop it, with the rules it holds. "
                    "Run `systemctl disable --now {}` when they are no longer needed.".format(
                        name, name
                    )
                )
        if self.units.get(UNIT, {}).get("LoadState") == "masked":
            self.faults.append(
                "[PF-112] firewalld.service is masked: somebody decided against it. "
                "Run `systemctl unmask firewalld`, or set peer_firewall_mode to off."
            )
        for claim in core.claims(self.root, want["zone"], want["peers"]):
            self.faults.append(
                "[PF-113] {}: firewalld asks one zone only, and it would not be {}. "
                "Take the source out of that zone.".format(claim, want["zone"])
            )
        self.refuse_start(want)

    def refuse_start(self, want):  # type: (Entry) -> None
        """Refuse to start a firewall that shuts ssh for everybody but peers and controllers."""
        if self.running() or (not self.installed() and not want["own_service"]):
            return
        shut, zone = self.shut(want), want["default_zone"]
        by_service = want["own_service"] and (
            not self.installed() or core.zone_has_service(self.root, zone, "ssh")
        )
        if shut and not by_service:
            self.faults.append(
                "[PF-115] sshd listens on {port} and firewalld's default zone {zone} would close it once it starts. "
                "Run `firewall-offline-cmd --zone={zone} --add-port={port}/tcp` first.".format(
                    port=shut[0], zone=zone
                )
            )

    def refuse_reload(self, zone):  # type: (str) -> None
        """Refuse a reload that would drop what others set at runtime only."""
        ran = self.run(["firewall-cmd", "--list-all-zones"])
        kept = self.run(["firewall-cmd", "--permanent", "--list-all-zones"])
        if ran[0] != 0 or kept[0] != 0:
            return
        for text in core.unsaved(ran[1], kept[1], zone):
            self.faults.append(
                "[PF-114] set at runtime only, the reload would drop it: {}. "
                "Keep it with `firewall-cmd --runtime-to-permanent`, or drop it with `firewall-cmd --reload`.".format(
                    text
                )
            )

    # -- acting

    def stop_on_faults(self):  # type: () -> None
        """End with every fault found so far."""
        if self.faults:
            raise core_error(self.faults)

    def present(self):  # type: () -> Entry
        """Make the zone."""
        self.look()
        want = self.want()
        self.refuse(want)
        self.stop_on_faults()
        wanted = core.files(want)
        moved = {path: text for path, text in wanted.items() if self.differs(path, text)}
        result = self.describe(want, wanted)
        if not self.installed():
            self.write(moved)
            self.show("package firewalld", "absent\n", "installed, running, enabled\n")
            return dict(result, changed=True, needs_package=True)
        stale = [] if moved or not self.running() else core.kernel_faults(self.table(), want)
        if moved or stale or not (self.running() and self.enabled()):
            self.act(want, moved, stale)
        return dict(result, changed=self.changed, armed=self.armed)

    def act(self, want, moved, stale):  # type: (Entry, dict[str, str], list[str]) -> None
        """Write, start or reload, and prove."""
        self.changed = True
        if stale:
            self.show("firewalld at runtime", "\n".join(stale) + "\n", "as in the files\n")
        reload = self.running() and bool(moved or stale)
        if reload:
            self.refuse_reload(want["zone"])
        if moved or not self.running():
            self.validate(moved)
        self.stop_on_faults()
        if self.check:
            return
        if reload or not self.running():
            self.arm(want)
        self.write(moved)
        try:
            self.start_or_reload(reload)
            self.prove(want)
        except Exception:
            self.go_back()
            raise

    def start_or_reload(self, reload):  # type: (bool) -> None
        """One reload, or the first start; a reload keeps established connections, firewall-cmd(1)."""
        # A ruleset that somebody flushed cannot be reloaded: firewalld stumbles over the missing table.
        lost = reload and not self.table()
        if reload and not lost:
            self.must(["firewall-cmd", "--reload"], "PF-117", "firewalld did not take the reload")
        if lost or not self.running():
            verb = "restart" if lost else "start"
            self.must(["systemctl", verb, UNIT], "PF-117", "firewalld did not {}".format(verb))
            # systemd calls it started once it has its D-Bus name; it answers there when the rules are loaded.
            self.must(["firewall-cmd", "--state"], "PF-117", "firewalld did not load its rules")
        if not self.enabled():
            self.must(["systemctl", "enable", UNIT], "PF-117", "firewalld could not be enabled")

    def must(self, command, code, sentence):  # type: (list[str], str, str) -> None
        """Run a command that has to work."""
        rc, out = self.run(command)
        if rc != 0:
            raise core_error(
                [
                    "[{}] {}: `{}` says {!r}. Everything was put back. See `journalctl -u firewalld`.".format(
                        code, sentence, " ".join(command), out.strip()
                    )
                ]
            )

    def prove(self, want):  # type: (Entry) -> None
        """Compare the kernel's rules with the files."""
        found = core.kernel_faults(self.table(), want)
        if found:
            raise core_error(
                [
                    "[PF-118] firewalld runs, and the kernel's rules are not what its files say: {}. Everything was "
                    "put back. See `journalctl -u firewalld` and `nft list table inet firewalld`.".format(
                        "; ".join(found)
                    )
                ]
            )

    def table(self):  # type: () -> list[Entry]
        """Return firewalld's rules in the kernel."""
        table = core.kernel_table(self.run)  # type: list[Entry]
        return table

    def validate(self, moved):  # type: (dict[str, str]) -> None
        """Let firewalld check a copy of its configuration with our files in it: nothing wrong ever gets to /etc."""
        copy = tempfile.mkdtemp(prefix="fullmesh-firewalld-")
        try:
            target = copy + "/firewalld"
            shutil.copytree(self.root + core.ETC, target, symlinks=True)
            for path, text in moved.items():
                put(target + path[len(core.ETC) :], text)
            rc, out = self.run(
                ["firewall-offline-cmd", "--system-config", target, "--check-config"]
            )
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        if rc != 0:
            self.faults.append(
                "[PF-116] firewalld does not accept the configuration with our files in it: {!r}. Nothing was changed. "
                "Is its version at least 0.9, is the rest of /etc/firewalld in order?".format(
                    out.strip()
                )
            )

    def differs(self, path, text):  # type: (str, str) -> bool
        """Say whether a file of ours has to change, and keep the diff."""
        before = core.read(self.root + path)
        mine = core.MARK in before or path != core.paths(self.params["zone"])["service"]
        if before == text or not (text or mine):
            return False
        self.show(path, before, text)
        return True

    def show(self, name, before, after):  # type: (str, str, str) -> None
        """Keep one diff."""
        headers = {"before_header": name, "after_header": name}
        self.diff.append(dict(headers, before=before, after=after))

    def write(self, moved):  # type: (dict[str, str]) -> None
        """Write the files."""
        for path in sorted(moved) if not self.check else ():
            put(self.root + path, moved[path])

    def arm(self, want):  # type: (Entry) -> None
        """Arm the way back."""
        seconds = int(self.params["rollback_seconds"])
        if seconds <= 0:
            return
        commands = ["firewall-cmd --reload || systemctl restart " + UNIT]
        if not self.running():
            commands = ["systemctl stop " + UNIT]
            commands += [] if self.enabled() else ["systemctl disable " + UNIT]
        try:
            rollback.arm(
                self.run, NAME, seconds, sorted(core.paths(want["zone"]).values()), commands
            )
        except (rollback.RollbackError, OSError) as exc:
            raise core_error(
                [
                    "[PF-119] the timer that would put the firewall back could not be armed: {}. Nothing was changed. "
                    "Look at `systemctl status` on this node.".format(exc)
                ]
            ) from exc
        self.armed = True

    def go_back(self):  # type: () -> None
        """Put everything back at once instead of waiting for the timer."""
        if self.armed:
            self.run(["/bin/sh", rollback.STORE + "/" + NAME + "/back.sh"])
            rollback.disarm(self.run, NAME)

    def describe(self, want, wanted):  # type: (Entry, dict[str, str]) -> Entry
        """Assemble what the role tells the manifest and the report."""
        controllers = core.by_family(want["controllers"])
        return {
            "files": sorted(path for path, text in wanted.items() if text),
            "ssh_ports": want["ssh_ports"],
            "controllers": [one for family in sorted(controllers) for one in controllers[family]],
            "default_zone": want["default_zone"],
            "needs_package": False,
            "armed": False,
        }

    # -- the other states

    def confirmed(self):  # type: () -> Entry
        """Disarm the way back."""
        word = "idle" if self.check else rollback.disarm(self.run, NAME)
        if word == "fired":
            raise core_error(
                [
                    "[PF-120] nobody came back in time, so this node has put its firewall back as it was. "
                    "Raise peer_firewall_rollback_seconds if it is only slow, and run again."
                ]
            )
        return {"changed": word == "disarmed", "rollback": word}

    def reloaded(self):  # type: () -> Entry
        """Make a running firewalld read its files again."""
        self.look()
        if not self.running():
            return {"changed": False}
        if not self.check:
            self.must(["firewall-cmd", "--reload"], "PF-117", "firewalld did not take the reload")
        return {"changed": True}

    def off(self):  # type: () -> Entry
        """Stop and disable firewalld, because we were told so."""
        self.look()
        text = (
            "the firewall of this node is off (peer_firewall_mode: off), every port is open to everybody. "
            "Fit for tests only; set it back to peers_range."
        )
        self.notes.append({"code": "PF-201", "text": text})
        if enabled_ufw(self.root):
            text = "ufw is active and not ours to stop: it still drops what it drops."
            self.notes.append({"code": "PF-202", "text": text})
        if not (self.running() or self.enabled()):
            return {"changed": False, "installed": self.installed()}
        self.show(
            UNIT, "running: {}\nenabled: {}\n".format(self.running(), self.enabled()), "off\n"
        )
        if not self.check:
            self.must(["systemctl", "disable", "--now", UNIT], "PF-117", "firewalld did not stop")
        return {"changed": True, "installed": True}


class RefusedError(Exception):
    """Coded sentences for the user."""


def core_error(faults):  # type: (list[str]) -> RefusedError
    """Wrap sentences."""
    return RefusedError("\n".join(faults))


def enabled_ufw(root):  # type: (str) -> bool
    """Say whether ufw is on; its unit is `active` even where it does nothing, ufw.conf decides."""
    lines = core.read(root + "/etc/ufw/ufw.conf").splitlines()
    return any(line.replace(" ", "").lower() == "enabled=yes" for line in lines)


def put(path, text):  # type: (str, str) -> None
    """Replace a file in one step, or remove it."""
    if not text:
        if os.path.exists(path):
            os.unlink(path)
        return
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory, 0o755)
    handle, temporary = tempfile.mkstemp(prefix=".fullmesh-", dir=directory)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(temporary, 0o644)
    os.rename(temporary, path)


def main():  # type: () -> None
    """Read the parameters, call, answer."""
    texts = {"type": "list", "elements": "str", "default": []}  # type: Entry
    module = AnsibleModule(
        argument_spec={
            "state": {
                "choices": ["present", "confirmed", "reloaded", "off"],
                "default": "present",
            },
            "mode": {"choices": ["peers_range", "peers_trusted"], "default": "peers_range"},
            "zone": {"type": "str", "default": "fullmesh"},
            "peers": texts,
            "controllers": texts,
            "ports": texts,
            "rollback_seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}

    def run(command):  # type: (list[str]) -> tuple[int, str]
        try:
            rc, out, err = module.run_command(command, handle_exceptions=False)
        except OSError as exc:
            return 127, str(exc)
        return int(rc), str(out) if rc == 0 else str(out) + str(err)

    firewall = Firewall(module.params, module.check_mode, run)
    try:
        result = getattr(firewall, module.params["state"])()
    except RefusedError as exc:
        module.fail_json(msg=str(exc))
    for note in firewall.notes:
        module.warn("[{code}] {text}".format(**note))
    module.exit_json(notes=firewall.notes, diff=firewall.diff, **result)


if __name__ == "__main__":
    main()
