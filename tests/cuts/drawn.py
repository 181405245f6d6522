"""Schedules of cuts by a number: which change, what ends or disturbs it on each node, and when. Pure.

The same number is the same schedule, so that a failure can be seen again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

# What a change of addresses leaves the node with; not a prefix that is too short, which may turn out to work. "right"
# only where the controller dies before it can confirm.
SPOILT = ("gateway", "address")
# A task of role static_ip before which the controller dies, of a change that would have been confirmed.
TASKS = (
    "Reconnect and confirm the change",
    "Open a new connection",
    "Verify the change on the node",
    "Disarm the rollback",
)
# Seconds that a right change gets, so that the controller arrives at the last of these tasks.
RIGHT_SECONDS = 25
SECONDS = (10, 12, 15)
# At once, at any moment until the timer, and around it.
EVENTS = (
    "cable out",  # this machine's end of it down, and up again
    "owner stopped",  # SIGSTOP for NetworkManager, systemd-networkd or firewalld, SIGCONT later
    "bus stopped",
    "rollback killed",  # SIGKILL, as by the kernel out of memory
    "rollback stopped",
    "reboot",
    "reexec",  # systemd takes itself anew, as its package's update does
    "edit",  # somebody writes a file of his own
    "second run",
    "other's token",
)
LASTING = ("cable out", "owner stopped", "bus stopped", "rollback stopped")


@dataclass(frozen=True)
class Event:
    """What happens to one node: *at* seconds after its change was armed, for *seconds* where it lasts."""

    kind: str
    at: float
    seconds: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """One draw.

    Attributes:
        seed: its number.
        change: network or firewall.
        seconds: of the timer.
        spoilt: by node, what is wrong with a change of the network; "right" for nothing.
        dies_at: the task before which the controller is killed; "" for none.
        killed: seconds after the first node was armed when the controller is killed; 0 for never.
        events: by node, in order.
    """

    seed: int
    change: str
    seconds: int
    spoilt: dict[str, str] = field(default_factory=dict)
    dies_at: str = ""
    killed: float = 0.0
    events: dict[str, list[Event]] = field(default_factory=dict)

    def words(self) -> str:
        """One line, for the table and for whoever has to see it again."""
        said = [f"drawn {self.seed}: {self.change}, {self.seconds} s"]
        said += [f"dies at {self.dies_at!r}"] if self.dies_at else []
        said += [f"killed at {self.killed:.1f}"] if self.killed else []
        for name, events in self.events.items():
            what = [f"{one.kind} at {one.at:.1f} for {one.seconds:.1f}" for one in events]
            said.append(f"{name} {' + '.join([self.spoilt.get(name, ''), *what]).strip(' +')}")
        return "; ".join(said)


def happenings(rng: random.Random, timer: float) -> list[Event]:
    """None, one or two events of a node; a reboot is the last, since what follows would find no node."""
    found = []
    for kind in rng.sample(EVENTS, rng.choice((0, 1, 1, 2, 2))):
        moment = rng.choice((rng.uniform(0, 1.5), rng.uniform(0, timer), timer + rng.gauss(0.3, 1)))
        lasts = rng.uniform(0.5, 6) if kind in LASTING else 0.0
        found.append(Event(kind, max(moment, 0.0), lasts))
    return sorted(found, key=lambda one: (one.kind == "reboot", one.at))


def draw(seed: int, names: Sequence[str]) -> Schedule:
    """The schedule of a number for the nodes of these names."""
    rng = random.Random(seed)  # noqa: S311 (no secret: the same number has to give the same schedule)
    if rng.random() < 0.35:
        seconds = rng.choice(SECONDS)
        events = {name: happenings(rng, seconds) for name in names}
        return Schedule(seed, "firewall", seconds, events=events)
    if rng.random() < 0.4:
        events = {name: happenings(rng, RIGHT_SECONDS) for name in names}
        right = dict.fromkeys(names, "right")
        return Schedule(seed, "network", RIGHT_SECONDS, right, rng.choice(TASKS), events=events)
    seconds = rng.choice(SECONDS)
    spoilt = {name: rng.choice(SPOILT) for name in names}
    killed = rng.uniform(0.1, seconds) if rng.random() < 0.5 else 0.0
    events = {name: happenings(rng, seconds) for name in names}
    return Schedule(seed, "network", seconds, spoilt, "", killed, events)
