"""Ports of systems that run over several nodes, from their own documentation.

This is the only place with these numbers. The plan, the firewall, the launchers and docs/services.md use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Where = Literal["all", "master"]
MASTER: Where = "master"
ALL: Where = "all"
PEERS = ("peers",)
PEERS_AND_CONTROLLERS = ("peers", "controllers")


@dataclass(frozen=True)
class PresetPort:
    """A port, or a range, of a system.

    Attributes:
        part: its name within the system.
        ports: ``6379`` or ``10002-13999``.
        meaning: the listener, for docs/services.md.
        source: the document that names the port.
        where: on the master's node, or on all nodes.
        reach: the groups that may reach it.
        per_cpu: ports that a node needs for each of its CPUs, 0 if their number does not matter.
    """

    part: str
    ports: str
    meaning: str
    source: str
    where: Where = ALL
    reach: tuple[str, ...] = PEERS
    per_cpu: int = 0


@dataclass(frozen=True)
class Preset:
    """A system. *remark* holds notes for the reader of docs/services.md."""

    name: str
    title: str
    remark: str
    ports: tuple[PresetPort, ...] = ()


RAY_DOC = "docs.ray.io, Configuring Ray, Ports configurations"
# 6700 and 6701 are the numbers of Ray's page on Slurm.
RAY_SLURM = "docs.ray.io, Deploying on Slurm"
# One port for the worker of each CPU, and the same number again for drivers, actors without a CPU and ports in use by
# other programs. With only one port per CPU, workers fail to register or hang (ray#28071, ray#33749).
RAY_PER_CPU = 2
SGLANG_ARGUMENTS = "docs.sglang.io, Server Arguments"
VLLM_PARALLEL = "docs.vllm.ai, vllm.config.parallel"
TORCHS_OWN = "No ports of its own: it uses torch's store (MASTER_PORT) and the data range."

PRESETS = (
    Preset(
        "ray",
        "Ray",
        "Ray's default port for the agent's HTTP (52365) is inside the data range, so Fullmesh uses 6704. Ray picks"
        " 6702, 6703 and 6705 at random by default. The workers get the lower part of Ray's 10002-19999, because vLLM"
        " has a port in the upper part. That is enough for 2,000 CPUs.",
        (
            PresetPort(
                "gcs", "6379", "Global control store: every node joins here", RAY_DOC, MASTER
            ),
            PresetPort(
                "dashboard",
                "8265",
                "Dashboard and job submission, without a password (CVE-2023-48022)",
                RAY_DOC,
                MASTER,
                PEERS_AND_CONTROLLERS,
            ),
            PresetPort("client", "10001", "Ray Client (ray://)", RAY_DOC, MASTER),
            PresetPort("node-manager", "6700", "Raylet: leases of workers", RAY_SLURM),
            PresetPort("object-manager", "6701", "Objects that move between nodes", RAY_SLURM),
            PresetPort(
                "runtime-env-agent", "6702", "Agent that makes runtime environments", RAY_DOC
            ),
            PresetPort("agent-grpc", "6703", "Dashboard's agent, metrics and logs", RAY_DOC),
            PresetPort("agent-http", "6704", "Dashboard's agent, jobs", RAY_DOC),
            PresetPort("metrics", "6705", "Figures for Prometheus", RAY_DOC),
            PresetPort(
                "workers",
                "10002-13999",
                "A port for each worker, actor and driver",
                RAY_DOC,
                per_cpu=RAY_PER_CPU,
            ),
        ),
    ),
    Preset(
        "vllm",
        "vLLM",
        "Over several nodes vLLM starts its ranks itself or on Ray. If you use Ray, add the preset ray too. Its data "
        "uses the data range.",
        (
            PresetPort(
                "api",
                "8000",
                "OpenAI's API (--port)",
                "docs.vllm.ai, vllm serve",
                MASTER,
                PEERS_AND_CONTROLLERS,
            ),
            PresetPort(
                "init",
                "29501",
                "torch's store for its ranks without Ray (--master-port)",
                VLLM_PARALLEL,
                MASTER,
            ),
            PresetPort(
                "data-parallel",
                "29550",
                "Messages of data parallel engines (--data-parallel-rpc-port)",
                VLLM_PARALLEL,
                MASTER,
            ),
            PresetPort("kv", "14579", "KV cache transfer (--kv-port)", "docs.vllm.ai, Security"),
            PresetPort(
                "nixl",
                "5600-5615",
                "KV cache transfer with NIXL: a port for each data parallel engine (VLLM_NIXL_SIDE_CHANNEL_PORT)",
                "vllm/envs.py of vLLM 0.32",
            ),
        ),
    ),
    Preset(
        "sglang",
        "SGLang",
        "The API listens on 127.0.0.1 if you do not set --host. Its data uses the data range.",
        (
            PresetPort(
                "api",
                "30000",
                "OpenAI's API and its own (--port)",
                SGLANG_ARGUMENTS,
                MASTER,
                PEERS_AND_CONTROLLERS,
            ),
            PresetPort(
                "init",
                "20000",
                "torch's store for its ranks (--dist-init-addr)",
                "docs.sglang.io, Multi-Node Deployment",
                MASTER,
            ),
            PresetPort(
                "messages",
                "20001-20015",
                "Messages of data parallel attention: the ports after the store's",
                "sglang/srt/server_args.py, PortArgs",
                MASTER,
            ),
            PresetPort(
                "bootstrap",
                "8998",
                "Bootstrap of prefill and decode (--disaggregation-bootstrap-port)",
                SGLANG_ARGUMENTS,
            ),
        ),
    ),
    Preset(
        "jax",
        "JAX",
        "Collectives on CPUs (Gloo) and GPUs (NCCL) use the data range.",
        (
            PresetPort(
                "coordinator",
                "8482",
                "jax.distributed's coordinator",
                "jax/_src/clusters/cloud_tpu_cluster.py of JAX 0.10",
                MASTER,
            ),
        ),
    ),
    Preset("accelerate", "Accelerate", TORCHS_OWN),
    Preset("deepspeed", "DeepSpeed", f"{TORCHS_OWN} Its launcher uses ssh (role node_ssh)."),
)
BY_NAME = {preset.name: preset for preset in PRESETS}
