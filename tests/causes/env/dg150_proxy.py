"""Cases of DG-150."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_variable
from causes.faults import BARE, Fault, set_login_variable

CHANGES = {
    "proxy": Change(UB, set_variable("https_proxy", "http://proxy:3128")),
}
FAULTS = (Fault("proxy", BARE, set_login_variable("https_proxy=http://192.0.2.80:3128")),)
