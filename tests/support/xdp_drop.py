"""Attach an XDP program that drops TCP to a range of ports, or take it away: ``xdp_drop.py CARD FIRST LAST on|off``.

The program is put together here, one instruction of BPF after the other: no compiler is needed, and no library.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
PROG_LOAD, KIND_XDP = 5, 6
ATTRIBUTES = 128
RTM_SETLINK, REQUEST_WITH_ANSWER = 19, 5
IFLA_XDP, IFLA_XDP_FD, NESTED = 43, 1, 0x8000
DROP, PASS = 1, 2
# Of a frame: type at 12, protocol of an IPv4 header without options at 23, destination port at 36, which ends at 38.
IPV4, TCP = 0x0008, 6  # the type as a little-endian machine loads it


def pack_instruction(op: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
    """One instruction: linux/bpf.h, struct bpf_insn."""
    return struct.pack("=BBhi", op, dst | src << 4, off, imm)


def build_program(first: int, last: int) -> bytes:
    """Drop IPv4 TCP to the ports from *first* to *last*, pass all else."""
    steps: list[bytes | tuple[int, int, int, int]] = [
        pack_instruction(0x61, 2, 1, 0),  # r2 = the frame
        pack_instruction(0x61, 3, 1, 4),  # r3 = its end
        pack_instruction(0xBF, 4, 2),
        pack_instruction(0x07, 4, imm=38),
        (0x2D, 4, 3, 0),  # too short
        pack_instruction(0x69, 5, 2, 12),
        (0x55, 5, 0, IPV4),
        pack_instruction(0x71, 5, 2, 23),
        (0x55, 5, 0, TCP),
        pack_instruction(0x69, 5, 2, 36),
        pack_instruction(0xDC, 5, imm=16),  # to this machine's order
        (0xA5, 5, 0, first),
        (0x25, 5, 0, last),
        pack_instruction(0xB7, 0, imm=DROP),
        pack_instruction(0x95),
        pack_instruction(0xB7, 0, imm=PASS),
        pack_instruction(0x95),
    ]
    passes = len(steps) - 2
    return b"".join(
        one
        if isinstance(one, bytes)
        else pack_instruction(one[0], one[1], one[2], passes - place - 1, one[3])
        for place, one in enumerate(steps)
    )


def load_program(code: bytes) -> int:
    """The program in the kernel, as a file descriptor."""
    text = ctypes.create_string_buffer(code)
    licence = ctypes.create_string_buffer(b"GPL")
    given = struct.pack(
        "=IIQQ",
        KIND_XDP,
        len(code) // 8,
        ctypes.addressof(text),
        ctypes.addressof(licence),
    ).ljust(ATTRIBUTES, b"\0")
    attributes = ctypes.create_string_buffer(given)
    call = ctypes.CDLL(None, use_errno=True).syscall
    found: int = call(
        BPF_SYSCALL[os.uname().machine], PROG_LOAD, ctypes.byref(attributes), ATTRIBUTES
    )
    if found < 0:
        raise OSError(ctypes.get_errno(), "bpf(PROG_LOAD)")
    return found


def attach_program(card: str, program_fd: int) -> None:
    """Give a card a program; -1 takes it away."""
    inner = struct.pack("=HHi", 8, IFLA_XDP_FD, program_fd)
    nest = struct.pack("=HH", 4 + len(inner), IFLA_XDP | NESTED) + inner
    body = struct.pack("=BxHiII", 0, 0, socket.if_nametoindex(card), 0, 0) + nest
    head = struct.pack("=IHHII", 16 + len(body), RTM_SETLINK, REQUEST_WITH_ANSWER, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.bind((0, 0))
        kernel.send(head + body)
        error = struct.unpack_from("=i", kernel.recv(4096), 16)[0]
    if error:
        raise OSError(-error, "RTM_SETLINK")


if __name__ == "__main__":
    name, lowest, highest, what = sys.argv[1:]
    attach_program(
        name, load_program(build_program(int(lowest), int(highest))) if what == "on" else -1
    )
