"""Cases of DG-171."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, survey, variable
from causes.faults import BARE, Fault, login_variable


def unread(name: str = UB) -> Break:
    """NCCL is told to read a file that is not there."""

    def change(world: World) -> None:
        variable("NCCL_CONF_FILE", "/etc/gone.conf", name)(world)
        survey(world, name)["environment"]["unread"] = "/etc/gone.conf"

    return change


CHANGES = {
    "no nccl.conf": Change(UB, unread()),
}
FAULTS = (Fault("nccl-conf-gone", BARE, login_variable("NCCL_CONF_FILE=/etc/nccl/gone.conf")),)
