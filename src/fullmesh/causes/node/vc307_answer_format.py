"""The answer of a module has a format that this version does not read

Modules and rules of one Fullmesh version agree on every field. Ansible ran a module of another
version.

**Prove:** ansible-config dump | grep -E 'MODULE_(PATH|UTILS_PATH)'

**Fix:** Remove the other version from the path, or run from a clean checkout.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.model import ClusterObservations


def rule_answer_format(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that answers match their types. Rules do not see fields that do not match."""
    for name, faults in seen.odd.items():
        yield Finding(
            "VC-307",
            "L0",
            f"the answer of {name} does not match this version's types, so a rule may have missed something",
            node=name,
            seen=join_names(faults, 2),
            expected="the types in module_utils/fullmesh/schema",
            check="ansible-config dump | grep -E 'MODULE_(PATH|UTILS_PATH)'",
            fix="remove the modules of another version from that path. If there are none, report it with result.json",
            severity=WARNING,
        )


CAUSE = Cause("VC-307", __doc__, find=rule_answer_format)
