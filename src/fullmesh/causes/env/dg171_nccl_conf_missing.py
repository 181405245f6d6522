"""NCCL_CONF_FILE names no file, so NCCL reads ~/.nccl.conf no more (warning)

NCCL reads the file of NCCL_CONF_FILE in place of ~/.nccl.conf, not beside it, and a file that it cannot open it
passes over in silence: what the account's file said (a card, an algorithm) holds no more. /etc/nccl.conf is read all
the same. NCCL expands no ~ and no variable in the name.

**Prove:** env | grep NCCL_CONF_FILE; ls -l $NCCL_CONF_FILE; NCCL_DEBUG=INFO shows the settings that NCCL has

**Fix:** Write the file, or take the variable out.

**Source:** NCCL, misc/param.cc, initEnvFunc
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-171",
    __doc__,
    severity=WARNING,
    weight=240,
    cases=(CauseCase("nccl-conf-gone", "NCCL_CONF_FILE=/etc/nccl/gone.conf in /etc/environment"),),
)
