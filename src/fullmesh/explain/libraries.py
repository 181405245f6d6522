"""What HCCL, NVSHMEM, Open MPI, Horovod and pyxis say: the few errors of them that public reports explain.

A table, one entry a cause. Their other errors are LG-701.
"""

from __future__ import annotations

from fullmesh.explain.model import LogCause, Pattern

CAUSES = (
    LogCause(
        code="LG-721",
        title="HCCL: its port on the host is taken",
        says=(
            "HCCL (Ascend) could not listen on port {port} of the host: another job on this host uses the same base"
            " port."
        ),
        where="the node of this log",
        prove="on that node: ss -ltnp | grep :60000 (HCCL's default base port)",
        fix="Give each job its own HCCL_IF_BASE_PORT, and end processes of an earlier job.",
        source="vllm-project/vllm-ascend#405, #16205",
        looks=(
            "[rank0]:         host nic listen start failed, port[60000], return[11][FUNC:StartListenSocket]",
            "[rank0]: EJ0003: [PID: 159] Failed to bind the IP port. Reason: The IP address and port have been bound"
            " already.",
        ),
        patterns=(
            Pattern(
                "host nic listen start failed", r"listen start failed, port\[(?P<port>\d{1,5})\]"
            ),
            Pattern("EJ0003", r"EJ0003\b(?P<port>)"),
        ),
        weight=90,
    ),
    LogCause(
        code="LG-722",
        title="HCCL: a rank did not come in time",
        says=(
            "HCCL (Ascend) waited for a connection of another rank, which came too late or not at all: it ended, works"
            " longer than HCCL_CONNECT_TIMEOUT (120 s by default), or cannot be reached."
        ),
        where="the rank that logs another error, or none",
        prove="compare the times of the ranks' first errors; hccn_tool -i 0 -ping -g address PEER",
        fix="Fix the rank that failed first; if all only start slowly, raise HCCL_CONNECT_TIMEOUT on all ranks.",
        source="vllm-project/vllm-ascend#486, vllm-project/afd-plugin#229",
        looks=("[rank1]: EI0006: [PID: 1] 2025-04-08-18:07:20.444.436 Getting socket times out.",),
        patterns=(Pattern("EI0006", r"EI0006\b"),),
        weight=58,
    ),
    LogCause(
        code="LG-723",
        title="NVSHMEM: IBGDA may not use the network card",
        says=(
            "NVSHMEM's GPU-initiated transport (IBGDA) could not get its part of the network card (DEVX): the process"
            " lacks the rights, as in a container that is not privileged, or the driver does not allow it."
        ),
        where="the container or node of this log",
        prove="run it in a privileged container; modinfo nvidia | grep PeerMapping; ls -l /dev/infiniband",
        fix=(
            "Start the container with --privileged, or with /dev/infiniband and the capabilities IPC_LOCK and"
            " SYS_RAWIO; NVSHMEM's guide has the driver's options (NVreg_EnableStreamMemOPs, PeerMappingOverride)."
        ),
        source="sgl-project/sglang#12533",
        looks=(
            "/src/modules/transport/ibgda/ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar",
        ),
        patterns=(
            Pattern("ibgda.cpp:", r"ibgda\.cpp:\d+: .{0,40}(?:cannot allocate|mlx5dv_devx)"),
            Pattern("init failed for transport: IBGDA"),
        ),
        weight=86,
    ),
    LogCause(
        code="LG-724",
        title="Open MPI: its TCP connections take a network that the peers do not reach",
        says=(
            "Open MPI's TCP transport (BTL) uses an address that does not lead to the peer: an interface of containers,"
            " of virtual machines or of another network, or a firewall stops the port."
        ),
        where="between the nodes: the interface that Open MPI chose",
        prove="mpirun --mca btl_base_verbose 30 prints the addresses; ip -brief addr on every node",
        fix=(
            "Name the cluster's interface: mpirun --mca btl_tcp_if_include INTERFACE --mca oob_tcp_if_include INTERFACE"
            " (or leave out docker0 and lo with btl_tcp_if_exclude)."
        ),
        source="horovod/horovod#209; read: Open MPI's FAQ on TCP",
        looks=(
            "[a:06805] btl: tcp: Match incoming connection from [[27443,1],1] 172.18.0.4 with locally known"
            " IP 192.0.2.77"
            " failed (iface 0/4)!",
            "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This should not happen.",
        ),
        patterns=(
            Pattern(
                "Match incoming connection from",
                r"btl: tcp: Match incoming connection from .{1,200} failed",
            ),
            Pattern("Open MPI failed to TCP connect to a peer"),
            Pattern("Open MPI accepted a TCP connection from what appears"),
        ),
        weight=66,
    ),
    LogCause(
        code="LG-725",
        title="Horovod: the hosts have no interface in common that reaches the driver",
        says=(
            "A host could not reach horovodrun on any of its addresses: no interface of one name is routable on every"
            " host, or only loopback and container addresses were offered."
        ),
        where="the hosts' interfaces",
        prove="on every host: ip -brief addr (which interface has the cluster's address everywhere?)",
        fix="Name it: horovodrun --network-interfaces INTERFACE.",
        source="horovod/horovod#1969, #994",
        looks=(
            "horovod.run.common.util.network.NoValidAddressesFound: Horovodrun was unable to connect to the horovodrun"
            " driver service on any of the following addresses: {'lo': [('127.0.0.1', 23411)]}.",
        ),
        patterns=(
            Pattern("NoValidAddressesFound: "),
            Pattern(
                "on any of the following addresses",
                r"unable to connect .{1,80} on any of the following addresses",
            ),
        ),
        weight=84,
    ),
    LogCause(
        code="LG-726",
        title="pyxis: the container image cannot be imported",
        says=(
            "pyxis (enroot) could not import the image. A name without ./ or / at its start is looked up in a registry,"
            " also if a file of that name exists."
        ),
        where="the --container-image of the job",
        prove="enroot import docker://IMAGE on a node; the lines below 'printing enroot log file'",
        fix="Write the path of a file with ./ or /; else check the registry's name, its access and the disk space.",
        source="NVIDIA/pyxis#127",
        looks=("slurmstepd: error: pyxis: failed to import docker image",),
        patterns=(Pattern("pyxis: failed to import docker image"),),
        weight=90,
    ),
)
