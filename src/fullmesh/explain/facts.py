"""What logs tell besides errors, and the causes that show only when several lines or logs are put together."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from fullmesh.explain.model import Evidence, Fact, Pattern

NCCL_LINE = r"(?P<host>[^\s:\[\]]{1,120}):\d+:\d+ \[\d+\] NCCL INFO "
FACTS = (
    Fact("rank", Pattern("[rank", r"\[rank(?P<rank>\d{1,7})\]:")),
    Fact(
        "member",
        Pattern(
            " nranks ", NCCL_LINE + r".{0,120}?\brank (?P<rank>\d{1,7}) nranks (?P<size>\d{1,7})"
        ),
    ),
    Fact(
        "member",
        Pattern(
            " nRanks ", NCCL_LINE + r".{0,120}?\brank (?P<rank>\d{1,7}) nRanks (?P<size>\d{1,7})"
        ),
    ),
    Fact(
        "address",
        Pattern(
            "Bootstrap : Using ",
            NCCL_LINE
            + r"Bootstrap : Using (?:\[0\])?(?P<interface>[^\s:]{1,32}):(?P<address>[^\s<]{1,60})<",
        ),
    ),
    Fact(
        "version",
        Pattern(
            "NCCL version ", r"NCCL version (?P<version>\d+\.\d+\.\d+)(?:\+cuda[\d.]+)?(?=\s|$)"
        ),
    ),
    Fact("alone", Pattern("GLOBAL_RANK: 0, MEMBER: 1/1", "GLOBAL_RANK: 0, MEMBER: 1/1(?!\\d)")),
    Fact(
        "efa",
        Pattern(
            "FI_PROVIDER",
            r"FI_PROVIDER\W{0,3}(?: ?set (?:by environment )?to )?\W?(?P<detail>efa)\b",
        ),
    ),
    Fact("efa", Pattern("FI_EFA_", r"(?P<detail>FI_EFA_\w{1,40})")),
    Fact(
        "efa",
        Pattern("AWS Libfabric", r"(?P<detail>NCCL_NET\w* set by environment to AWS Libfabric)"),
    ),
    Fact("ofi", Pattern("NET/OFI Initializing aws-ofi-nccl")),
    # "Selected Provider is efa", in newer versions of aws-ofi-nccl "Selected provider is efa, fabric is ..."
    Fact("provider", Pattern("rovider is efa", r"NET/OFI .{0,40}\b[Pp]rovider is efa\b")),
    Fact(
        "no path",
        Pattern(
            "Could not find a path for pattern",
            r"Could not find a path for pattern (?P<pattern>\d{1,3})",
        ),
    ),
    Fact("rings", Pattern("Connected all rings")),
    Fact(
        "late",
        Pattern(
            "caught collective operation timeout",
            (
                r"\[Rank (?P<rank>\d{1,7})\].{0,40}caught collective operation timeout:"
                r" WorkNCCL\(SeqNum=(?P<number>\d{1,15}), OpType=(?P<operation>\w{1,40})"
            ),
        ),
    ),
    Fact(
        "global rank",
        Pattern(
            "GLOBAL_RANK: ",
            r"(?i:initializing (?:ddp|distributed)): GLOBAL_RANK: (?P<rank>\d{1,7}), MEMBER: \d{1,7}/(?P<size>\d{1,7})",
        ),
    ),
    Fact("mesh port", Pattern("envoy", r"\benvoy\b.{0,200}\b(?:in|out)bound\|(?P<port>\d{1,5})\|")),
    Fact(
        "store port",
        Pattern(
            "client socket has connected to", r"has connected to \S{1,200}:(?P<port>\d{1,5}) on "
        ),
    ),
    Fact("no hostfile", Pattern("Unable to find hostfile, will proceed")),
    # how many nodes a launcher was told
    Fact(
        "nodes",
        Pattern("nnodes", r"(?:--|\b)nnodes\W{1,4}(?P<nodes>[2-9]\d{0,4}|1\d{1,4})\b"),
    ),
)
MOST = 1024  # different values of a fact


@dataclass
class LogFacts:
    """The facts of all logs: values -> the line that showed them first, per file."""

    seen: dict[str, dict[tuple[str, ...], Evidence]] = field(default_factory=dict)

    def add(self, name: str, found: re.Match[str], evidence: Evidence) -> None:
        """Keep a fact once per file."""
        values = self.seen.setdefault(name, {})
        key = (evidence.file, *(group or "" for group in found.groups()))
        if key not in values and len(values) < MOST:
            values[key] = evidence

    def of(self, name: str) -> list[tuple[tuple[str, ...], Evidence]]:
        """All values of a fact, without the file, with their lines."""
        return [(key[1:], evidence) for key, evidence in self.seen.get(name, {}).items()]

    def host_of(self, rank: str) -> str:
        """The node of a rank, when NCCL told it."""
        return next((values[0] for values, _ in self.of("member") if values[1] == rank), "")

    def ranks(self) -> set[str]:
        """The ranks of which a log is there."""
        return {values[0] for values, _ in self.of("rank")}


@dataclass(frozen=True)
class DerivedCause:
    """A cause that was drawn from facts."""

    code: str
    fields: dict[str, str]
    evidence: list[Evidence]


def _name_ip_family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def _find_different_addresses(known: LogFacts) -> Iterator[DerivedCause]:
    by_host = {values[0]: (values[1], values[2], line) for values, line in known.of("address")}
    kinds = {
        (
            _name_ip_family(address),
            address.partition(".")[0] if ":" not in address else "",
            interface.rstrip("0123456789"),
        )
        for interface, address, _ in by_host.values()
    }
    families = {kind[0] for kind in kinds}
    if len(families) > 1 or (len({k[1] for k in kinds}) > 1 and len({k[2] for k in kinds}) > 1):
        text = ", ".join(
            f"{host} {address} ({name})" for host, (name, address, _) in list(by_host.items())[:4]
        )
        yield DerivedCause("LG-424", {"addresses": text}, [line for _, _, line in by_host.values()])


def _find_different_versions(known: LogFacts) -> Iterator[DerivedCause]:
    by_file: dict[str, set[str]] = {}
    for values, line in known.of("version"):
        by_file.setdefault(line.file, set()).add(values[0])
    versions = sorted({version for found in by_file.values() for version in found})
    if len(versions) > 1 and all(len(found) == 1 for found in by_file.values()):
        yield DerivedCause(
            "LG-423", {"versions": ", ".join(versions)}, [line for _, line in known.of("version")]
        )


def _find_standalone_runs(known: LogFacts) -> Iterator[DerivedCause]:
    lines = [line for _, line in known.of("alone")]
    if len({line.file for line in lines}) > 1:
        yield DerivedCause("LG-315", {"count": str(len(lines))}, lines)


def _find_same_ranks(known: LogFacts) -> Iterator[DerivedCause]:
    """Logs of two nodes with the same ranks, while others are in no log and no rank has met another one."""
    if known.of("member") or known.of("rings"):
        return
    by_file: dict[str, dict[str, Evidence]] = {}
    sizes: dict[str, str] = {}
    for (rank, size), line in known.of("global rank"):
        by_file.setdefault(line.file, {})[rank] = line
        sizes[line.file] = size
    groups: dict[tuple[str, ...], list[str]] = {}
    for file, ranks in by_file.items():
        groups.setdefault((sizes[file], *sorted(ranks, key=int)), []).append(file)
    everyone = {rank for ranks in by_file.values() for rank in ranks}
    for (size, *shared), files in groups.items():
        if len(files) > 1 and 1 < int(size) > len(everyone):
            lines = [by_file[file][shared[0]] for file in files]
            fields = {
                "files": f"{len(files)} logs",
                "ranks": _join_first_items(shared),
                "size": size,
            }
            yield DerivedCause("LG-326", fields, lines)


def _find_service_mesh(known: LogFacts) -> Iterator[DerivedCause]:
    """The proxy's log names the port at which the ranks meet."""
    stores = {values[0]: line for values, line in known.of("store port")}
    for values, line in known.of("mesh port"):
        if values[0] in stores:
            yield DerivedCause("LG-327", {"port": values[0]}, [line, stores[values[0]]])
            return


