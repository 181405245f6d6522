"""Training on all ranks gives a different loss than one process

All ranks together compute the same loss as one process with the whole batch. Another loss means
that a collective returned a wrong sum.

**Prove:** CUDA_VISIBLE_DEVICES=0 torchrun --nproc-per-node 1 TRAIN.py

**Fix:** See VC-402: remove the faulty node from the inventory and test its memory and its NIC.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-804", __doc__)
