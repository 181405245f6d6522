"""A record contains more than plain data

A pickle can run any program when it is unpickled. torch's dumps hold only plain data (dicts, lists,
texts, numbers), and Fullmesh reads only the instructions for these. This file has another
instruction, so Fullmesh does not read it.

**Prove:** python -m pickletools FILE prints the instructions without running them

**Fix:** Find out the origin of the file. Do not open it with torch's own tools, which unpickle it.

**Source:** torch.distributed.flight_recorder, which calls pickle.load
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-171", __doc__)
