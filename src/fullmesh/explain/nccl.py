"""What NCCL says (sources: NVIDIA/nccl@5067397 = 2.30.7 and tags 2.10 to 2.30; the library 2.32.3 without a GPU).

A table, one entry a cause, so longer than other files; what is said until the ranks are connected: nccl_connect.py.
"""

from __future__ import annotations

from fullmesh.explain import nccl_connect
from fullmesh.explain.derive import describe_gids
from fullmesh.explain.model import ANY_CAUSE, ExplainOptions, Fields, LogCause, Pattern, Severity
from fullmesh.explain.nccl_connect import BAD_NETWORK


def derive_rdma_peer(fields: Fields, _options: ExplainOptions) -> Fields:
    """Old messages about RDMA do not name the peer; new ones have the addresses (GIDs) of both ends."""
    own, remote = fields.get("own", ""), fields.get("remote", "")
    note = describe_gids(own, remote) if own and remote else ""
    return {**fields, "peer": fields["peer"] or "a peer", "range_note": note}


CAUSES = (
    *nccl_connect.CAUSES,
    LogCause(
        code="LG-412",
        title="NCCL: RDMA packets do not arrive (completion 12 RETRY_EXC, vendor error 129)",
        says=(
            "RDMA to {peer} failed: wrong GID index, UDP 4791 blocked between"
            " the nodes, or a port of the fabric is down."
        ),
        where="the path to {peer}: switch, ACL or the GID that one side took",
        prove="show_gids on all nodes (same type and index?); ibv_rc_pingpong -g INDEX PEER; ibstat",
        fix=(
            "Remove NCCL_IB_GID_INDEX: NCCL 2.21 and newer choose the RoCE v2 entry. Open UDP 4791"
            " in switch ACLs and security groups."
        ),
        source="NVIDIA/nccl#426, #1131, #1664; host firewalls do not see RDMA",
        looks=(
            (
                "NET/IB : Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698"
                " len=32696 vendor err 129 (Send)"
            ),
            (
                "NET/IB: Got completion from peer 7.6.13.83<36315> with status=IBV_WC_RETRY_EXC_ERR(12)"
                " opcode=IBV_WC_SEND(0) vendor_err=129 localGid ::ffff:7.6.13.82 remoteGids::ffff:7.6.13.83 hca mlx5_0"
            ),
        ),
        patterns=(
            Pattern(
                "Got completion",
                r"Got completion (?:from peer (?P<peer>[^\s<]{1,60})\S{0,10} )?with (?:status=|error )12\b",
            ),
            # NCCL 2.28.7 and newer
            Pattern(
                "Got completion",
                r"Got completion from peer (?P<peer>[^\s<]{1,60})\S{0,10} with status=\w{1,40}\(12\)"
                r"(?:.{0,200}? localGid (?P<own>\S{2,60}) remoteGids?\s?(?P<remote>\S{2,60}))?",
            ),
            Pattern(
                "Got completion",
                r"Got completion (?:from peer (?P<peer>[^\s<]{1,60}))?.{0,200}vendor[ _]err[ =]129",
            ),
            Pattern(
                "ibv_modify_qp failed",
                r"ibv_modify_qp failed with (?:error )?\D{0,3}\d{0,4}\s?(?:Connection timed out|No such device"
                r"|Network is unreachable|Invalid argument|No data available)(?P<peer>)"
                r"(?:.{0,200}?local GID (?P<own>[\w:.]{2,60}), remote GID (?P<remote>[\w:.]{2,60}))?",
            ),
        ),
        key=("peer",),
        derive=derive_rdma_peer,
        weight=82,
    ),
    LogCause(
        code="LG-413",
        title="NCCL: locked memory is limited (memlock)",
        says="RDMA could not register memory: the limit for locked memory (memlock) is too small for this process.",
        where="the node of this log, in the job's own unit or container",
        prove="in the job's environment: ulimit -l (must say unlimited); systemctl show UNIT -p LimitMEMLOCK",
        fix=(
            "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 for the container;"
            " ./fullmesh apply --tags tuning for logins."
        ),
        source="NVIDIA/nccl-tests#206, NVIDIA/nccl#380",
        looks=(
            "node1:1:2 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        ),
        patterns=(
            Pattern("ibv_", r"ibv_(?:reg_mr|create_cq|create_qp)\w* .{0,60}Cannot allocate memory"),
        ),
        weight=90,
    ),
    LogCause(
        code="LG-414",
        title="NCCL: /dev/shm is full",
        says=(
            "NCCL could not make its shared memory in /dev/shm{detail}: containers have 64 MB"
            " unless told otherwise."
        ),
        where="the node of this log, inside the job's container",
        prove="in the container: df -h /dev/shm; ls -l /dev/shm | head (files of dead jobs?)",
        fix=(
            "--shm-size=8g or --ipc=host; Kubernetes: emptyDir with medium Memory at /dev/shm;"
            " remove old nccl-* files."
        ),
        source="NVIDIA/nccl#290, #342, #525",
        looks=(
            (
                "node1:202016:202235 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend"
                " /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)"
            ),
        ),
        patterns=(
            Pattern(
                "failed to extend /dev/shm",
                r"failed to extend /dev/shm/\S{1,40}(?P<detail> to \d+ bytes)",
            ),
            Pattern(
                "while creating shared memory segment",
                r"while creating shared memory segment \S{1,60}(?P<detail> \(size \d+\))",
            ),
            Pattern(
                "posix_fallocate failed",
                r"posix_fallocate failed : No space left on device(?P<detail>)",
            ),
        ),
        weight=92,
    ),
    LogCause(
        code="LG-415",
        title="NCCL: a collective ran into its timeout (watchdog)",
        says="Rank {rank} waited in {operation} number {number} until the watchdog's timeout of {timeout} ms.",
        where="a rank that does not log this, or that is at a lower number",
        prove=(
            "give explain-log the logs of all ranks; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and"
            " TORCH_NCCL_DUMP_ON_TIMEOUT=1 write what each rank did"
        ),
        fix=(
            "Fix the rank that is behind; a longer timeout only helps when one rank really"
            " works longer (checkpoint, evaluation)."
        ),
        source="hiyouga/LlamaFactory#7396, pytorch/pytorch#118369",
        looks=(
            "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught"
            " collective operation timeout:"
            " WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168,"
            " Timeout(ms)=600000) ran for 600060"
            " milliseconds before timing out.",
        ),
        patterns=(
            Pattern(
                "caught collective operation timeout",
                r"\[Rank (?P<rank>\d+)\].{0,40}caught collective operation timeout: WorkNCCL\(SeqNum=(?P<number>\d+),"
                r" OpType=(?P<operation>\w+),.{0,120}?Timeout\(ms\)=(?P<timeout>\d+)",
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
        weight=60,
    ),
    LogCause(
        code="LG-416",
        title="ranks called different collectives",
        says="The ranks called different collectives as number {number}: {operations}.",
        where="the ranks that went another way through the program: {ranks}",
        prove="TORCH_DISTRIBUTED_DEBUG=DETAIL checks every collective and names the line",
        fix=(
            "No collective inside 'if rank == 0' or in a loop whose length differs (uneven data:"
            " use join or drop_last)."
        ),
        source="NVIDIA/nccl#1409 (BROADCAST against ALLREDUCE); torch's flight recorder docs",
        looks=(),
        patterns=(),
        weight=81,
    ),
    LogCause(
        code="LG-417",
        title="torch saw ranks call different collectives",
        says="torch compared the collectives and they differ: rank {rank} is running {detail}.",
        where="the ranks that the message names",
        prove=(
            "the message stands in every rank's log; compare the lines of code they name with"
            " TORCH_SHOW_CPP_STACKTRACES=1"
        ),
        fix="No collective inside 'if rank == 0'; the same order, shapes and types on every rank.",
        source="read: torch ProcessGroupWrapper.cpp (TORCH_DISTRIBUTED_DEBUG=DETAIL)",
        looks=(
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective:"
            " CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[10]), but"
            " Rank 1 is running collective:"
            " CollectiveFingerPrint(SequenceNumber=3, OpType=REDUCE).",
        ),
        patterns=(
            Pattern(
                "Detected mismatch between collectives",
                (
                    r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d{1,7}) is running"
                    r" (?P<detail>.{1,190})"
                ),
            ),
        ),
        weight=86,
    ),
    LogCause(
        code="LG-419",
        title="EFA: the security group lacks its rule for itself",
        says=(
            "EFA got no answer from its peer (4126 Unresponsive receiver): the security group"
            " must allow all traffic to and from itself."
        ),
        where="the security group of the instances, not a host",
        prove=(
            "aws ec2 describe-security-groups: ingress AND egress with protocol -1 and its own"
            " group id (0.0.0.0/0 is not enough)"
        ),
        fix="Add both self rules by group id.",
        source="aws/aws-ofi-nccl#663, gardener/gardener-extension-provider-aws#1832",
        looks=(
            (
                "node1:1:2 [0] NCCL WARN NET/OFI Request completed with error. RC: 4. Error: 4126"
                " (Unresponsive receiver)"
            ),
        ),
        patterns=(
            Pattern("nresponsive receiver"),
            Pattern("4126", r"NET/OFI.{0,200}\b4126\b"),
        ),
        weight=90,
    ),
    LogCause(
        code="LG-420",
        title="EFA: the NCCL plugin is missing although EFA is wanted",
        says=(
            "The job asks for EFA ({detail}), but NCCL found no libnccl-net plugin and goes over"
            " plain sockets or fails."
        ),
        where="the node of this log",
        prove="ldconfig -p | grep nccl-net; fi_info -p efa; NCCL_DEBUG=INFO must say NET/OFI",
        fix="Install aws-ofi-nccl for the NCCL that torch loads and put it on LD_LIBRARY_PATH.",
        source="read: nccl plugin_open.cc:97-128; aws/aws-ofi-nccl",
        looks=(),
        patterns=(),
        weight=77,
    ),
    LogCause(
        code="LG-421",
        title="NCCL: a remote rank ended",
        says="A connection was closed by the other side ({detail}): another rank ended first.",
        where="the rank at the other end",
        prove="give explain-log the logs of all ranks; look for the rank whose log ends first",
        fix="Fix what ended the other rank; this message is its echo.",
        source="NVIDIA/nccl#1232",
        looks=(
            (
                "node1:39964:40044 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed"
                " by remote peer node1<57557>"
            ),
        ),
        patterns=(
            Pattern(
                "Connection closed by remote peer",
                r"Connection closed by remote peer (?P<detail>[^\s]{1,120})",
            ),
            Pattern(
                "remote process exited or there was a network error",
                r"(?P<detail>remote process exited or there was a network error)",
            ),
            Pattern(
                "Socket recv failed while polling", r"(?P<detail>Socket recv failed while polling)"
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE, "LG-405"),
    ),
    LogCause(
        code="LG-422",
        title="NCCL: a system call failed and the log does not say which",
        says="NCCL failed with '{detail}'; the reason stands in a line with NCCL WARN.",
        where="the node of this log",
        prove=(
            "run again with NCCL_DEBUG=WARN (or INFO with NCCL_DEBUG_SUBSYS=INIT,NET,ENV) and"
            " give explain-log that log"
        ),
        fix="What the NCCL WARN line says.",
        source="read: ProcessGroupNCCL's error texts",
        looks=(
            (
                "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275,"
                " unhandled system error (run with NCCL_DEBUG=INFO for details)"
            ),
        ),
        patterns=(
            Pattern(
                "NCCL error",
                r"NCCL error.{0,200}?(?P<detail>unhandled (?:system|cuda) error|internal error|invalid usage)",
            ),
            Pattern(
                "ncclSystemError: ",
                r"ncclSystemError: (?P<detail>System call \([^)]{1,60}\)[^\n.]{0,60} failed)",
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE, "LG-405", "LG-421", "LG-415"),
        key=("detail",),
    ),
    LogCause(
        code="LG-423",
        title="nodes run different NCCL versions",
        says="The logs show different NCCL versions: {versions}.",
        where="the node whose version differs",
        prove="./fullmesh verify -i INVENTORY (VC-104); python -c 'import torch; print(torch.cuda.nccl.version())'",
        fix="One lock file and one NCCL for all nodes (roles torch_runtime, nccl).",
        source="NVIDIA/nccl#1328; pytorch/pytorch#122571 (the wheel uses its own NCCL)",
        looks=(),
        patterns=(),
        weight=83,
    ),
    LogCause(
        code="LG-424",
        title="NCCL: nodes announce addresses that cannot reach each other",
        says="NCCL's nodes announce addresses of different kinds: {addresses}.",
        where="the node whose address is not of the cluster's network",
        prove="./fullmesh verify -i INVENTORY (VC-601)",
        fix=(
            "./fullmesh apply -i INVENTORY --tags launch (NCCL_SOCKET_IFNAME and"
            " NCCL_SOCKET_FAMILY for each node)."
        ),
        source="measured with the library 2.32.3: a downed interface silently gives the next one; NVIDIA/nccl#210",
        looks=(),
        patterns=(),
        needs=BAD_NETWORK,
        weight=79,
    ),
    LogCause(
        code="LG-425",
        title="NCCL: a connection of the wrong kind came in",
        says=(
            "A rank connected to the wrong listener ({detail}): left-over processes of another"
            " run, or nodes with different NCCL settings."
        ),
        where="a node with an older process of the job, or other NCCL_ settings",
        prove="on all nodes: pgrep -af python; env | grep ^NCCL_ | sort (compare)",
        fix="End left-over processes; one environment for all nodes.",
        source="NVIDIA/nccl-tests#188",
        looks=(
            "user:16899:16961 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
        ),
        patterns=(
            Pattern(
                "socketFinalizeAccept: wrong",
                r"socketFinalizeAccept: (?P<detail>wrong type [^\n]{1,60})",
            ),
        ),
        weight=70,
    ),
    LogCause(
        code="LG-426",
        title="EFA: what hangs after 'Could not find a path for pattern' is most often the security group",
        says=(
            "NCCL uses EFA, found no path for pattern {pattern} (that alone costs speed only) and never said that its"
            " rings are connected: where the job hangs or times out after it, the security group does not let EFA"
            " through."
        ),
        where="the security group of the instances, not a host",
        prove=(
            "./fullmesh diagnose -i INVENTORY, or aws ec2 describe-security-groups: ingress AND egress with protocol -1"
            " and its own group id (0.0.0.0/0 is not enough)"
        ),
        fix=(
            "Allow all traffic from and to the group itself, both rules by group id: ansible-playbook playbooks/ec2.yml"
            " with ec2_security_group_mode: efa (docs/ec2.md)."
        ),
        source="read: nccl search.cc:1293; aws/aws-ofi-nccl#64, #663; AWS's EFA guide (security group)",
        looks=(),
        patterns=(),
        # a guess from what is missing in the log: whatever says more comes above it
        follows=(ANY_CAUSE,),
        weight=42,
    ),
    LogCause(
        code="LG-427",
        title="NCCL: the RDMA driver cannot take GPU memory by DMA-BUF",
        says="NCCL asked the RDMA driver to register GPU memory as DMA-BUF, and the driver of this node cannot.",
        where="the node of this log: its kernel, its OFED, or a container whose libibverbs is older than the driver",
        prove="uname -r (5.12 and newer have it); ofed_info -s; modinfo nvidia_peermem",
        fix=(
            "NCCL_DMABUF_ENABLE=0 with nvidia_peermem loaded, or a newer kernel or OFED; a newer NCCL takes the"
            " other way by itself."
        ),
        source="NVIDIA/nccl#778",
        looks=(
            "misc/ibvwrap.cc:288 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
        ),
        patterns=(
            Pattern(
                "ibv_reg_dmabuf_mr",
                r"ibv_reg_dmabuf_mr failed with .{0,40}?Operation not supported",
            ),
        ),
        weight=88,
    ),
    LogCause(
        code="LG-428",
        title="torch found another NCCL than the one it was built for",
        says=(
            "torch's library asks for {detail}, which the libnccl that was found has not: it is older than torch's own,"
            " from LD_LIBRARY_PATH, from the system, or from a second wheel (nvidia-nccl-cu11 beside -cu12)."
        ),
        where="the Python environment of the node of this log",
        prove="pip list | grep -i nccl; echo $LD_LIBRARY_PATH; ldd .../torch/lib/libtorch_cuda.so | grep nccl",
        fix=(
            "One nvidia-nccl wheel, the one torch's own requirements name, and no directory with another libnccl in"
            " LD_LIBRARY_PATH: role torch_runtime installs from a lock."
        ),
        source="pytorch/pytorch#119932",
        looks=(
            "ImportError: /venv/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol:"
            " ncclCommRegister",
        ),
        patterns=(
            Pattern("undefined symbol: nccl", r"undefined symbol: (?P<detail>nccl\w{1,60})"),
        ),
        weight=93,
    ),
    LogCause(
        code="LG-430",
        title="NCCL: GPUDirect RDMA is broken (local protection error)",
        says=(
            "The network card could not read or write memory that NCCL had registered (completion 4, local protection"
            " error). With GPUDirect RDMA the cause is most often PCIe Access Control Services (ACS) or an"
            " IOMMU between"
            " the GPU and the card."
        ),
        where="the node of this log: its BIOS, kernel parameters or virtualization",
        prove=(
            "NCCL_NET_GDR_LEVEL=LOC (no GPUDirect): the job runs; lspci -vvv | grep ACSCtl (a + after SrcValid);"
            " cat /proc/cmdline"
        ),
        fix="Switch off ACS on the PCIe bridges and the IOMMU (or iommu=pt). In VMs leave GPUDirect off.",
        source="NVIDIA/nccl#928; read: NCCL's troubleshooting guide (PCI Access Control Services)",
        looks=(
            (
                "node2:14159:14168 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer"
                " 10.10.0.7<33397> with error 4, opcode 32611, len 32611, vendor err 81 (Send)"
            ),
            (
                "NET/IB: Got completion from peer 10.10.0.7<33397> with status=IBV_WC_LOC_PROT_ERR(4)"
                " opcode=IBV_WC_SEND(0) vendor_err=81"
            ),
        ),
        patterns=(
            Pattern(
                "Got completion",
                r"Got completion .{0,100}?with (?:status=|error )(?:\w{1,40}\()?4\b",
            ),
        ),
        weight=84,
    ),
    LogCause(
        code="LG-431",
        title="NCCL: the RDMA driver cannot register GPU memory (Bad address)",
        says=(
            "The RDMA driver refused to register GPU memory ({detail}: Bad address): the module that lets it reach GPU"
            " memory (nvidia_peermem) is not loaded or does not fit, or this GPU has no GPUDirect RDMA."
        ),
        where="the node of this log",
        prove="lsmod | grep nvidia_peermem; NCCL_NET_GDR_LEVEL=LOC (no GPUDirect): the job runs",
        fix="modprobe nvidia_peermem (of the loaded driver), or leave GPUDirect off with NCCL_NET_GDR_LEVEL=LOC.",
        source="read: NCCL net_ib; NVIDIA's GPUDirect RDMA guide",
        looks=(
            (
                "node1:1:2 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address"
                " errno 14"
            ),
        ),
        patterns=(
            Pattern(
                "Bad address", r"(?P<detail>ibv_reg_(?:dmabuf_)?mr\w{0,12}) .{0,60}Bad address"
            ),
        ),
        weight=88,
    ),
    LogCause(
        code="LG-432",
        title="NCCL: NVLink SHARP (NVLS) fails, so the fabric of the node is unhealthy",
        says=(
            "NCCL could not set up NVLink SHARP multicast (NVLS): the fabric manager was restarted, is of another"
            " version, or the GPUs need a reset, or the container or VM may not use multicast."
        ),
        where="the node of this log: fabric manager and NVSwitches",
        prove=(
            "on that node: systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric; NCCL_NVLS_ENABLE=0:"
            " the job runs"
        ),
        fix=(
            "Restart the fabric manager with no GPU in use and reset the GPUs (nvidia-smi -r), or reboot;"
            " NCCL_NVLS_ENABLE=0 does without NVLS."
        ),
        source="NVIDIA/nccl#1488, #976; read: nccl transport/nvls.cc",
        looks=(
            "node23:12098:12141 [2] transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'",
            (
                "node1:1:2 [0] NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA"
                " error 401 'the operation cannot be performed in the present state'."
            ),
        ),
        patterns=(
            Pattern(
                "nvls.cc:",
                r"nvls\.cc:\d+ NCCL WARN Cu(?:da|DA) (?:failure|error) (?:\d+ )?'(?!out of memory)",
            ),
            Pattern("NVLink SHARP (NVLS)", r"Failed to bind NVLink SHARP \(NVLS\)"),
        ),
        weight=89,
    ),
    LogCause(
        code="LG-434",
        title="EFA: the plugin finds no EFA device",
        says=(
            "The EFA plugin (aws-ofi-nccl) is installed but libfabric finds no EFA device or provider for it: the"
            " container did not get the devices, or its libfabric has no EFA."
        ),
        where="the container or node of this log",
        prove="inside the container: ls /dev/infiniband; fi_info -p efa; on the node: lspci | grep -i efa",
        fix=(
            "Pass the devices to the container (--device /dev/infiniband/uverbs0 and so on, Kubernetes: the EFA device"
            " plugin), and install AWS's libfabric in the image."
        ),
        source="aws/aws-ofi-nccl#1020, aws-samples/aws-efa-nccl-baseami-pipeline#2, NVIDIA/nccl#229",
        looks=(
            "node1:1:2 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No"
            " data available",
            "node1:1:2 [0] find_ofi_provider:543 NCCL WARN NET/OFI Couldn't find any optimal provider",
        ),
        patterns=(
            Pattern("fi_getinfo() ", r"NET/OFI .{0,40}fi_getinfo\(\) (?:call )?failed"),
            Pattern("find any optimal provider", r"NET/OFI Couldn't find any optimal provider"),
            Pattern("No eligible providers", r"NET/OFI No eligible providers (?:were )?found"),
        ),
        weight=84,
    ),
    LogCause(
        code="LG-435",
        title="EFA: the plugin was built for a newer libfabric than the one that it runs with",
        says=(
            "The EFA plugin asked libfabric for {detail}, which this libfabric does not know: the plugin was compiled"
            " against a newer version than the one that is loaded."
        ),
        where="the image or node of this log",
        prove="fi_info --version; ldd libnccl-net.so | grep fabric (which libfabric is loaded)",
        fix=(
            "Use the plugin and libfabric of one EFA installer version; remove the older libfabric from"
            " LD_LIBRARY_PATH."
        ),
        source="aws/aws-ofi-nccl#241",
        looks=(
            (
                "node1:1:2 [0] configure_sendrecv_inorder:213 NCCL WARN NET/OFI Couldn't set"
                " FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES. RC: -92, ERROR: Protocol not available"
            ),
        ),
        patterns=(
            Pattern(
                "Protocol not available",
                r"NET/OFI Couldn't set (?P<detail>FI_OPT_\w{1,80})\. .{0,40}Protocol not available",
            ),
        ),
        weight=86,
    ),
    LogCause(
        code="LG-437",
        title="SHARP: the port runs the subnet manager",
        says=(
            "SHARP cannot use port {port} of {device}, because the subnet manager (SM) runs on it. NCCL's CollNet goes"
            " on without SHARP or fails."
        ),
        where="the node of this log: its InfiniBand port",
        prove="on that node: sminfo; systemctl status opensm",
        fix="Run the subnet manager on a switch or another node, or leave SHARP off (NCCL_COLLNET_ENABLE=0).",
        source="NVIDIA/nccl#1219",
        looks=(
            "[nodeB:1:28576 unique id 12] ERROR collect_ports_data: device mlx5_0 port 1 is not valid (port"
            " is used by SM)",
        ),
        patterns=(
            Pattern(
                "port is used by SM",
                r"device (?P<device>\S{1,40}) port (?P<port>\d{1,3}) is not valid \(port is used by SM\)",
            ),
        ),
        weight=80,
    ),
    LogCause(
        code="LG-901",
        title="harmless: NCCL has no network plugin",
        says=(
            "NCCL looked for a vendor's network plugin (libnccl-net.so), found none and uses its"
            " own; only EFA and some fabrics need one."
        ),
        prove="NCCL_DEBUG=INFO: the line 'Using network' says what is used instead",
        fix="Nothing to do; on AWS with EFA install aws-ofi-nccl (then it is LG-420).",
        source="read: nccl plugin_open.cc:97-128",
        looks=(
            "node1:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
            "node1:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.",
            (
                "node1:1:1 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 :"
                " libnccl-net.so: cannot open shared object file: No such file or directory"
            ),
        ),
        patterns=(
            Pattern("No plugin found"),
            Pattern("libnccl-net", r"Could not find: .{0,80}libnccl-net"),
            Pattern("libnccl-net", r"libnccl-net[\w.-]*: cannot open shared object file"),
            Pattern("NET/Plugin: Failed to find ncclNetPlugin"),
        ),
        severity=Severity.HARMLESS,
    ),
    LogCause(
        code="LG-902",
        title="harmless: NCCL found no path for a pattern and takes a simple order",
        says=(
            "NCCL's search found no path for pattern {pattern} and took a simple order: it may"
            " cost speed, it breaks nothing."
        ),
        prove="all_reduce_perf of nccl-tests, or ./fullmesh verify (rung L5) shows what the links give",
        fix=(
            "Nothing to do; on EFA or in a VM give NCCL the machine's topology (NCCL_TOPO_FILE). A job on EFA that"
            " hangs after it: LG-426."
        ),
        source="read: nccl search.cc:1293 (WARN up to 2.26, INFO in 2.30); NVIDIA/nccl#487",
        looks=(
            (
                "node1:2374:2645 [0] graph/search.cc:1127 NCCL WARN Could not find a path for"
                " pattern 4, falling back to simple order"
            ),
        ),
        patterns=(
            Pattern(
                "Could not find a path for pattern",
                r"Could not find a path for pattern (?P<pattern>\d+)",
            ),
        ),
        severity=Severity.HARMLESS,
    ),
    LogCause(
        code="LG-903",
        title="harmless: NCCL found no InfiniBand or RoCE device",
        says=(
            "NCCL found no InfiniBand or RoCE device and uses sockets: slower, not broken. With"
            " such a card in the node it is worth a look."
        ),
        prove="ls /sys/class/infiniband; ibstat",
        fix="Nothing without such a card; else install its driver and give the container /dev/infiniband.",
        source="read: nccl net_ib",
        looks=("node1:920:1145 [1] NCCL INFO NET/IB : No device found.",),
        patterns=(Pattern("NET/IB : No device found"),),
        severity=Severity.HARMLESS,
    ),
    LogCause(
        code="LG-904",
        title="harmless: NCCL discarded a stray connection",
        says=(
            "Something connected to NCCL's port that is not of this job (a port scanner, a"
            " monitor) and was discarded."
        ),
        prove="ss -tnp on the node while it happens; who scans the data ports?",
        fix="Nothing to do; role peer_firewall keeps strangers out of the data range.",
        source="measured with the library 2.32.3, which survives it",
        looks=(
            "node1:1:2 [0] NCCL INFO socketFinalizeAccept: socket connected with magic mismatch, discarding",
        ),
        patterns=(
            Pattern("magic mismatch", r"magic mismatch.{0,40}discard"),
            Pattern("socketFinalizeAccept: wrong magic"),
        ),
        severity=Severity.HARMLESS,
    ),
)
