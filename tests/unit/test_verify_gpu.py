"""What NCCL and nccl-tests print, read from real output.

Only the lines that matter are kept, two of them shortened. Sources: two RTX 4090 (NCCL 2.21.5, nccl-tests with
``#wrong``, a log kept in a public repository); sixteen A100-SXM4 on two nodes (a public tutorial); a table from before
nccl-tests 2.13 (a public how-to, NVLink GPUs over 100 Gbit/s); ``50 FAILED`` and GTX 1050 Ti beside GTX 950
(NVIDIA/nccl-tests issue 131). The lines of InfiniBand and EFA have the form of public logs; none was recorded here.
"""

from __future__ import annotations

import pytest

from fullmesh.verify import gpu as verify_gpu
from fullmesh.verify.nccl_ways import parse_nccl_network

RTX4090 = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid 528157 on node device  0 [0000:01:00] NVIDIA GeForce RTX 4090
#  Rank  1 Group  0 Pid 528157 on node device  1 [0000:81:00] NVIDIA GeForce RTX 4090
node:528157:528157 [0] NCCL INFO Bootstrap : Using eth0:10.60.10.2<0>
NCCL version 2.21.5+cuda12.4
node:528157:528268 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
node:528157:528268 [0] NCCL INFO NET/Socket : Using [0]eth0:10.60.10.2<0>
node:528157:528268 [0] NCCL INFO Using non-device net plugin version 0
node:528157:528268 [0] NCCL INFO Using network Socket
node:528157:528268 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    14.54    0.00    0.00      0    15.94    0.00    0.00      0
    67108864      16777216     float     sum      -1    75422    0.89    0.89      0    73478    0.91    0.91      0
   134217728      33554432     float     sum      -1   150405    0.89    0.89      0   148570    0.90    0.90      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.450547
#
"""
A100 = """\
#  Rank 15 Group  0 Pid    380 on inst-yyyyy-gpu4-ol89 device  7 [0xda] NVIDIA A100-SXM4-40GB
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
 10737418240    2684354560     float     sum      -1    90330  118.87  222.88      0    91945  116.78  218.96      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 220.921
"""
OLD = """\
    67108864      16777216     float     sum   2677.0   25.07   47.00  5e-07   2732.0   24.56   46.06  5e-07
  4294967296    1073741824     float     sum   167263   25.68   48.15  5e-07   167543   25.64   48.07  5e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 18.5822
"""
FAILED = "# Out of bounds values : 50 FAILED\n# Avg bus bandwidth    : 0.405 \n"
BROKEN_OFF = RTX4090[: RTX4090.index("   134217728")]


@pytest.mark.parametrize(
    ("text", "sizes", "fastest", "wrong", "average"),
    [
        (RTX4090, [8, 67108864, 134217728], 0.89, 0, 0.450547),
        (A100, [10737418240], 222.88, 0, 220.921),
        (OLD, [67108864, 4294967296], 48.15, 0, 18.5822),
        (FAILED, [], 0.0, 50, 0.405),
        (BROKEN_OFF, [8, 67108864], 0.89, None, None),
        ("Test NCCL failure common.cu:958 'unhandled system error'", [], 0.0, None, None),
    ],
    ids=["rtx4090", "a100", "old", "failed", "broken off", "no table"],
)
def test_the_table_of_nccl_tests(
    text: str, sizes: list[int], fastest: float, wrong: int | None, average: float | None
) -> None:
    found = verify_gpu.parse_nccl_tests(text)
    assert [row["bytes"] for row in found["rows"]] == sizes
    assert max([row["bus_gb_s"] for row in found["rows"]] or [0.0]) == fastest
    assert (found["wrong"], found["average"]) == (wrong, average)


def test_the_bus_bandwidth_is_that_of_nccl_tests() -> None:
    """16 ranks: busbw = algbw * 2 * 15 / 16, as PERFORMANCE.md says and the A100 row shows."""
    assert round(118.87 * 2 * 15 / 16, 2) == pytest.approx(222.88, abs=0.01)


@pytest.mark.parametrize(
    ("lines", "network", "devices"),
    [
        (RTX4090.splitlines(), "Socket", "[0]eth0:10.60.10.2<0>"),
        (
            [
                "a:9:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.4<0>",
                "a:9:9 [0] NCCL INFO Using network IB",
            ],
            "IB",
            "[0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.4<0>",
        ),
        (
            [
                "a:9:9 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)",
                "a:9:9 [0] NCCL INFO Using network AWS Libfabric",
            ],
            "AWS Libfabric",
            "efa",
        ),
        ([], "", ""),
    ],
    ids=["socket", "ib", "efa", "nothing"],
)
def test_which_network_nccl_took(lines: list[str], network: str, devices: str) -> None:
    assert parse_nccl_network(lines) == {"network": network, "devices": devices}
