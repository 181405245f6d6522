"""Cases of DG-171."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, get_survey, set_variable
from causes.faults import BARE, Fault, set_login_variable


def remove_nccl_conf(name: str = UB) -> Break:
    """Set a missing file as NCCL's configuration."""

    def change(world: World) -> None:
        set_variable("NCCL_CONF_FILE", "/etc/gone.conf", name)(world)
        get_survey(world, name)["environment"]["unread"] = "/etc/gone.conf"

    return change


CHANGES = {
    "no nccl.conf": Change(UB, remove_nccl_conf()),
}
FAULTS = (Fault("nccl-conf-gone", BARE, set_login_variable("NCCL_CONF_FILE=/etc/nccl/gone.conf")),)
