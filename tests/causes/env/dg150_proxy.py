"""Cases of DG-150."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, variable
from causes.faults import BARE, Fault, login_variable

CHANGES = {
    "proxy": Change(UB, variable("https_proxy", "http://proxy:3128")),
}
FAULTS = (Fault("proxy", BARE, login_variable("https_proxy=http://192.0.2.80:3128")),)
