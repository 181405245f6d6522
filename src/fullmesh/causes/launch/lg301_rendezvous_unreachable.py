"""torchrun: the rendezvous endpoint cannot be reached

torchrun could not reach the rendezvous store at --rdzv-endpoint. Either its port is blocked, or no
torchrun hosts the store there. The torchrun on that node hosts it only if it recognizes the
endpoint as its own address, which can fail on hosts with several addresses.

**Place:** the node in --rdzv-endpoint

**Prove:** ./fullmesh verify -i INVENTORY (VC-301), and on the rendezvous node: ss -ltn 'sport =
:29400'

**Fix:** ./fullmesh apply -i INVENTORY --tags firewall,launch. If nothing listens at the endpoint,
start torchrun on the rendezvous node with --rdzv-conf is_host=1.

**Source:** pytorch/pytorch#107021, #121944, #67581, #64926
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-301",
    __doc__,
    examples=(
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection "
            "to the C10d store has failed. See inner exception for details."
        ),
    ),
    patterns=(
        Pattern("The connection to the C10d store has failed"),
        Pattern("connect() timed out. Original timeout was"),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    recorded=(
        RecordedLog(
            "old rendezvous",
            "RuntimeError: connect() timed out. Original timeout was 60000 ms.",
        ),
    ),
)
