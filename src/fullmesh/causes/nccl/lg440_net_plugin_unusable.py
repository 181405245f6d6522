"""NCCL: the network that NCCL_NET names is not usable

NCCL could not start a network plugin. NCCL_NET, or a setting of the image, module or container
hook, names one network, but its plugin is missing, does not match this NCCL or finds no device.
NCCL then does not fall back to another network.

**Place:** the node or container of this log

**Prove:** run `env | grep -E '^NCCL_(NET|NET_PLUGIN|TUNER_PLUGIN|IB_DISABLE)='` and `ls -l
/dev/infiniband`. With NCCL_DEBUG=INFO, the log names the plugin and its error.

**Fix:** If the hardware is absent, remove NCCL_NET and the plugin's directory from LD_LIBRARY_PATH
(or set NCCL_NET=Socket). Otherwise give the container its devices and a plugin that matches this
NCCL.

**Source:** NVIDIA-NeMo/Automodel#3843, read: NCCL's plugin/net.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import AS_LAST, LogCause, Pattern

CAUSE = LogCause(
    "LG-440",
    __doc__,
    examples=("node1:100:120 [0] plugin/net.cc:240 NCCL WARN Failed to initialize any NET plugin",),
    patterns=(
        Pattern("Failed to initialize any NET plugin"),
        Pattern("Error: network ", AS_LAST + r"Error: network .{1,60} not found"),
    ),
    weight=85,
)
