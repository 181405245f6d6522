"""a record with something else than plain data in it

A pickle can run any program when it is unpickled. torch's dumps hold plain data alone (dicts,
lists, texts, numbers), and only instructions for these are read here; this file has another one.

**Prove:** python -m pickletools FILE prints what it would do, without doing it

**Fix:** Ask where the file is from. Do not open it with torch's own tools, which unpickle it.

**Source:** torch.distributed.flight_recorder, which calls pickle.load
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-171", __doc__)
