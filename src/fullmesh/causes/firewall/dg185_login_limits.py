"""a login of the account that runs jobs is held to too little

Jobs that are started by ssh (pdsh, mpirun, torchrun by hand) get what the node's PAM gives the account that logs in:
/etc/security/limits.conf, limits.d. The probe's own limits are others, as root's mostly are. As root the probe opens
one session of the account with su, without a profile, from the limits of sshd, and reads /proc/self/limits there; it
is said only where the probe itself is allowed enough.

**Prove:** su -s /bin/sh ACCOUNT -c 'ulimit -Sn; ulimit -l; ulimit -u'

**Fix:** A file in /etc/security/limits.d: 'ACCOUNT - nofile 1048576', 'ACCOUNT - memlock unlimited'; log in anew.

**Source:** pam_limits(8), limits.conf(5), getrlimit(2)
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.job_account import get_job_probe
from fullmesh.causes.limits.limit_values import LOCKED_LEAST
from fullmesh.observed.ladder import LoginLimits
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.node import FILES_PER_RANK

# Threads of a rank: ten over Gloo with OMP_NUM_THREADS=1 (measured), and DataLoader's workers and NCCL's proxies come
# on top.
THREADS_PER_RANK = 64


AMPLE = {"nofile": "1048576", "memlock": "unlimited", "nproc": "unlimited"}


def list_low_limits(
    evidence: ClusterEvidence, name: str, login: LoginLimits
) -> Iterator[tuple[str, str, str]]:
    """What a login is held to that jobs need more of, and the probe has enough of: in words, seen, expected."""
    own = evidence.survey(name).get("limits", {})
    files = FILES_PER_RANK * int(evidence.plan["world_size"])
    if 0 <= login["nofile"] < files <= limit_to_number(own.get("nofile")):
        yield f"may open {login['nofile']} files", f"nofile {login['nofile']}", f"nofile {files}"
    active = any(port["state"] == "ACTIVE" for port in evidence.survey(name).get("rdma", []))
    if active and 0 <= login["memlock"] < LOCKED_LEAST <= limit_to_number(own.get("memlock")):
        seen = f"memlock {login['memlock'] // 1024} KiB"
        yield f"may lock {login['memlock'] // 1024} KiB of memory (RDMA)", seen, "memlock unlimited"
    threads = THREADS_PER_RANK * int(evidence.plan["nodes"][name]["local_ranks"])
    if 0 <= login["processes"] < threads:
        yield (
            f"may have {login['processes']} processes and threads",
            f"nproc {login['processes']}",
            f"nproc {threads}",
        )


def limit_to_number(limit: int | None) -> float:
    """A limit as a number that others are compared with: none is endless."""
    return math.inf if limit is None or limit < 0 else limit


def rule_login_limits(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Jobs that are started by a login of their account get too little."""
    for name in evidence.nodes:
        said = get_job_probe(evidence, name)
        if not said or "login" not in said:
            continue
        held = list(list_low_limits(evidence, name, said["login"]))
        if not held:
            continue
        account = said["account"]
        # more than this plan needs: the line holds for whatever else the account does
        kinds = [expected.split()[0] for _, _, expected in held]
        lines = " ".join(f"'{account} - {kind} {AMPLE[kind]}'" for kind in kinds)
        yield Finding(
            "DG-185",
            "L1",
            f"a login of {account}, who runs the jobs on {name}, {join_names([what for what, _, _ in held])}: what is"
            " started by ssh gets too little",
            node=name,
            seen=", ".join(seen for _, seen, _ in held),
            expected=f"at least {', '.join(expected for _, _, expected in held)}",
            fix=f"on {name}: {lines} in a file in /etc/security/limits.d, then log in anew",
            # a unit of jobs has limits of its own, and nobody need ever log in
            severity=WARNING if evidence.survey(name).get("job_unit") else ERROR,
        )


CAUSE = Cause(
    "DG-185",
    __doc__,
    find=rule_login_limits,
    weight=260,
    cases=(CauseCase("login-limits", "jobber - nproc 20 in /etc/security/limits.d"),),
)
