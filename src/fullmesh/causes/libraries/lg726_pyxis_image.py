"""pyxis: the container image cannot be imported

pyxis (enroot) could not import the image. It looks up a name without ./ or / at its start in a
registry, even if a file of that name exists.

**Place:** the --container-image of the job

**Prove:** enroot import docker://IMAGE on a node, or read the lines below 'printing enroot log
file'

**Fix:** Write a file's path with ./ or / at its start. Otherwise check the registry's name, your
access to it and the disk space.

**Source:** NVIDIA/pyxis#127
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-726",
    __doc__,
    examples=("slurmstepd: error: pyxis: failed to import docker image",),
    patterns=(Pattern("pyxis: failed to import docker image"),),
    explains=(Explains(("LG-730",)),),
    weight=90,
)
