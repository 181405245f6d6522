"""The dynamic loader lacks a library of a job

A library that LD_PRELOAD or `/etc/ld.so.preload` names cannot be loaded: each process prints an error and runs without
it (warning). A library that torch needs is missing or is too old: torch cannot be imported.

**Prove:** su -l ACCOUNT -c 'ldd VENV/lib/python3*/site-packages/torch/lib/libtorch_python.so | grep "not found"'

**Fix:** Correct the file that the message names, or install the library.

**Source:** ld.so(8)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.job_start import SHOWN, list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_loader_errors(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the dynamic loader finds the libraries of a job."""
    for name, _, steps in list_failed_steps(seen, "load", "preload"):
        ignored = [one for one in steps if one["step"] == "preload"]
        missing = [one for one in steps if one["step"] == "load"]
        for held in filter(None, (ignored, missing)):
            places = [one["source"] for one in held if one["source"]]
            what = (
                "every process of a job prints an error of the loader"
                if held is ignored
                else "the loader lacks libraries of a job"
            )
            yield Finding(
                "VC-314",
                "L1",
                f"{what} on {name}: {held[0]['subject']}: {held[0]['error']}",
                node=name,
                seen="; ".join(f"{one['subject']}: {one['error']}" for one in held[:SHOWN]),
                expected="no error of the loader",
                fix=f"on {name}: correct {join_names(places)}, then log in again"
                if places
                else f"on {name}: install the library, or {seen.apply('packages')}",
                severity=WARNING if held is ignored else ERROR,
            )


CAUSE = Cause(
    "VC-314",
    __doc__,
    find=rule_loader_errors,
    weight=280,
    explains=(Explains(("VC-302", "VC-311"), has_same_node),),
    cases=(
        CauseCase(
            "job-preload", "LD_PRELOAD=/opt/nosuch/libhook.so in /etc/environment", severity=WARNING
        ),
    ),
)