def _find_missing_hostfile(known: LogFacts) -> Iterator[DerivedCause]:
    """A run on one node needs no hostfile; several logs or hosts, or a number of nodes, show a second one."""
    lines = [line for _, line in known.of("no hostfile")]
    files = sorted({line.file for line in lines})
    hosts = sorted({values[0] for name in ("member", "address") for values, _ in known.of(name)})
    told = [values[0] for values, _ in known.of("nodes")]
    second = ""
    if len(files) > 1:
        second = f"{len(files)} logs have this line"
    elif len(hosts) > 1:
        second = f"hosts {_join_first_items(hosts)}"
    elif told:
        second = f"nnodes is {told[0]}"
    if lines and second:
        yield DerivedCause("LG-685", {"nodes": second}, lines)


def _find_unused_efa(known: LogFacts, codes: Collection[str]) -> Iterator[DerivedCause]:
    wanted = known.of("efa")
    if wanted and "LG-901" in codes and not known.of("ofi"):
        yield DerivedCause("LG-420", {"detail": wanted[0][0][0]}, [line for _, line in wanted])


def _find_missing_efa_path(known: LogFacts) -> Iterator[DerivedCause]:
    """Rings that are connected have carried packets over EFA, so its security group is right."""
    uses = known.of("provider") or (known.of("ofi") and known.of("efa"))
    lost = known.of("no path")
    if uses and lost and not known.of("rings"):
        lines = [line for _, line in (*lost, *uses)]
        yield DerivedCause("LG-426", {"pattern": lost[0][0][0]}, lines)


