"""No rank of a job runs on the queried nodes

A rank is a Python process with a rank variable (RANK, or that of Open MPI or Slurm). Root sees all
ranks on a node, and other accounts see their own.

**Prove:** fullmesh-hang on a node, as root and as the job's account

**Fix:** Use the inventory of the nodes that run the job, and connect as the job's account or one
with passwordless sudo.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-181", __doc__)
