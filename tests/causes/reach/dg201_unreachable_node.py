"""Cases of DG-201."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change
from causes.faults import BARE, VICTIM, Fault, make_step


def lose_node(world: World) -> None:
    world["nodes"][UB] = {"node": {"unreachable": True, "msg": "Connection timed out"}}


CHANGES = {
    "unreachable": Change(UB, lose_node),
}
FAULTS = (
    Fault(
        "unreachable",
        BARE,
        make_step(
            VICTIM,
            "systemctl stop ssh.socket ssh sshd 2>/dev/null || true; pkill sshd || true",
            "systemctl start ssh 2>/dev/null || systemctl start sshd",
        ),
        deadline=30,
    ),
)
