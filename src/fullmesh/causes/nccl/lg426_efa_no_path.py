"""EFA: a job hangs after 'Could not find a path for pattern' because of the security group

NCCL uses EFA and found no path for pattern {pattern}. That alone only costs speed, but NCCL never
logged that its rings are connected. If the job then hangs or times out, the security group most
likely blocks EFA.

**Place:** the security group of the instances, not a host

**Prove:** run ./fullmesh diagnose -i INVENTORY, or aws ec2 describe-security-groups (it needs an
ingress and an egress rule with protocol -1 and its own group id, and 0.0.0.0/0 is not enough)

**Fix:** Allow all traffic from and to the group itself, by group id: ansible-playbook
playbooks/ec2.yml with ec2_security_group_mode: efa (docs/ec2.md).

**Source:** read: nccl search.cc:1293, aws/aws-ofi-nccl#64, #663, AWS's EFA guide (security group)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern, RecordedLog
from fullmesh.causes.nccl.patterns import EFA, OFI, RINGS

# "Selected Provider is efa", in newer versions of aws-ofi-nccl "Selected provider is efa, fabric is ..."
PROVIDER = Fact("provider", Pattern("rovider is efa", r"NET/OFI .{0,40}\b[Pp]rovider is efa\b"))
NO_PATH = Fact(
    "no path",
    Pattern(
        "Could not find a path for pattern",
        r"Could not find a path for pattern (?P<pattern>\d{1,3})",
    ),
)


def find_missing_efa_path(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Skip jobs with connected rings: these exchanged packets over EFA, so the security group is correct."""
    known = evidence.facts
    uses = known.of("provider") or (known.of("ofi") and known.of("efa"))
    lost = known.of("no path")
    if uses and lost and not known.of("rings"):
        lines = [line for _, line in (*lost, *uses)]
        yield CAUSE.make_finding({"pattern": lost[0][0][0]}, lines)


CAUSE = LogCause(
    "LG-426",
    __doc__,
    find=find_missing_efa_path,
    facts=(*EFA, OFI, PROVIDER, NO_PATH, RINGS),
    follows_any=True,
    replaces=("LG-902",),
    weight=42,
    recorded=(
        RecordedLog(
            "seed 5: pattern 4 beside EFA",
            (
                "ip-10-0-1-11:2374:2645 [0] NCCL INFO NET/OFI Selected Provider is efa\n"
                "ip-10-0-1-11:2374:2645 [0] graph/search.cc:1127 NCCL WARN Could not find a "
                "path for pattern 4, falling back to simple order"
            ),
        ),
        RecordedLog(
            "pattern 4 beside EFA, later wording, and the watchdog",
            (
                "[1,0]<stdout>:ip-10-0-1-11:2374:2645 [0] NCCL INFO NET/OFI Selected provider "
                "is efa, fabric is efa (found 4 nics)\n"
                "[1,0]<stdout>:ip-10-0-1-11:2374:2645 [0] NCCL INFO Could not find a path for "
                "pattern 4, falling back to simple order\n"
                "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog "
                "caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, "
                "NumelIn=5056, NumelOut=5056, Timeout(ms)=600000) ran for 600026 milliseconds "
                "before timing out."
            ),
            folded=("LG-415",),
        ),
    ),
)
