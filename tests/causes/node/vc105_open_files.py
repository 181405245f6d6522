"""Cases of VC-105."""

from __future__ import annotations

from verify_changes import facts

from causes.faults import BARE, NEW_LOGIN, Fault, edit_file

VERIFICATION = {
    "few files": lambda s: facts(s)["limits"].update(nofile=12),
}
FAULTS = (
    Fault(
        "nofile",
        BARE,
        edit_file(
            "/etc/security/limits.d/99-fault.conf",
            "printf 'root - nofile 128\\n* - nofile 128\\n' > /etc/security/limits.d/99-fault.conf; "
            + NEW_LOGIN,
            after=NEW_LOGIN,
        ),
        # 65 ranks: with 24 files, which suffice for two ranks, Python cannot load its own modules
        variables={"fullmesh_local_ranks": 64},
    ),
)
