"""The account of jobs cannot resolve a name that root resolves

The files of name resolution are closed to accounts other than root, or a name service allows some accounts only.

**Prove:** su -s /bin/sh ACCOUNT -c 'getent hosts NAME'

**Fix:** chmod o+r /etc/hosts /etc/resolv.conf /etc/nsswitch.conf

**Source:** nsswitch.conf(5)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.job_start import describe_account, is_for_all_jobs, list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_own_names(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account resolves the names that root resolves."""
    for name, start, steps in list_failed_steps(seen, "resolve"):
        answers = seen.facts(name).get("names", {}).get("plan", {})
        held = [one for one in steps if answers.get(one["subject"])]
        if held:
            names = join_names([one["subject"] for one in held])
            yield Finding(
                "VC-317",
                "L1",
                f"{describe_account(start)} cannot resolve {names} on {name}, and root can",
                node=name,
                seen=held[0]["error"],
                expected=join_names(answers[held[0]["subject"]] or []),
                fix=f"on {name}: chmod o+r /etc/hosts /etc/resolv.conf /etc/nsswitch.conf",
                severity=ERROR if is_for_all_jobs(seen, name, start) else WARNING,
            )


CAUSE = Cause(
    "VC-317",
    __doc__,
    find=rule_own_names,
    weight=280,
)
