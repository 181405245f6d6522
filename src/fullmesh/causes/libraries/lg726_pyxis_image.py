"""pyxis: the container image cannot be imported

pyxis (enroot) could not import the image. A name without ./ or / at its start is looked up in a
registry, also if a file of that name exists.

**Where:** the --container-image of the job

**Prove:** enroot import docker://IMAGE on a node; the lines below 'printing enroot log file'

**Fix:** Write the path of a file with ./ or /; else check the registry's name, its access and the
disk space.

**Source:** NVIDIA/pyxis#127
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-726",
    __doc__,
    looks=("slurmstepd: error: pyxis: failed to import docker image",),
    patterns=(Pattern("pyxis: failed to import docker image"),),
    explains=(Explains(("LG-730",)),),
    weight=90,
)
