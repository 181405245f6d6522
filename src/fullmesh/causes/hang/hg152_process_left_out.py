"""A process that claims to be a rank or a launcher is left out of the answer

Any account can start a process that looks like a rank. Fullmesh reads each one separately and
within limits. It leaves out a process whose numbers are impossible, that cannot be read in time, or
that exceeds the limit of 512 per account and node. The data of all other processes are complete.

**Prove:** ps -o user,pid,args -p PID on the node (fullmesh-hang there also lists these processes)

**Fix:** If it is your job, correct its variables and options (RANK, WORLD_SIZE, --nproc-per-node).
If it is not, ask its owner.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-152", __doc__)
