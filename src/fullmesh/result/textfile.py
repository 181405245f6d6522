"""Render a verification's result for Prometheus: one ``fullmesh.prom`` per node for node_exporter's textfile collector.

It uses Prometheus' text format (its documentation, "Exposition formats"), without timestamps, because node_exporter
rejects a file that has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, get_args

import msgspec

from fullmesh.observed.ranks import NcclSizeResult
from fullmesh.result.types import Result, Severity, Status

PREFIX: Final = "fullmesh_"
STATUSES: tuple[Status, ...] = get_args(Status)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
OPEN: Final = "open"
BITS, GIGA, MICRO, MILLI = 8, 1e9, 1e-6, 1e-3
# Characters to escape in a help text, and in a label's value, which must not have quotes either.
IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
IN_LABEL = IN_HELP | str.maketrans({'"': r"\""})

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True)
class Metric:
    """A gauge: its name without the prefix, its help text, and its samples."""

    name: str
    says: str
    samples: Sequence[Sample]

    def lines(self) -> Iterator[str]:
        """Yield its lines, or none if nothing was measured."""
        if not self.samples:
            return
        name = PREFIX + self.name
        yield f"# HELP {name} {self.says.translate(IN_HELP)}"
        yield f"# TYPE {name} gauge"
        for labels, value in self.samples:
            yield f"{name}{format_labels(labels)} {format_metric_value(value)}"


def format_labels(labels: dict[str, str]) -> str:
    """Format the labels of a sample. Text that is not UTF-8 would make the whole file unreadable."""
    if not labels:
        return ""
    shown = {key: held.encode("utf-8", "replace").decode() for key, held in labels.items()}
    pairs = (f'{key}="{held.translate(IN_LABEL)}"' for key, held in shown.items())
    return "{" + ",".join(pairs) + "}"


def format_metric_value(value: float) -> str:
    """Format a value for Go: whole numbers without a point, times with all their digits."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def make_single_sample(value: float) -> list[Sample]:
    """Return the only sample of a metric."""
    return [({}, value)]


def list_run_metrics(result: Result) -> Iterator[Metric]:
    """Yield the metrics that are the same on every node."""
    finished = datetime.fromisoformat(result["finished"]).timestamp()
    yield Metric(
        "build_info",
        "Version of Fullmesh that ran the verification. The value is always 1.",
        [({"version": result["fullmesh"]}, 1)],
    )
    yield Metric(
        "verification_timestamp_seconds",
        "When the last verification ended, in seconds since 1970.",
        make_single_sample(finished),
    )
    yield Metric(
        "verification_duration_seconds",
        "How long it took.",
        make_single_sample(float(result["seconds"])),
    )
    yield Metric(
        "verification_ok",
        "The verdict on the cluster: 1 if no check failed.",
        make_single_sample(result["verdict"] == "ok"),
    )
    yield Metric(
        "verification_rung_status",
        "The status of each check: 1 for the status that it has.",
        [
            ({"rung": check["id"], "status": status}, check["status"] == status)
            for check in result["rungs"]
            for status in STATUSES
        ],
    )
    yield Metric(
        "cluster_world_size",
        "Ranks of a job over all nodes.",
        make_single_sample(result["plan"]["world_size"]),
    )


def list_node_metrics(result: Result, node: str) -> Iterator[Metric]:
    """Yield the metrics of one node and its links."""
    found = {
        severity: sum(
            row["node"] == node and row["severity"] == severity for row in result["findings"]
        )
        for severity in SEVERITIES
    }
    yield Metric(
        "verification_node_ok",
        "The verdict on this node: 1 if it has no error to fix.",
        make_single_sample(not found["error"]),
    )
    yield Metric(
        "verification_findings",
        "Findings on this node by severity, without findings that follow from others.",
        [({"severity": severity}, count) for severity, count in found.items()],
    )
    rows = [
        (row, {"peer": row["to"], "direction": "out"})
        if row["from"] == node
        else (row, {"peer": row["from"], "direction": "in"})
        for row in result["links"]
        if node in (row["from"], row["to"])
    ]
    yield Metric(
        "verification_link_ok",
        "A link of this node with a peer: 1 if it works. out means that this node connects.",
        [(labels, row["verdict"] == OPEN) for row, labels in rows],
    )
    yield Metric(
        "verification_link_rtt_seconds",
        "The kernel's round-trip time of that link, the smallest one seen.",
        [
            (labels, seconds)
            for row, labels in rows
            if (seconds := scale_value(row["rtt_ms"], MILLI)) is not None
        ],
    )


def list_rate_metrics(result: Result) -> Iterator[Metric]:
    """Yield the measured rates and latencies of the cluster."""
    rates = result["collectives"]
    sizes = sorted(read_nccl_sizes(result), key=lambda row: row["bytes"])
    largest = sizes[-1]["bus_gbit_s"] if sizes else None
    smallest = sizes[0]["us"] if sizes else None
    yield Metric(
        "verification_allreduce_bus_bytes_per_second",
        "Bus bandwidth of a large all_reduce, as nccl-tests defines it, of the slowest rank.",
        make_backend_samples(
            scale_value(rates.get("bus_gbit_s"), GIGA / BITS),
            scale_value(largest, GIGA / BITS),
        ),
    )
    yield Metric(
        "verification_allreduce_latency_seconds",
        "Time of a small all_reduce, of the slowest rank.",
        make_backend_samples(
            scale_value(rates.get("latency_us"), MICRO), scale_value(smallest, MICRO)
        ),
    )


def read_nccl_sizes(result: Result) -> list[NcclSizeResult]:
    """Read the rows of check L7, one for each message size."""
    held = [check["details"].get("sizes", []) for check in result["rungs"] if check["id"] == "L7"]
    return [row for rows in held for row in msgspec.convert(rows, list[NcclSizeResult])]


def scale_value(value: float | None, factor: float) -> float | None:
    """Convert a value to its base unit and round off binary noise. None stays None."""
    return None if value is None else float(f"{value * factor:.6g}")


def make_backend_samples(gloo: float | None, nccl: float | None) -> list[Sample]:
    """Return samples for the backends that were measured."""
    return [
        ({"backend": name}, value)
        for name, value in (("gloo", gloo), ("nccl", nccl))
        if value is not None
    ]


def render_textfile(result: Result, node: str) -> str:
    """Render a node's whole file."""
    metrics = [
        *list_run_metrics(result),
        *list_node_metrics(result, node),
        *list_rate_metrics(result),
    ]
    return "".join(line + "\n" for metric in metrics for line in metric.lines())
