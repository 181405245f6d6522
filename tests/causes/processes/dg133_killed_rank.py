"""Cases of DG-133."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Break, Change, make_events, set_survey_part


def kill_rank(text: str = "Out of memory: Killed process 77 (python3)") -> Break:
    return set_survey_part("kernel_log", make_events("out of memory", text))


CHANGES = {
    "oom": Change(UB, kill_rank()),
}
