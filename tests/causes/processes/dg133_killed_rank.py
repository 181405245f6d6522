"""Cases of DG-133."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Break, Change, event, put


def killed(text: str = "Out of memory: Killed process 77 (python3)") -> Break:
    return put("kernel_log", event("out of memory", text))


CHANGES = {
    "oom": Change(UB, killed()),
}
