"""The container runtime cannot pass GPUs

The container runtime of this node cannot pass the GPUs ({detail}). The NVIDIA Container Toolkit is
missing, not configured or has no right to (rootless without no-cgroups), it does not find the
driver's libraries on the host, or a GPU that the container names is not there.

**Place:** the node of this log

**Prove:** on that node, outside the container, run `nvidia-smi`, `nvidia-ctk --version` and `docker info`

**Fix:** Install nvidia-container-toolkit, run nvidia-ctk runtime configure, and restart the
container runtime. If it does not find libnvidia-ml.so.1, install the driver on the host, or correct
`root` in /etc/nvidia-container-runtime/config.toml.

**Source:** NVIDIA/nvidia-container-toolkit#154, read: Docker's and containerd's messages
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-524",
    __doc__,
    examples=(
        (
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]]."
        ),
        (
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot "
            "open shared object file: no such file or directory: unknown"
        ),
    ),
    patterns=(
        Pattern("could not select device driver", r"(?P<detail>could not select device driver)"),
        Pattern(
            "GPU vendor from CDI", r"(?P<detail>failed to discover GPU vendor from CDI[^\n]{0,80})"
        ),
        Pattern(
            "fulfil mount request: open /run/nvidia",
            r"(?P<detail>failed to fulfil mount request: open /run/nvidia[\w/.-]{1,80})",
        ),
        Pattern("unresolvable CDI devices", r"(?P<detail>unresolvable CDI devices \S{1,80})"),
        Pattern(
            "nvidia-container-cli: ",
            (
                r"^(?!.{0,40}pyxis).{0,4000}nvidia-container-cli: "
                r"(?P<detail>(?:device|mount|ldcache|container|detection) error: [^\n]{5,120})"
            ),
        ),
        Pattern(
            "nvidia-container-cli: ",
            (
                r"^(?!.{0,40}pyxis).{0,4000}nvidia-container-cli: (?P<detail>initialization error: "
                r"(?!nvml|driver|load)[^\n]{5,120})"
            ),
        ),
        Pattern(
            "load library failed: lib", r"(?P<detail>load library failed: libnvidia-ml\.so\.1)"
        ),
        Pattern(
            "unknown or invalid runtime name: nvidia",
            r"(?P<detail>unknown or invalid runtime name: nvidia)",
        ),
        Pattern(
            " runtime specified nvidia", r"(?P<detail>(?:Unknown|unknown) runtime specified nvidia)"
        ),
        Pattern(
            'no runtime for "nvidia"',
            r'(?P<detail>no runtime for "nvidia[\w-]{0,20}" is configured)',
        ),
        Pattern(
            "fulfil mount request: open /",
            r"(?P<detail>failed to fulfil mount request: open /(?!run/nvidia)[\w/.-]{1,120}nvidia[\w/.-]{1,80})",
        ),
        Pattern(
            "auto-detected mode as 'legacy'", r"auto-detected mode as 'legacy'\s*(?P<detail>)$"
        ),
    ),
    weight=90,
)
