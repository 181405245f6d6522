"""Describe the ports that logs name."""

from __future__ import annotations

from fullmesh.causes.logs import ExplainOptions
from fullmesh.observed.ports import KERNEL_RANGE


def describe_port_range(port: int, options: ExplainOptions) -> str:
    """Return whether a port is in the plan's range. Empty if no range is known."""
    data = options.data_ports
    if data is None:
        return ""
    text = f"Port {port} is {{}} the data range {data.first}-{data.last}: {{}}."
    if port in data:
        return text.format(
            "in", "a firewall or the path between the nodes is at fault, not the pinned range"
        )
    why = (
        "net.ipv4.ip_local_port_range is not pinned on the listening node, or the job runs in a"
        " container with a range of its own"
    )
    return text.format("OUTSIDE", why)


def is_kernel_chosen_port(port: int, options: ExplainOptions) -> bool:
    """Return whether the kernel chose this port, which then belongs to torchrun's own second store."""
    data = options.data_ports
    return port in KERNEL_RANGE or (data is not None and port in data)
