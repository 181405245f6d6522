"""no rank of a job runs on the nodes that were asked

A rank is a Python process that was told a number (RANK, or Open MPI's or Slurm's) on a node of the
inventory. Root sees all of them, other accounts see their own.

**Prove:** fullmesh-hang on a node, as root and as the job's account

**Fix:** The right inventory; an account that may use sudo without a password, or the job's own.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-181", __doc__)
