"""Parse port ranges and compute the size of the data range.

Gloo and NCCL bind every listener but the store's to port 0, so the kernel takes it from
``net.ipv4.ip_local_port_range`` and neither has a setting (pytorch/gloo#54, NVIDIA/nccl#388). The range that
the kernel may use and the range that the firewall opens are therefore one number, derived here.
"""

from __future__ import annotations

from fullmesh.foreign_text import parse_decimal
from fullmesh.model.types import DataPorts
from fullmesh.observed.ports import HIGHEST_PORT, PortRange, parse_port_range

LOWEST_PORT = 1024  # below it, bind() needs CAP_NET_BIND_SERVICE, ip(7)
DEFAULT_FIRST = 50000  # above 29400/29500 and above Kubernetes' NodePorts (30000-32767)
# NCCL over sockets between 8-GPU nodes opens a listener per channel and peer: 4000 and more.
DEFAULT_SIZE = 4096
# Measured: back-to-back restarts leave TIME_WAIT sockets behind, so that L ranks on a host with G process
# groups need 16*L*G ports (64 for 4x1, 256 for 4x4). A single start only needs 2*L*G + 6.
PORTS_PER_RANK_AND_GROUP = 16
SMALLEST_RANGE = 64
# To the store: one that lasts and a short one before it (measured, TCPStore).
CONNECTIONS_PER_RANK = 2
KERNEL_FIRST = 32768  # the kernel's default lower end: data ports never use lower ones
LARGEST_RANGE = HIGHEST_PORT + 1 - KERNEL_FIRST


def range_to_data_ports(data: PortRange) -> DataPorts:
    """Return the range in every notation that a template needs (firewalld ``a-b``, sysctl ``a b``)."""
    return {
        "first": data.first,
        "last": data.last,
        "size": len(data),
        "firewalld": f"{data.first}-{data.last}",
        "sysctl": data.sysctl,
    }


def parse_range(text: object) -> PortRange:
    """Read ``50000-54095`` (firewalld) or ``50000 54095`` (kernel).

    Raises:
        ValueError: not two ports, in the wrong order, or outside 1024-65535.
    """
    found = parse_port_range(text)
    # one port is a valid range, but surely a mistake
    if found is None or str(text).strip().isdecimal() or found.first < LOWEST_PORT:
        raise ValueError(
            f"{str(text)!r} is not a range of ports within {LOWEST_PORT}-{HIGHEST_PORT}, lower end first."
            " Write it like 50000-54095"
        )
    return found


def parse_port(value: object) -> int:
    """Read a port that an unprivileged process may bind.

    Raises:
        ValueError: not a whole number between 1024 and 65535.
    """
    text = str(value)
    port = parse_decimal(text)
    if isinstance(value, bool) or port is None:
        raise ValueError(f"{text!r} is not a port number")
    if not LOWEST_PORT <= port <= HIGHEST_PORT:
        raise ValueError(f"{port} is not between {LOWEST_PORT} and {HIGHEST_PORT}")
    return port


def compute_smallest_size(local_ranks: int, process_groups: int) -> int:
    """Compute the ports that a node needs for ``local_ranks`` ranks with ``process_groups`` process groups each."""
    return max(SMALLEST_RANGE, PORTS_PER_RANK_AND_GROUP * local_ranks * process_groups)


def compute_all_to_all_size(local_ranks: int, world_size: int) -> int:
    """Compute the ports that a node needs if each rank talks to each rank elsewhere, with NCCL over InfiniBand.

    Each rank elsewhere needs a listener and a connection. With PXN, NCCL's default, one rank of a node sends for the
    others. Without it (NCCL_PXN_DISABLE=1), each rank needs its own, which is 8 times as many with 8 GPUs. 2,048
    ranks ran out of ports (NVIDIA/nccl#1882). ROCm/rccl#577 counts them.
    """
    return 2 * max(0, world_size - local_ranks)


def choose_default_range(local_ranks: int, process_groups: int, world_size: int = 0) -> PortRange:
    """Return the range for ``fullmesh_data_ports: auto``, with at least twice the ports that are needed.

    Raises:
        ValueError: no range between 32768 and 65535 holds so many ranks and groups.
    """
    need = 2 * compute_smallest_size(local_ranks, process_groups)
    # A range for the whole world is a wish, so it is cut to the available ports.
    wide = min(LARGEST_RANGE, 2 * compute_all_to_all_size(local_ranks, world_size))
    size = max(DEFAULT_SIZE, *(-(-ports // 1024) * 1024 for ports in (need, wide)))
    first = min(DEFAULT_FIRST, HIGHEST_PORT + 1 - size)
    if first < KERNEL_FIRST:
        raise ValueError(
            f"{local_ranks} ranks on a node with {process_groups} process groups need {size} ports"
        )
    return PortRange(first, first + size - 1)
