"""A port is in use

A process could not bind its port{detail}, because another process of the node uses it: an earlier
job that did not end, a second job with the same settings, or an outgoing connection to which the
kernel assigned this port.

**Place:** the node of this log

**Prove:** on that node, `ss -tlnp` and `ss -tanp` name the process. To compare the ranges: sysctl
net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports

**Fix:** End the old process, or give each job of a node its own ports. Fixed ports must be outside
the kernel's range or in ip_local_reserved_ports: ./fullmesh apply -i INVENTORY -- --tags tuning.

**Source:** uccl-project/uccl#507, read: errno EADDRINUSE of bind(2)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import (
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    Pattern,
    RecordedLog,
)
from fullmesh.causes.nccl.patterns import RINGS

TAKEN = tuple(
    Fact("port taken", pattern)
    for pattern in (
        Pattern(
            "ddress already in use",
            r"(?<!Call to )[Bb]ind(?:ing)?(?:\(\))? (?:failed|error)[:,]{1,2} ?[Aa]ddress already in use(?P<detail>)",
        ),
        Pattern("[Errno 98]", r"\[Errno 98\] [Aa]ddress already in use(?P<detail>)"),
        Pattern(
            "while attempting to bind on address",
            r"while attempting to bind on address(?P<detail> .{1,80}): (?:\[Errno 98\] )?address already",
        ),
        Pattern(
            ": bind: Address already in use",
            r"listening socket (?P<detail>\S{1,80}): bind: Address already in use",
        ),
        Pattern("bind: Address already in use", r"^\s*bind: Address already in use(?P<detail>)"),
        Pattern(
            "ddress already in use",
            (
                r"\A(?!.*(?:NCCL|socket\.cc|rv != -1|errno: 98|EADDRINUSE)).*(?:Error|Exception|FATAL|[Ff]atal)\b"
                r".{0,160}[Aa]ddress already in use(?P<detail>)"
            ),
        ),
        Pattern(
            "' already in use",
            r"(?:[Ss]ocket|[Pp]ort|address) '(?P<detail>[\w.:\[\]-]{1,80})' already in use",
        ),
        Pattern(
            "Cannot find empty port", r"rror: Cannot find empty port in range: (?P<detail>\d{1,5})"
        ),
        Pattern("[Errno 48]", r"\[Errno 48\] [Aa]ddress already in use(?P<detail>)"),
        Pattern("[WinError 10048]", r"\[WinError 10048\](?P<detail>)"),
        Pattern(
            "another process is utilizing it",
            r"communication on port `(?P<detail>\d{1,5})`, but another process is utilizing it",
        ),
        # a program that takes the next port instead says so
        Pattern(
            " in use",
            r"(?:\b[Pp]ort (?P<detail>\d{1,5}),? (?:is )?(?:already |currently )?in use)"
            r"(?!.{0,80}(?i:trying|using|instead|next|another port|will (?:use|try)|fall|increment|switch))",
        ),
        # Rust, Go and Docker
        Pattern(
            "ddress already in use (os error", r"[Aa]ddress already in use \(os error(?P<detail>)"
        ),
        Pattern(
            ": bind: address already in use",
            r"listen \w{3,4} (?P<detail>\S{1,80}): bind: address already in use",
        ),
        Pattern(
            "port is already allocated",
            r"Bind for (?P<detail>\S{1,80}) failed: port is already allocated",
        ),
        Pattern(
            "failed to bind host port ",
            r"failed to bind host port (?:for )?(?P<detail>\S{1,120}): address already in use",
        ),
        Pattern(
            "ZMQError: Address already in use",
            r"ZMQError: Address already in use(?P<detail>(?: \(addr=[^)]{1,80}\))?)",
        ),
        Pattern(
            "Failed to bind to address ",
            r"(?:rror|server): Failed to bind to address (?P<detail>[\w.\[\]:]{1,80})",
        ),
        Pattern(
            "No address added out of total",
            r"No address added out of total \d{1,3} resolved(?P<detail>(?: for '[^']{1,80}')?)",
        ),
        # torch's message in several lines: the line that states the error
        Pattern("name: EADDRINUSE", r"^\s{0,20}name: EADDRINUSE(?P<detail>)"),
        # HCCL and SGLang
        Pattern(
            "specific port[",
            r"listen on ip\[[^\]]{1,64}\] and specific port\[(?P<detail>\d{1,5})\] fail",
        ),
        Pattern(
            "port_base is used by a process already",
            r"port_base at (?P<detail>\d{1,5}) is not available",
        ),
    )
)
# a service that takes the next port instead, and a job that works
WENT_ON = Fact("service works", Pattern("Application startup complete"))


def find_taken_port(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find a port that could not be bound, unless the log shows that the job works anyway."""
    known = evidence.facts
    taken = known.of("port taken")
    if taken and not known.of("rings") and not known.of("service works"):
        detail = next((values[0] for values, _ in taken if values[0]), "")
        yield CAUSE.make_finding({"detail": detail}, [line for _, line in taken])


CAUSE = LogCause(
    "LG-519",
    __doc__,
    find=find_taken_port,
    facts=(*TAKEN, WENT_ON, RINGS),
    weight=76,
    recorded=(
        RecordedLog("a library's message", "bind failed: Address already in use"),
        RecordedLog("Python", "OSError: [Errno 98] Address already in use"),
        RecordedLog(
            "asyncio",
            (
                "ERROR:    [Errno 98] error while attempting to bind on address "
                "('0.0.0.0', 8000): address already in use"
            ),
        ),
        RecordedLog(
            "ZeroMQ",
            "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5570')",
        ),
        RecordedLog(
            "HCCL",
            (
                "[ERROR] HCCL(60570,):2025-12-04-14:46:07.911.312 [hccl_socket.cc:106] [60570]"
                "[HcclSocket][Listen] socket type[0], listen on ip[192.0.2.195] and specific "
                "port[16666] fail. Please check the port status and whether the port is being used "
                "by other process."
            ),
        ),
        RecordedLog(
            "SGLang",
            (
                "ValueError: port_base at 30234 is not available in 30 seconds. port_base is used "
                "by a process already."
            ),
        ),
    ),
)
