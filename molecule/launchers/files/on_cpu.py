"""Run a job for GPUs on CPUs: ``on_cpu.py JOB [ARGUMENT ...]``. Only for the lab; it does not simulate a GPU.

The job's own file does not change. Calls of CUDA use the CPU, and NCCL becomes Gloo.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, nn

Call = Callable[..., Any]


def without_device(move: Call) -> Call:
    """Make a ``to()`` that ignores the number of a GPU."""
    return lambda value, *place, **more: (
        value if isinstance((*place, "")[0], int) else move(value, *place, **more)
    )


def gloo_for_nccl(start: Call) -> Call:
    """Make an ``init_process_group()`` with the backend for CPUs."""
    return lambda backend=None, **more: start("gloo" if backend == "nccl" else backend, **more)


def of_no_gpu(wrap: Call) -> Call:
    """Make a ``DistributedDataParallel()`` for a model on the CPU."""
    return lambda model, device_ids=None, **more: wrap(model, **more)


def to_processors(load: Call) -> Call:
    """Make a ``torch.load()`` that loads to the CPU."""
    return lambda file, map_location=None, **more: load(file, map_location="cpu", **more)


torch.cuda.set_device = lambda _device: None
torch.Tensor.to = without_device(torch.Tensor.to)
nn.Module.to = without_device(nn.Module.to)
torch.load = to_processors(torch.load)
distributed.init_process_group = gloo_for_nccl(distributed.init_process_group)
nn.parallel.DistributedDataParallel = of_no_gpu(nn.parallel.DistributedDataParallel)
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
sys.stdout.flush()
# The model keeps Gloo's threads alive, and when the interpreter exits they may abort it (LG-320).
os._exit(0)
