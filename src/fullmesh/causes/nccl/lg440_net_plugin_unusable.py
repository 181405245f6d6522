"""NCCL: the network that NCCL_NET names cannot be used here

NCCL could start no network plugin: NCCL_NET (or an image's, module's or container hook's settings)
asks for one network by its name, and its plugin is missing, fits another NCCL or finds no device.
NCCL then does not fall back to another one.

**Where:** the node or container of this log

**Prove:** env | grep -E '^NCCL_(NET|NET_PLUGIN|TUNER_PLUGIN|IB_DISABLE)='; NCCL_DEBUG=INFO shows the
plugin and what it missed; ls -l /dev/infiniband

**Fix:** Remove NCCL_NET and the plugin's directory from LD_LIBRARY_PATH (or set NCCL_NET=Socket) where
the hardware is absent; otherwise give the container its devices and the plugin that fits this NCCL.

**Source:** NVIDIA-NeMo/Automodel#3843; read: NCCL's plugin/net.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-440",
    __doc__,
    looks=("node1:100:120 [0] plugin/net.cc:240 NCCL WARN Failed to initialize any NET plugin",),
    patterns=(
        Pattern("Failed to initialize any NET plugin"),
        Pattern("NCCL WARN Error: network ", r"NCCL WARN Error: network .{1,60} not found"),
    ),
    weight=85,
)
