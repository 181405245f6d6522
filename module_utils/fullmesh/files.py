"""Files of the node: read, summed up, and replaced in one step that leaves nothing of itself behind.

Runs on nodes: standard library only. The transactions have a writer of their own, in
the transactions' engine: that file has to work alone, at a boot without Ansible.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import tempfile

CONTEXT = "security.selinux"  # xattr(7)
BLOCK = 1 << 20
KEEP_OWNER = (-1, -1)  # chown(2): an ID of -1 stays


def read(path: str) -> str:
    """Return all of a text, empty where there is no file; it survives being written again, byte for byte.

    What is not UTF-8 does, and so do the line ends of other systems, which Python would make line feeds of.

    Raises:
        OSError: it is there and cannot be read, so nobody takes it for empty and writes over it.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def lines_of(text: str) -> list[str]:
    """Return the lines of a configuration file without their ends.

    Its readers end a line with a line feed and nothing else; str.splitlines() has nine others, and would make an entry
    of what stands behind a form feed in a comment.
    """
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def whole_lines(text: str) -> list[str]:
    """Return the same with their ends, so that they make up the text."""
    return [line + "\n" for line in text.split("\n")[:-1]] + [
        line for line in text.split("\n")[-1:] if line
    ]


def look(path: str) -> str:
    """Return a text that is only looked at: empty where it cannot be read, as of a process that has ended."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def sha256(path: str) -> str:
    """Return the checksum of a file that may be large."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def read_context(path: str) -> str:
    """Return the SELinux context, empty where there is none."""
    try:
        return os.getxattr(path, CONTEXT).decode().rstrip("\0")
    except (OSError, UnicodeDecodeError):
        return ""


def dress(path: str, mode: int, owner: tuple[int, int] = KEEP_OWNER, context: str = "") -> None:
    """Give a file a mode, an owner (uid, gid) and an SELinux context."""
    info = os.stat(path)
    if owner not in (KEEP_OWNER, (info.st_uid, info.st_gid)):
        os.chown(path, *owner)
    os.chmod(path, mode)
    label(path, context)


def label(path: str, context: str) -> None:
    """Give a file an SELinux context, where one is named and it has another."""
    if context and read_context(path) != context:
        os.setxattr(path, CONTEXT, context.encode())


def sync_directory(path: str) -> None:
    """Make a rename survive a power cut (fsync(2): the file's own does not reach its name)."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put(
    path: str,
    data: str | bytes,
    mode: int | None = None,
    owner: tuple[int, int] | None = None,
    context: str = "",
) -> None:
    """Replace a file in one step, or write through it where it is a mount point (a container's /etc/hosts).

    Whoever reads meanwhile sees the old content or the new one; on a full disk the old one stays and nothing lies
    beside it.

    Args:
        path: the file; the folders above it are made (0755).
        data: text, or bytes.
        mode: None for what the file had, 0644 where there was none.
        owner: uid and gid; None for what the file had.
        context: of SELinux; "" for what the file had, or what its folder gives.

    Raises:
        OSError: it cannot be written; the file is as it was, unless it is a mount point.
    """
    content = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    kept = ""
    if os.path.isfile(path):
        info = os.stat(path)
        mode = stat.S_IMODE(info.st_mode) if mode is None else mode
        owner = (info.st_uid, info.st_gid) if owner is None else owner
    kept = "" if context else read_context(path)
    clothes = (0o644 if mode is None else mode, owner or KEEP_OWNER, context)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder, 0o755)
    handle, aside = tempfile.mkstemp(prefix=".fullmesh-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            dress(aside, *clothes)
            with contextlib.suppress(OSError):  # a container may not give what its host gave
                label(aside, kept)
            os.fsync(stream.fileno())
        try:
            os.rename(aside, path)
        except OSError as exc:
            if exc.errno not in (errno.EBUSY, errno.EXDEV):
                raise
            write_through(path, content)
            dress(path, *clothes)
        sync_directory(folder)
    finally:
        if os.path.lexists(aside):
            os.unlink(aside)


def write_through(path: str, content: bytes) -> None:
    """Write into the file that is there."""
    with open(path, "r+b") as stream:
        stream.write(content)
        stream.truncate()
        stream.flush()
        os.fsync(stream.fileno())


def settle(path: str, text: str) -> None:
    """Replace a file, or remove it where there is no text for it."""
    if text:
        put(path, text)
    elif os.path.lexists(path):
        os.unlink(path)
