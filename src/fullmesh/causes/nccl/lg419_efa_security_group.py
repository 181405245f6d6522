"""EFA: the security group has no rule that allows its own traffic

EFA got no reply from its peer (4126 Unresponsive receiver). The security group must allow all
traffic to and from itself.

**Place:** the security group of the instances, not a host

**Prove:** aws ec2 describe-security-groups (it needs an ingress and an egress rule with protocol -1
and its own group id, and 0.0.0.0/0 is not enough)

**Fix:** Add both rules, with the group's own id as the source and the destination.

**Source:** aws/aws-ofi-nccl#663, gardener/gardener-extension-provider-aws#1832, read: libfabric's
efa_errno.h
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-419",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] NCCL WARN NET/OFI Request completed with error. RC: 4. Error: 4126 "
            "(Unresponsive receiver)"
        ),
    ),
    patterns=(
        # EFA uses the same words for a peer that answered before and ended
        Pattern("nresponsive receiver", r"nresponsive receiver(?! \((?:connection|was) )"),
        Pattern("Unreachable remote", r"(?i:efa|NET/OFI).{0,200}Unreachable remote"),
        Pattern(
            "address into address vector",
            r"NET/OFI .{0,40}insert remote address into address vector",
        ),
        Pattern("4126", r"NET/OFI.{0,200}\b4126\b"),
    ),
    weight=90,
    recorded=(
        RecordedLog(
            "pattern 4 beside EFA, and what EFA itself says",
            (
                "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa (found 1 nics)\n"
                "n:1:2 [0] NCCL WARN Could not find a path for pattern 4, falling back to "
                "simple order\n"
                "n:1:2 [0] NCCL WARN NET/OFI Request completed with error. RC: 4. Error: 4126 "
                "(Unresponsive receiver)"
            ),
            folded=("LG-426",),
        ),
        RecordedLog(
            "efa security group",
            (
                "n:1:2 [0] NCCL WARN NET/OFI Request completed with error. RC: 4. Error: 4126 "
                "(Unresponsive receiver)"
            ),
        ),
    ),
)
