"""torch cannot be imported

The Python interpreter that jobs use cannot import torch, so no rank can start. A file of torch or of a package that it
imports is missing, empty, cut or damaged, or `pyvenv.cfg` is missing, without which Python does not find torch. Damaged
packages that torch runs without give a warning.

**Prove:** VENV/bin/python -c 'import torch'

**Fix:** ansible-playbook site.yml -i INVENTORY --tags packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.job_start import SHOWN, list_failed_steps
from fullmesh.verify.model import ClusterObservations

# Files without which torch cannot be imported, or a model wrapped with DDP (seen). It runs without its other packages.
NEEDED = re.compile(r"/(?:torch|sympy|mpmath)(?:/|$)|/(?:typing_extensions\.py|pyvenv\.cfg)$")


def rule_imported_torch(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that Python of jobs finds the files of its torch."""
    for name, _, steps in list_failed_steps(seen, "import"):
        needed = [one for one in steps if NEEDED.search(one["subject"])]
        first = (needed or steps)[0]
        place = first["source"]
        names = join_names([one["subject"] for one in steps], SHOWN)
        yield Finding(
            "VC-302",
            "L1",
            f"torch cannot be imported on {name}: {first['subject']}: {first['error']}"
            if needed
            else f"torch on {name} has packages that are missing or damaged: {names}",
            node=name,
            seen=join_names([f"{one['subject']}: {one['error']}" for one in steps], SHOWN),
            expected="all files of torch",
            fix=f"on {name}: remove PYTHONPATH from {place}" if place else seen.apply("packages"),
            severity=ERROR if needed else WARNING,
        )


CAUSE = Cause(
    "VC-302",
    __doc__,
    find=rule_imported_torch,
    explains=(Explains(("VC-311",), has_same_node),),
    cases=(CauseCase("job-torch-file", "torch/version.py is missing"),),
)
