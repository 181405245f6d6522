"""The launcher passes --local-rank to a script that does not know it

torch.distributed.launch started the script with {detail}, which its argument parser does not know.
torch before 2.0 passes --local_rank, and torch since 2.0 passes --local-rank.

**Place:** the job's own script, on every node. It is not a network fault

**Prove:** grep -n local_rank SCRIPT && python -c 'import torch; print(torch.__version__)'

**Fix:** Start it with torchrun (or a launcher of role launchers), which passes no such argument,
and read int(os.environ['LOCAL_RANK']). Or add both spellings to the parser.

**Source:** read: torch/distributed/launch.py 2.0, XPixelGroup/BasicSR#626,
skycrapers/TecoGAN-PyTorch#31
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-323",
    __doc__,
    examples=("train.py: error: unrecognized arguments: --local-rank=0",),
    patterns=(
        Pattern(
            "unrecognized arguments: ",
            r"unrecognized arguments: .{0,120}?(?P<detail>\S{0,2}local[-_]rank)",
        ),
    ),
    weight=93,
    recorded=(
        RecordedLog(
            "an old launcher's argument",
            (
                "usage: train.py [-h] [--local_rank LOCAL_RANK]\n"
                "train.py: error: unrecognized arguments: --local-rank=0\n"
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 2) "
                "local_rank: 0 (pid: 622423) of binary: /usr/bin/python3"
            ),
            folded=("LG-304",),
        ),
    ),
)