def _find_different_collectives(known: LogFacts) -> Iterator[DerivedCause]:
    by_number: dict[str, dict[str, list[tuple[str, Evidence]]]] = {}
    for (rank, number, operation), line in known.of("late"):
        by_number.setdefault(number, {}).setdefault(operation, []).append((rank, line))
    for number, by_operation in by_number.items():
        ranks = {rank for group in by_operation.values() for rank, _ in group}
        if len(by_operation) > 1 and len(ranks) > 1:
            rare = min(by_operation, key=lambda name: len(by_operation[name]))
            text = ", ".join(
                f"{name} on rank {_join_first_items([rank for rank, _ in group])}"
                for name, group in by_operation.items()
            )
            lines = [group[0][1] for group in by_operation.values()]
            fields = {
                "number": number,
                "operations": text,
                "ranks": _join_first_items([r for r, _ in by_operation[rare]]),
            }
            yield DerivedCause("LG-416", fields, lines)
            return


def _join_first_items(items: list[str]) -> str:
    items = sorted(set(items), key=lambda item: (len(item), item))
    return ", ".join(items[:6]) + (" ..." if len(items) > 6 else "")  # noqa: PLR2004 (what fits a sentence)


def find_derived_causes(known: LogFacts, codes: Collection[str]) -> list[DerivedCause]:
    """Every cause that the facts give."""
    return [
        *_find_different_addresses(known),
        *_find_different_versions(known),
        *_find_standalone_runs(known),
        *_find_missing_hostfile(known),
        *_find_same_ranks(known),
        *_find_service_mesh(known),
        *_find_unused_efa(known, codes),
        *_find_missing_efa_path(known),
        *_find_different_collectives(known),
    ]


def describe_late_ranks(known: LogFacts) -> str:
    """Which ranks the watchdog's lines leave over, in a sentence."""
    first: dict[str, int] = {}
    for (rank, number, _), _line in known.of("late"):
        first[rank] = min(int(number), first.get(rank, int(number)))
    if not first:
        return ""
    low, high = min(first.values()), max(first.values())
    if low < high:
        slow = _join_first_items([rank for rank, number in first.items() if number == low])
        return (
            f"Rank {slow} is at number {low}, others at {high}: if they are of one process group,"
            f" rank {slow} is behind."
        )
    sizes = [int(values[2]) for values, _ in known.of("member")]
    everyone = {str(rank) for rank in range(min(max(sizes, default=0), MOST))}
    if silent := sorted(everyone - first.keys(), key=int):
        return f"Rank {_join_first_items(silent)} logged no timeout: look there first."
    return ""
