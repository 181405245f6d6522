"""A login of the account that runs jobs gets limits that are too low

Jobs that ssh starts (pdsh, mpirun, torchrun by hand) get the limits that PAM sets at login, from
/etc/security/limits.conf and limits.d. The probe usually runs as root, with other limits. As root,
it opens a session of the account with su, from sshd's limits and without a profile, and reads
/proc/self/limits there. Fullmesh reports the limit of open files or locked memory only if the
probe's own is high enough.

**Prove:** su -s /bin/sh ACCOUNT -c 'ulimit -a'

**Fix:** Add 'ACCOUNT - nofile 1048576' and 'ACCOUNT - memlock unlimited' to a file in
/etc/security/limits.d, then log in again.

**Source:** pam_limits(8), limits.conf(5), getrlimit(2)
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.job_account import get_job_probe
from fullmesh.causes.relations import has_same_node
from fullmesh.observed.ladder import LoginLimits
from fullmesh.observed.survey import LOCKED_LEAST
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.node import count_needed_files

# Threads of a rank: ten over Gloo with OMP_NUM_THREADS=1 (measured), and DataLoader's workers and NCCL's proxies come
# on top.
THREADS_PER_RANK = 64


AMPLE = {"nofile": "1048576", "memlock": "unlimited", "nproc": "unlimited"}


def list_low_limits(
    evidence: ClusterEvidence, name: str, login: LoginLimits
) -> Iterator[tuple[str, str, str]]:
    """Yield a login's limits that are too low for jobs: a description, the value seen, the value expected."""
    own = evidence.survey(name).get("limits", {})
    files = count_needed_files(int(evidence.plan["world_size"]))
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
    """Return a limit as a comparable number, infinity for none."""
    return math.inf if limit is None or limit < 0 else limit


def rule_login_limits(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find logins of the account of jobs whose limits are too low."""
    for name in evidence.nodes:
        said = get_job_probe(evidence, name)
        if not said or "login" not in said:
            continue
        held = list(list_low_limits(evidence, name, said["login"]))
        if not held:
            continue
        account = said["account"]
        # more than this plan needs: the line also applies to all other work of the account
        kinds = [expected.split()[0] for _, _, expected in held]
        lines = " ".join(f"'{account} - {kind} {AMPLE[kind]}'" for kind in kinds)
        yield Finding(
            "DG-185",
            "L1",
            f"a login of {account}, the account of jobs on {name}, {join_names([what for what, _, _ in held])}:"
            " not enough for jobs that ssh starts",
            node=name,
            seen=", ".join(seen for _, seen, _ in held),
            expected=f"at least {', '.join(expected for _, _, expected in held)}",
            fix=f"on {name}: {lines} in a file in /etc/security/limits.d, then log in again",
            # a unit of jobs has limits of its own, so no login may be needed
            severity=WARNING if evidence.survey(name).get("job_unit") else ERROR,
        )


CAUSE = Cause(
    "DG-185",
    __doc__,
    find=rule_login_limits,
    weight=260,
    explains=(Explains(("VC-323",), has_same_node),),
    cases=(CauseCase("login-limits", "jobber - nproc 20 in /etc/security/limits.d"),),
)
