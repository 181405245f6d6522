"""One look at a node for the diagnosis. Missing tools and rights become entries of ``unknown``, never an error."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING, cast

from ..facts import efa
from ..schema.ports import KERNEL_RANGE, PortRange, parse_span
from . import filters as wall
from . import hooks, identity, job, job_unit, names, net, next_boot

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..schema.ladder import LookWant
    from ..schema.survey import Beside, Unknown
    from ..schema.survey import Survey as Seen

    Todo = list[tuple[str, Callable[[], Any], Any]]

MANIFEST = "/var/lib/fullmesh/manifest.json"
CALM = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    subprocess.SubprocessError,
)


class Survey:
    """Collects, several things at once, and remembers what could not be looked at."""

    def __init__(self) -> None:
        self.begun = self.ends = time.monotonic()
        self.found: dict[str, Any] = {}
        self.running: list[tuple[threading.Thread, str, Any]] = []
        self.unknown: list[Unknown] = []

    def miss(self, what: str, why: str) -> None:
        """Say what was not looked at, and why."""
        self.unknown.append({"what": what, "why": why})

    def ask(self, name: str, reader: Callable[[], Any], empty: Any) -> None:
        """Take one observation; a reader that may not know returns a pair of answer and reason.

        *empty* stands for an answer that there is none; None: then the observation is missing.
        """
        try:
            answer = reader()
        except CALM as exc:
            self.keep(name, empty)
            self.miss(name.replace("_", " "), f"{type(exc).__name__}: {exc}")
            return
        if isinstance(answer, tuple):
            answer, why = answer
            if why:
                self.miss(name.replace("_", " "), why)
        self.keep(name, answer or empty)

    def keep(self, name: str, answer: Any) -> None:
        """Keep an answer, if it is one."""
        if answer is not None:
            self.found[name] = answer

    def begin(self, todo: Todo, seconds: float) -> None:
        """Start several at once; most of them wait for a command or a name server."""
        self.running = []
        for one in todo:
            thread = threading.Thread(target=self.ask, args=one, daemon=True)
            self.running.append((thread, one[0], one[2]))
            thread.start()
        self.ends = time.monotonic() + seconds

    def end(self) -> None:
        """Wait for what was started, no longer than it was given."""
        for thread, name, empty in self.running:
            thread.join(max(0.0, self.ends - time.monotonic()))
            if thread.is_alive():
                self.keep(name, self.found.get(name, empty))
                self.miss(name.replace("_", " "), "no answer in time")


def range_of(want: LookWant) -> PortRange:
    """The range whose ports matter: the plan's, else the one that this kernel gives out."""
    configured = os.path.exists(MANIFEST)
    if want["range"] and (configured or not want["assumed"]):
        return PortRange(*want["range"])
    return kernel_range()


def kernel_range() -> PortRange:
    """The range from which this kernel takes ports."""
    return parse_span(net.read("/proc/sys/net/ipv4/ip_local_port_range")) or KERNEL_RANGE


def look_up(todo: Todo) -> Beside:
    """Ask name servers, and nothing else."""
    look = Survey()
    look.begin(todo, names.NAME_SECONDS)
    look.end()
    return cast("Beside", {**look.found, "unknown": look.unknown})


def begin_survey(
    want: LookWant, beside: Callable[[Callable[[], Beside]], None] | None = None
) -> Survey:
    """Start to look at everything that the rules of the diagnosis ask for.

    Args:
        want: what is known of the node.
        beside: asks for names while the probe goes on, given what is to be asked; None: they are asked for here.
    """
    own = want["address"]
    peers = [host["address"] for host in want["hosts"] if host["address"] != own]
    look = Survey()
    if os.geteuid() != 0:
        look.miss("processes of others, their ports and environments", "not root")
        look.miss("handshakes on the wire", "not root")
    look.ask("environment", job.environment, None)
    master = (
        look.found.get("environment", {}).get("values", {}).get("MASTER_ADDR", {}).get("value", "")
    )
    asked = names.lookups(peers, master)
    if beside:  # this and the namespaces fork, so before there are threads
        beside(lambda: look_up(asked))
        asked = []
    look.ask("namespaces", net.namespaces, [])
    todo: Todo = [
        *asked,
        ("nft", wall.ruleset, None),
        ("firewalld", wall.firewalld, None),
        ("gpus", job.gpus, None),
        ("routes", lambda: net.routes(peers), {}),
        ("neighbours", lambda: net.neighbours(peers), None),
        ("interfaces", net.cards, []),
        ("sockets", lambda: net.sockets(kernel_range()), None),
        ("kernel_log", job.kernel_log, []),
        ("selinux", job.selinux, None),
        ("jobs", job.jobs, []),
        ("efa", lambda: efa.observe(efa.read_environment()), None),
        ("hooks", lambda: hooks.hooks(net.card_of(own)), []),
        ("job_unit", job_unit.job_unit, None),
        ("next_boot", lambda: next_boot.next_boot(own, peers), None),
    ]
    if os.geteuid() == 0 and ":" not in own:
        todo.append(("duplicates", lambda: net.duplicates(own), []))
    look.begin(todo, names.NAME_SECONDS)
    return look


def end_survey(look: Survey, want: LookWant) -> Seen:
    """Take the rest, wait for what was started, and return everything.

    Args:
        look: what was started.
        want: as above.
    """
    look.ask("sysctls", net.sysctls, {})
    look.ask("identity", identity.identity, None)
    look.ask("limits", job.limits, {})
    look.ask("clock", job.clock, None)
    look.ask("rdma", job.rdma, [])
    look.ask("legacy_tables", wall.legacy_tables, [])
    look.end()
    span = range_of(want)
    look.found.update(
        root=os.geteuid() == 0,
        range=[span.first, span.last],
        shm=job.room("/dev/shm"),  # noqa: S108 (only its size is read)
        disk=job.room("/"),
        manifest=os.path.exists(MANIFEST),
        unknown=look.unknown,
        seconds=round(time.monotonic() - look.begun, 3),
    )
    return cast("Seen", look.found)
