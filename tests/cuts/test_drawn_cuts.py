"""Run drawn cuts: change, end, disturbance and moment come from drawn.py, and the node must return.

``FULLMESH_SCHEDULES=FIRST-LAST`` runs other numbers. A failure names its number.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from .conftest import STORE, Cut, Lab, Node, Play
from .drawn import Event, Schedule, draw
from .test_cuts import wait_for
from .test_firewall_cuts import WITHOUT_SSH, start_firewalld

FIRST, _, LAST = os.environ.get("FULLMESH_SCHEDULES", "1-62").partition("-")
NAMES = {"network": "static_ip", "firewall": "peer_firewall"}
# Debian's ifupdown is no daemon: its DHCP client runs in this unit after a boot.
NETWORK_OWNERS = {"el": "NetworkManager", "ubuntu": "systemd-networkd"}
DEBIAN_OWNER = "networking"
EDIT = "/etc/fullmesh-drawn-edit"
# Seconds besides the timer and known delays, as the README promises. On a machine with more work
# than CPUs nothing is promised, and the table shows the delay.
GRACE = 5.0
BOOT = 10.0
# An Ansible module may need this long on a busy machine to arm its change.
ARMED_SECONDS = 60
SECOND = """
try:
    tx.arm(run, "second", 60, [], [])
    print("armed", tx.disarm(run, "second"))
except tx.RollbackError as exc:
    print(exc)
"""
OTHER = """
try:
    print(tx.disarm(run, "{name}", "another one's"))
except tx.RollbackError as exc:
    print(exc)
"""


@dataclass
class Seen:
    """The events of one node."""

    armed: float = 0.0  # seconds of the controller's monotonic clock
    held_up: float = 0.0
    edited: bool = False
    faults: list[str] = field(default_factory=list)


def quiet(node: Node, command: str) -> str:
    """Run a command that may fail because the unit is gone or the bus does not answer."""
    done = node.podman.run("exec", node.container, "sh", "-c", command, timeout=60)
    return str(done.stdout).strip()


def stopped(node: Node, unit: str, seconds: float) -> None:
    """Stop a unit's processes for a while."""
    quiet(node, f"systemctl kill --signal=STOP {unit}")
    try:
        time.sleep(seconds)
    finally:
        quiet(node, f"systemctl kill --signal=CONT {unit}")


