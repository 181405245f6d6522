"""A file system in user space with one file in it, to be stopped: what stands for a network's whose server is gone.

    python3 stalled_files.py /mnt/data [SECONDS | never]

SECONDS is the time that a read takes (default 0). With "never", the size of the file system (statfs) is never answered,
and a process that asks for it cannot be killed.

Mounts (root), serves until it is killed. It is stopped with SIGSTOP, and then whoever reads ``/mnt/data/batch`` waits
in the kernel for an answer, as with sshfs, JuiceFS or GlusterFS. The kernel's protocol: linux/fuse.h, version 7.31. It
runs on nodes: the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR = (
    1,
    2,
    3,
    14,
    15,
    17,
    18,
    25,
    26,
    27,
    29,
)
ROOT, FILE, NAME, SIZE = 1, 2, b"batch", 1 << 20
DIRECT = 1  # FOPEN_DIRECT_IO: every read asks us, nothing comes out of the page cache
HEADER = struct.Struct("=IIQQIIII")  # len, opcode, unique, nodeid, uid, gid, pid, padding
ANSWER = struct.Struct("=IiQ")  # len, error, unique
NOT_THERE, NOT_KNOWN = 2, 38  # ENOENT, ENOSYS


def pack_attributes(node):
    """Struct fuse_attr of the directory or the file."""
    size, mode = (0, 0o40755) if node == ROOT else (SIZE, 0o100644)
    return struct.pack(
        "=QQQQQQIIIIIIIIII", node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
    )


def send_reply(opcode, node, body):
    """Error and data of an answer."""
    if opcode == INIT:
        return 0, struct.pack("=IIIIHHIIHH", 7, 31, 65536, 0, 8, 8, 65536, 1, 16, 0) + bytes(28)
    if opcode == LOOKUP:
        found = body.rstrip(b"\0") == NAME
        return (
            (0, struct.pack("=QQQQII", FILE, 0, 0, 0, 0, 0) + pack_attributes(FILE))
            if found
            else (-NOT_THERE, b"")
        )
    if opcode == GETATTR:
        return 0, struct.pack("=QII", 0, 0, 0) + pack_attributes(node)
    if opcode in (OPEN, OPENDIR):
        return 0, struct.pack("=QII", 0, DIRECT if opcode == OPEN else 0, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from("=QQI", body)
        return 0, b"\0" * min(size, max(0, SIZE - offset))
    return (0, b"") if opcode in (RELEASE, RELEASEDIR, FLUSH) else (-NOT_KNOWN, b"")


def main():
    """Mount and serve."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"stalled", sys.argv[1].encode(), b"fuse.stalled", 0, options):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    while True:
        try:
            asked = os.read(device, 1 << 20)
        except OSError:  # unmounted
            return
        _, opcode, unique, node, *_ = HEADER.unpack_from(asked)
        if opcode == FORGET or (opcode == STATFS and sys.argv[2:] == ["never"]):
            continue
        if opcode == READ and len(sys.argv) > 2:
            time.sleep(float(sys.argv[2]))
        error, data = send_reply(opcode, node, asked[HEADER.size :])
        os.write(device, ANSWER.pack(ANSWER.size + len(data), error, unique) + data)


if __name__ == "__main__":
    main()
