"""Survey a node for the diagnosis. Missing tools and rights become entries of ``unknown``, never an error."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING, cast

from ..facts import efa
from ..schema.ports import KERNEL_RANGE, PortRange, parse_port_range
from . import (
    filters,
    hooks,
    identity,
    job,
    job_slurm_start,
    job_start,
    job_unit,
    job_unit_start,
    names,
    net,
    next_boot,
    queues,
    tunnel,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..schema.ladder import LadderNodeParams
    from ..schema.survey import MissingFact, ParallelLookups
    from ..schema.survey import NodeSurvey as Seen

    Todo = list[tuple[str, Callable[[], Any], Any]]

SLURM_START, EXTRA_SECONDS = "slurm_start", 0.3
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


class SurveyCollector:
    """Runs several observations at once, and records those that failed."""

    def __init__(self) -> None:
        self.begun = self.ends = time.monotonic()
        self.found: dict[str, Any] = {}
        self.running: list[tuple[threading.Thread, str, Any]] = []
        self.unknown: list[MissingFact] = []

    def miss(self, what: str, why: str) -> None:
        """Record a missing observation and the reason."""
        self.unknown.append({"what": what, "why": why})

    def ask(self, name: str, reader: Callable[[], Any], empty: Any) -> None:
        """Run one observation.

        A reader may return an (answer, reason) pair.

        *empty* replaces a missing answer. With None, the key is missing.
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
        """Save an answer unless it is None."""
        if answer is not None:
            self.found[name] = answer

    def begin(self, todo: Todo, seconds: float) -> None:
        """Start several observations at once. Most of them wait for a command or a name server."""
        self.running = []
        for one in todo:
            thread = threading.Thread(target=self.ask, args=one, daemon=True)
            self.running.append((thread, one[0], one[2]))
            thread.start()
        self.ends = time.monotonic() + seconds

    def end(self) -> None:
        """Wait for the started observations until the deadline."""
        for thread, name, empty in self.running:
            thread.join(max(0.0, self.ends - time.monotonic()))
            if thread.is_alive():
                self.keep(name, self.found.get(name, empty))
                self.miss(name.replace("_", " "), "no answer in time")


def choose_port_range(want: LadderNodeParams) -> PortRange:
    """Return the range of data ports: the plan's, else this kernel's own."""
    configured = os.path.exists(MANIFEST)
    if want["range"] and (configured or not want["assumed"]):
        return PortRange(*want["range"])
    return read_kernel_range()


def read_kernel_range() -> PortRange:
    """Return this kernel's local port range."""
    return (
        parse_port_range(net.read_kernel_file("/proc/sys/net/ipv4/ip_local_port_range"))
        or KERNEL_RANGE
    )


def collect_lookups(todo: Todo) -> ParallelLookups:
    """Query name servers, and log in as the account of jobs."""
    collector, seconds = SurveyCollector(), names.NAME_SECONDS
    if any(name == SLURM_START for name, _, _ in todo):
        seconds = job_slurm_start.SECONDS + EXTRA_SECONDS
    collector.begin(todo, seconds)
    collector.end()
    return cast("ParallelLookups", {**collector.found, "unknown": collector.unknown})


def begin_survey(
    want: LadderNodeParams, beside: Callable[[Callable[[], ParallelLookups]], None] | None = None
) -> SurveyCollector:
    """Start to collect everything that the rules of the diagnosis need.

    Args:
        want: known data of the node.
        beside: gets the name lookups and the login to run them during the probe. None: they run here.
    """
    own = want["address"]
    peers = [host["address"] for host in want["hosts"] if host["address"] != own]
    collector = SurveyCollector()
    if os.geteuid() != 0:
        collector.miss("processes of others, their ports and environments", "not root")
        collector.miss("handshakes on the wire", "not root")
    collector.ask("environment", job.survey_environment, None)
    master = (
        collector.found.get("environment", {})
        .get("values", {})
        .get("MASTER_ADDR", {})
        .get("value", "")
    )
    asked = names.list_lookups(peers, master)
    if want["as_job"]:
        asked.append(("job_start", lambda: job_start.survey_job_start(want), None))
        asked.append(("unit_start", job_unit_start.survey_job_unit_start, None))
        if job_slurm_start.find_slurmd():
            asked.append((SLURM_START, lambda: job_slurm_start.survey_slurm_start(want), None))
    if beside:  # this and the namespaces fork, so before there are threads
        beside(lambda: collect_lookups(asked))
        asked = []
    collector.ask("namespaces", net.survey_namespaces, [])
    addresses = net.read_interface_addresses()
    interface = net.find_interface_of(own, addresses)
    todo: Todo = [
        *asked,
        ("nft", filters.survey_ruleset, None),
        ("legacy_rules", filters.survey_legacy_rules, {}),
        ("firewalld", filters.survey_firewalld, None),
        ("gpus", job.survey_gpus, None),
        ("routes", lambda: net.survey_routes(peers), {}),
        ("neighbours", lambda: net.survey_neighbours(peers), None),
        ("interfaces", lambda: net.survey_interfaces(addresses), []),
        ("sockets", lambda: net.survey_sockets(read_kernel_range()), None),
        ("kernel_log", job.survey_kernel_log, []),
        ("selinux", job.survey_selinux, None),
        ("jobs", job.survey_jobs, []),
        ("efa", lambda: efa.observe_efa(efa.read_environment_files()), None),
        ("hooks", lambda: hooks.survey_hooks(interface), []),
        ("queues", lambda: queues.survey_queues(interface), []),
        ("job_unit", job_unit.survey_job_unit, None),
        ("tunnel", tunnel.survey_tunnel, None),
        ("next_boot", lambda: next_boot.survey_next_boot(own, peers), None),
    ]
    if os.geteuid() == 0 and ":" not in own:
        # waits 0.3 s for answers, so it starts first
        todo.insert(0, ("duplicates", lambda: net.find_duplicate_addresses(interface, own), []))
    collector.begin(todo, names.NAME_SECONDS)
    return collector


def end_survey(collector: SurveyCollector, want: LadderNodeParams) -> Seen:
    """Collect the rest, wait for the started observations, and return everything.

    Args:
        collector: the collector of `begin_survey`.
        want: as above.
    """
    collector.ask("sysctls", net.survey_sysctls, {})
    collector.ask("changed_sysctls", lambda: net.survey_changed_sysctls(MANIFEST), {})
    collector.ask("identity", identity.survey_identity, None)
    collector.ask("limits", job.survey_limits, {})
    collector.ask("clock", job.survey_clock, None)
    collector.ask("rdma", job.survey_rdma, [])
    collector.ask("legacy_tables", filters.survey_legacy_tables, [])
    collector.end()
    span = choose_port_range(want)
    collector.found.update(
        root=os.geteuid() == 0,
        range=[span.first, span.last],
        shm=job.measure_disk_space("/dev/shm"),  # noqa: S108 (only its size is read)
        disk=job.measure_disk_space("/"),
        manifest=os.path.exists(MANIFEST),
        unknown=collector.unknown,
        seconds=round(time.monotonic() - collector.begun, 3),
    )
    return cast("Seen", collector.found)
