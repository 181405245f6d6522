"""Cases of VC-122."""

from __future__ import annotations

from records import UBUNTU1
from verify_changes import facts

VERIFICATION = {
    "address elsewhere": lambda s: facts(s)["addresses"].update({s.address(UBUNTU1): "eth0"}),
}
