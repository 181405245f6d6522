"""What Ray, JAX, DeepSpeed, vLLM, SGLang and Accelerate say where they fail, as explain-log reads it.

``recorded/services``: Ray 2.60, JAX 0.10 and DeepSpeed 0.19 on lab nodes, each with the fault that its file is named
by; the same faults are made on nodes by tests/e2e/test_services.py. What vLLM, SGLang and Accelerate say is from users'
threads and their sources: no wheel of the first two runs without a GPU.
"""

from __future__ import annotations

import pytest
from test_explain_log import list_folded, list_harmless, list_heads, verdict_of

from fullmesh.settings import ROOT

RECORDS = ROOT / "tests/unit/recorded/services"


@pytest.mark.parametrize(
    ("name", "codes", "follows", "words"),
    [
        ("ray-second-head", ["LG-680"], [], "10.78.2.11:6379"),
        ("ray-version", ["LG-604"], [], "Ray 2.60.0"),
        ("ray-wrong-card", ["LG-681"], ["LG-682"], "10.77.2.12:50077"),
        ("ray-shut", ["LG-601"], ["LG-602"], "10.78.2.11:6379"),
        ("jax-loopback", ["LG-106"], [], "127.0.1.1"),
        ("deepspeed-ninja", ["LG-687"], ["LG-537"], "deepspeed_shm_comm"),
    ],
)
def test_a_fault_on_nodes_is_named_from_its_log(
    name: str, codes: list[str], follows: list[str], words: str
) -> None:
    verdict = verdict_of((RECORDS / f"{name}.log").read_text())
    assert (list_heads(verdict), list_folded(verdict)) == (codes, follows)
    assert words in verdict.heads[0].sentence


def test_little_shared_memory_is_reported_without_failure() -> None:
    verdict = verdict_of((RECORDS / "ray-shm.log").read_text())
    assert (list_heads(verdict), list_harmless(verdict)) == ([], ["LG-960"])


@pytest.mark.parametrize(
    ("code", "log"),
    [
        (
            # vllm/executor/ray_distributed_executor.py; the addresses are vllm#43095's: two networks on one node
            "LG-683",
            "(EngineCore_DP0 pid=77) RuntimeError: Every node should have a unique IP address. Got 2 nodes with node"
            " ids ['3f1ec0', '88ab12'] and 3 unique IP addresses {'10.0.1.12', '192.168.1.12', '10.0.1.13'}. Please"
            " check your network configuration. If you set `VLLM_HOST_IP` environment variable, make sure it is unique"
            " for each node.",
        ),
        (
            # gpustack#5509
            "LG-684",
            "(EngineCore pid=84) INFO 06-07 18:13:55 [ray_utils.py:464] Waiting for creating a placement group of specs"
            " for 150 seconds. specs=[{'GPU': 1.0}, {'GPU': 1.0}]. Check `ray status` and `ray list nodes` to see if"
            " you have enough resources, and make sure the IP addresses used by ray cluster are the same as"
            " VLLM_HOST_IP environment variable specified in each node if you are running on a multi-node.",
        ),
        (
            "LG-686",
            "RuntimeError: Using hostfile at /etc/fullmesh/hostfile but host=10.78.2.12 was not reachable via ssh. If"
            " you are running with a single node please remove /etc/fullmesh/hostfile or setup passwordless ssh.",
        ),
        (
            "LG-688",
            "ValueError: You need to manually pass in `--num_processes` using this config yaml.",
        ),
        ("LG-688", "ValueError: You need to use at least 2 processes to use `--multi_gpu`."),
        ("LG-689", "AssertionError: please provide --dist-init-addr as host:port of head node"),
    ],
)
def test_a_cause_quoted_by_another_program_is_named(code: str, log: str) -> None:
    assert list_heads(verdict_of(log)) == [code]


def test_a_dead_node_without_reason_is_only_a_symptom() -> None:
    log = (RECORDS / "ray-wrong-card.log").read_text()
    dead = next(line for line in log.splitlines() if "has been marked dead" in line)
    verdict = verdict_of(dead)
    assert list_heads(verdict) == ["LG-682"]
    assert "10.77.2.12" in verdict.heads[0].sentence


NO_HOSTFILE = (
    "[2023-04-19 10:49:12,862] [WARNING] [runner.py:190:fetch_hostfile] Unable to find hostfile, will proceed"
    " with training with local resources only.\n"
)
ENDS_WELL = (
    "[2023-04-19 11:02:12,862] [INFO] [launch.py:347:main] Process 4711 exits successfully.\n"
)


def test_deepspeed_on_one_node_needs_no_hostfile() -> None:
    """deepspeedai/DeepSpeed#3299."""
    verdict = verdict_of(NO_HOSTFILE + ENDS_WELL)
    assert (list_heads(verdict), list_harmless(verdict)) == ([], ["LG-961"])


@pytest.mark.parametrize(
    "more",
    [
        "[2023-04-19 10:49:14,862] [INFO] [launch.py:163:main] nnodes=2, num_local_procs=8, node_rank=0\n",
        "a1:1:1 [0] NCCL INFO Bootstrap : Using eth1:10.77.0.11<0>\n"
        "a2:1:1 [0] NCCL INFO Bootstrap : Using eth1:10.77.0.12<0>\n",
    ],
    ids=["nnodes", "hosts"],
)
def test_a_second_node_makes_the_missing_hostfile_a_cause(more: str) -> None:
    verdict = verdict_of(NO_HOSTFILE + more)
    assert (list_heads(verdict), list_harmless(verdict)) == (["LG-685"], [])


def test_two_nodes_without_a_hostfile_train_alone() -> None:
    verdict = verdict_of(NO_HOSTFILE + ENDS_WELL, NO_HOSTFILE + ENDS_WELL)
    assert (list_heads(verdict), list_harmless(verdict)) == (["LG-685"], [])
    assert "2 logs have this line" in verdict.heads[0].sentence


def test_worse_errors_precede_a_missing_hostfile() -> None:
    both = NO_HOSTFILE + (RECORDS / "deepspeed-ninja.log").read_text()
    assert list_heads(verdict_of(both, NO_HOSTFILE)) == ["LG-687", "LG-685"]
