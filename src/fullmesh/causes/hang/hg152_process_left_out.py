"""A process that says that it is a rank or a launcher is left out of the answer

Any account can start a process that says that it is a rank. Fullmesh reads each of them by itself
and in bounds. It leaves out a process whose numbers cannot be, that cannot be read in time, or that
is one of more than 512 of its account on a node. The answer about all other processes is whole.

**Prove:** ps -o user,pid,args -p PID on the node; fullmesh-hang there names them as well

**Fix:** If it is your job, correct its variables and options (RANK, WORLD_SIZE, --nproc-per-node).
If it is not, ask its owner.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-152", __doc__)
