"""Cases of DG-194."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Break, Change, set_survey_part
from causes.faults import TUNED, Fault, set_sysctl

RMEM = "net.ipv4.tcp_rmem"


def change_setting(key: str, written: str, now: str) -> Break:
    return set_survey_part("changed_sysctls", {key: {"written": written, "now": now}})


CHANGES = {
    "smaller buffers": Change(
        UB, change_setting(RMEM, "4096 131072 16777216", "4096 131072 65536")
    ),
    "another word": Change(UB, change_setting("net.ipv4.tcp_congestion_control", "bbr", "cubic")),
}
QUIET = {
    "larger buffers": change_setting(RMEM, "4096 131072 16777216", "4096 131072 33554432"),
    "a setting that DG-144 judges": change_setting("net.core.somaxconn", "4096", "2048"),
}
FAULTS = (
    Fault("changed-setting", TUNED, set_sysctl("net.ipv4.tcp_rmem=4096 16384 65536")),
    Fault(
        "changed-setting", TUNED, set_sysctl("net.ipv4.tcp_wmem=4096 16384 65536"), "send", "master"
    ),
)
