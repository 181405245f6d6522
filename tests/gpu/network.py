"""Two network namespaces with a cable between them, made by the kernel's own calls: no iproute2, no nft.

Without veth there is one namespace for both ranks, with a loopback; without namespaces there is the machine's own.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable

NEW_NETWORK = 0x40000000  # CLONE_NEWNET, linux/sched.h
SET_FLAGS, SET_ADDRESS, SET_NETMASK = 0x8914, 0x8916, 0x891C  # linux/sockios.h
UP = 1
# linux/rtnetlink.h, linux/if_link.h, linux/veth.h
NEW_LINK, REQUEST, ERROR = 16, 0x1 | 0x4 | 0x200 | 0x400, 2  # request, ack, exclusive, create
NAME, LINK_INFO, OTHER_NETWORK, KIND, DATA, PEER = 3, 18, 19, 1, 2, 1
CABLE, ADDRESSES, MASK = "fm0", ("192.0.2.1", "192.0.2.2"), "255.255.255.252"
HOLD = (
    "import ctypes, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    f"print(ctypes.get_errno() if libc.unshare({NEW_NETWORK}) else 0, flush=True)\nsys.stdin.read()"
)


def pack_attribute(kind: int, value: bytes) -> bytes:
    """Pack an attribute of rtnetlink(7)."""
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def make_cable(other: int) -> None:
    """Connect this network namespace with that of process *other*.

    Raises:
        OSError: this kernel makes no veth, or not for us.
    """
    name = pack_attribute(NAME, CABLE.encode() + b"\0")
    away = bytes(16) + name + pack_attribute(OTHER_NETWORK, struct.pack("=I", other))
    kind = pack_attribute(KIND, b"veth") + pack_attribute(DATA, pack_attribute(PEER, away))
    body = bytes(16) + name + pack_attribute(LINK_INFO, kind)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), NEW_LINK, REQUEST, 1, 0) + body)
        answer = kernel.recv(4096)
    code = -struct.unpack_from("=i", answer, 16)[0]
    if code:
        raise OSError(code, f"a pair of veth: {os.strerror(code)}")


def set_link(name: str, *, up: bool, address: str = "") -> None:
    """Switch an interface of this network namespace on or off, and set its address (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for call, value in ((SET_ADDRESS, address), (SET_NETMASK, MASK)) if address else ():
            packed = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(sock, call, struct.pack("=16s16s8x", name.encode(), packed))
        fcntl.ioctl(sock, SET_FLAGS, struct.pack("=16sH22x", name.encode(), UP * up))


def enter_network(pid: int) -> None:
    """Move this process into the network namespace of another one."""
    handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(handle, NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)


class NodePair:
    """Two nodes on this machine.

    Attributes:
        kind: ``veth``, ``loopback`` (one network for both) or ``machine`` (the machine's own loopback).
        why: why it is not ``veth``.
    """

    def __init__(self) -> None:
        """Start with no node."""
        self.kind, self.why = "veth", ""
        self.holders: list[subprocess.Popen[str]] = []

    def __enter__(self) -> NodePair:
        """Make both nodes and the cable."""
        try:
            for _ in ADDRESSES:
                self.hold()
        except OSError as exc:
            self.kind, self.why = "machine", f"no network namespace: {exc}"
            return self
        other = self.holders[1].pid
        try:
            self.inside(0, lambda: make_cable(other))
            for at, address in enumerate(ADDRESSES):
                self.inside(at, lambda: set_link("lo", up=True))
                self.inside(at, lambda one=address: set_link(CABLE, up=True, address=one))  # type: ignore[misc]
        except OSError as exc:
            self.kind, self.why = "loopback", str(exc)
            self.inside(0, lambda: set_link("lo", up=True))
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes that keep the namespaces; the kernel then removes the cable."""
        for one in self.holders:
            one.communicate("")

    def hold(self) -> None:
        """Start a process that keeps a network namespace."""
        words = [sys.executable, "-c", HOLD]
        one = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.holders.append(one)
        assert one.stdout is not None
        code = int(one.stdout.readline() or 1)
        if code:
            raise OSError(code, os.strerror(code))

    @property
    def interface(self) -> str:
        """Name the interface that carries the job."""
        return CABLE if self.kind == "veth" else "lo"

    @property
    def master(self) -> str:
        """Return the address of rank 0."""
        return ADDRESSES[0] if self.kind == "veth" else "127.0.0.1"

    def enter(self, node: int) -> None:
        """Move this process into a node's network; for ``preexec_fn``."""
        if self.kind != "machine":
            enter_network(self.holders[node if self.kind == "veth" else 0].pid)

    def inside(self, node: int, work: Callable[[], None]) -> None:
        """Call a function on a node.

        Raises:
            OSError: it failed there.
        """
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                self.enter(node)
                work()
            except BaseException as exc:
                os.write(write, str(exc).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as stream:
            error = stream.read().decode()
        if error:
            raise OSError(error)

    def cut(self) -> None:
        """Take node 2's end of the cable down, so that nothing gets through.

        Raises:
            OSError: there is none that is ours alone.
        """
        if self.kind == "machine":
            raise OSError("the machine's own loopback is not ours to switch off")
        self.inside(len(ADDRESSES) - 1, lambda: set_link(self.interface, up=False))
