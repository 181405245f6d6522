"""Draw schedules of cuts from a number: the change, and when its end or a disturbance hits each node.

Pure.

The same number always gives the same schedule, so a failure can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

# Spoiled addresses of a change. A prefix that is too short may work, so it is not here. "right"
# only occurs if the controller is killed before it can confirm.
SPOILT = ("gateway", "address")
# A task of the role static_ip before which the controller is killed, of a change that would have
# been confirmed.
TASKS = (
    "Reconnect and confirm the change",
    "Open a new connection",
    "Verify the change on the node",
    "Disarm the rollback",
)
# The deadline of a right change, long enough for the controller to reach the last of these tasks.
RIGHT_SECONDS = 25
SECONDS = (10, 12, 15)
# At once, at any moment until the timer, and around it.
EVENTS = (
    "cable out",  # this machine's end goes down and up again
    "owner stopped",  # SIGSTOP for NetworkManager, systemd-networkd or firewalld, SIGCONT later
    "bus stopped",
    "rollback killed",  # SIGKILL, as by the kernel without memory
    "rollback stopped",
    "reboot",
    "reexec",  # systemd restarts itself, as an update of its package does
    "edit",  # a user writes a file
    "second run",
    "other's token",
)
LASTING = ("cable out", "owner stopped", "bus stopped", "rollback stopped")


@dataclass(frozen=True)
class Event:
    """An event on a node, *at* seconds after its change was armed. Some last for *seconds*."""

    kind: str
    at: float
    seconds: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """One drawn schedule.

    Attributes:
        seed: its number.
        change: network or firewall.
        seconds: of the timer.
        spoilt: by node, the fault in a change of the network, "right" for none.
        dies_at: the task before which the controller is killed, "" for none.
        killed: seconds after the first node was armed when the controller is killed, 0 for never.
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
        """Return one line for the table, which is enough to repeat the schedule."""
        said = [f"drawn {self.seed}: {self.change}, {self.seconds} s"]
        said += [f"dies at {self.dies_at!r}"] if self.dies_at else []
        said += [f"killed at {self.killed:.1f}"] if self.killed else []
        for name, events in self.events.items():
            what = [f"{one.kind} at {one.at:.1f} for {one.seconds:.1f}" for one in events]
            said.append(f"{name} {' + '.join([self.spoilt.get(name, ''), *what]).strip(' +')}")
        return "; ".join(said)


def happenings(rng: random.Random, timer: float) -> list[Event]:
    """Draw up to two events of a node. A reboot is the last, because later events would find no node."""
    found = []
    for kind in rng.sample(EVENTS, rng.choice((0, 1, 1, 2, 2))):
        moment = rng.choice((rng.uniform(0, 1.5), rng.uniform(0, timer), timer + rng.gauss(0.3, 1)))
        lasts = rng.uniform(0.5, 6) if kind in LASTING else 0.0
        found.append(Event(kind, max(moment, 0.0), lasts))
    return sorted(found, key=lambda one: (one.kind == "reboot", one.at))


def draw(seed: int, names: Sequence[str]) -> Schedule:
    """Draw the schedule of a number for the nodes with these names."""
    rng = random.Random(seed)  # noqa: S311 (no secret: the same number must give the same schedule)
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
