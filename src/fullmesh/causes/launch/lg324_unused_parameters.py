"""DDP: some parameters got no gradient

DistributedDataParallel waited for gradients of parameters that took no part in this rank's loss.
The model uses different modules than in the previous step, or never uses some.

**Place:** the model of the job. It is not a network fault

**Prove:** set TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the parameters without a gradient on each
rank

**Fix:** Remove the unused modules, use every output of forward in the loss on every rank, or pass
find_unused_parameters=True to DistributedDataParallel.

**Source:** read: torch/csrc/distributed/c10d/reducer.cpp, HamPerdredes/SOOD#33,
ImprintLab/MedSegDiff#27
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-324",
    __doc__,
    examples=(
        (
            "RuntimeError: Expected to have finished reduction in the prior iteration before "
            "starting a new one. This error indicates that your module has parameters that were "
            "not used in producing loss."
        ),
    ),
    patterns=(Pattern("Expected to have finished reduction in the prior iteration"),),
    weight=92,
    recorded=(
        RecordedLog(
            "parameters without a gradient",
            (
                "[rank1]: RuntimeError: Expected to have finished reduction in the prior "
                "iteration before starting a new one. This error indicates that your module "
                "has parameters that were not used in producing loss."
            ),
        ),
    ),
)