class Drawn:
    """One schedule on both nodes."""

    def __init__(self, lab: Lab, schedule: Schedule) -> None:
        self.lab, self.schedule = lab, schedule
        self.name = NAMES[schedule.change]
        self.seen = {node.name: Seen() for node in lab.nodes}
        self.ports = {node.name: lab.port(node) for node in lab.nodes}
        self.over = threading.Event()

    def links(self, node: Node) -> dict[str, object]:
        """Return the link as drawn."""
        kind = self.schedule.spoilt[node.name]
        address, gateway = node.planned, self.lab.at("99")
        if kind == "right":
            return self.lab.link(node)
        if kind == "address":
            address = f"10.77.{self.lab.index}.{node.planned.split('.')[3]}"
            gateway = ""
        return self.lab.link(node, addresses=[address], gateway=gateway)

    def until_armed(self, node: Node) -> bool:
        """Wait for the change, and note when it was armed. It may have been refused or have ended earlier."""
        seen, end = self.seen[node.name], time.monotonic() + ARMED_SECONDS
        while time.monotonic() < end and not self.over.is_set():
            said = quiet(node, f"stat -c %.9Y {STORE}/{self.name}/armed 2> /dev/null")
            if said:
                seen.armed = float(said) - time.time() + time.monotonic()
                return True
            time.sleep(0.1)
        return False

    def disturb(self, node: Node) -> None:
        """Run the events of one node, each at its moment. An error here is an error of the schedule."""
        seen = self.seen[node.name]
        try:
            if self.until_armed(node):
                for event in self.schedule.events[node.name]:
                    time.sleep(max(seen.armed + event.at - time.monotonic(), 0))
                    begun = time.monotonic()
                    self.happen(node, event)
                    seen.held_up += time.monotonic() - begun
        except Exception as exc:
            seen.faults.append(repr(exc))

    def happen(self, node: Node, event: Event) -> None:
        """Run one event."""
        unit = f"fullmesh-rollback-{self.name.replace('_', '-')}.service"
        owner = "firewalld"
        if self.schedule.change == "network":
            owner = NETWORK_OWNERS.get(node.family, DEBIAN_OWNER)
        if event.kind == "cable out":
            port = self.ports[node.name]
            self.lab.host("ip", "link", "set", port, "down")
            time.sleep(event.seconds)
            self.lab.host("ip", "link", "set", port, "up")
        elif event.kind in ("owner stopped", "bus stopped", "rollback stopped"):
            which = {"owner stopped": owner, "bus stopped": "dbus.service"}.get(event.kind, unit)
            stopped(node, which, event.seconds)
        elif event.kind == "rollback killed":
            quiet(node, f"systemctl kill --signal=KILL {unit}")
        elif event.kind == "reexec":
            quiet(node, "systemctl daemon-reexec")
        elif event.kind == "edit":
            node.run(f"echo mine > {EDIT}")
            self.seen[node.name].edited = True
        elif event.kind == "second run":
            said = node.engine(SECOND)
            assert said == "armed disarmed" or "[TX-101]" in said, said
        elif event.kind == "other's token":
            said = node.engine(OTHER.format(name=self.name))
            assert said in ("idle", "fired") or "[TX-109]" in said, said
        else:
            assert event.kind == "reboot", event
            node.reboot()
            self.seen[node.name].held_up += BOOT

    def begin(self) -> Play | None:
        """Start the change: the network's through its role, the firewall's through the engine on the node."""
        if self.schedule.change == "network":
            more = {"cut_seconds": self.schedule.seconds}
            return self.lab.start(self.links, die_at=self.schedule.dies_at, **more)
        script = WITHOUT_SSH.format(controller=self.lab.controller)
        script = script.replace(", 30,", f", {self.schedule.seconds},")
        for node in self.lab.nodes:
            try:
                node.engine(script)
            except AssertionError:
                # an early reboot stops the script, too
                assert self.seen[node.name].armed, f"{node.name} was not armed"
        return None

    def run(self) -> None:
        """Run until the controller has ended and every event has happened."""
        threads = [
            threading.Thread(target=self.disturb, args=(node,), daemon=True)
            for node in self.lab.nodes
        ]
        for thread in threads:
            thread.start()
        play = self.begin()
        if play and self.schedule.killed:
            end = time.monotonic() + ARMED_SECONDS
            while not any(seen.armed for seen in self.seen.values()) and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(self.schedule.killed)
            play.kill()
        elif play:
            play.process.wait(240)
        self.over.set()
        for thread in threads:
            thread.join(240)
        faults = {name: seen.faults for name, seen in self.seen.items() if seen.faults}
        assert not faults, faults


@pytest.fixture(scope="module")
def firewalled(lab: Lab) -> Iterator[Lab]:
    """Start firewalld on both nodes, also at every boot."""
    start_firewalld(lab)
    for node in lab.nodes:
        node.run("systemctl enable -q firewalld")
    yield lab
    for node in lab.nodes:
        quiet(node, f"rm -f {EDIT}")


@pytest.mark.rest
@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))
def test_any_interrupted_change_leaves_the_node_reachable(firewalled: Lab, seed: int) -> None:
    schedule = draw(seed, [node.name for node in firewalled.nodes])
    print(schedule.words())  # noqa: T201 (needed to repeat a failure)
    # after a failed schedule, its node may still be reverting
    for node in firewalled.nodes:
        wait_for(node.idle, 120)
    drawn = Drawn(firewalled, schedule)
    with Cut(firewalled, f"drawn {seed}: {schedule.change}") as cut:
        drawn.run()
        cut.wait()
        for node in firewalled.nodes:
            if drawn.seen[node.name].edited:  # an edit by a user stays
                assert node.run(f"cat {EDIT}; rm {EDIT}") == "mine"
    busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    for watcher in cut.watchers:
        seen = drawn.seen[watcher.node.name]
        _silent, back = watcher.away()
        late = round(back - seen.armed - schedule.seconds, 1) if back and seen.armed else 0.0
        print(f"{watcher.node.name}: {late} s after its timer, held up {seen.held_up:.1f} s")  # noqa: T201
        assert busy or late <= GRACE + seen.held_up
