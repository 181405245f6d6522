"""Read, fingerprint and replace files on the node.

A replacement leaves no temporary files.

Runs on nodes: standard library only. The transaction engine has its own writer, because it has to work alone at boot
without Ansible.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import tempfile

from .account import act_in_folder

CONTEXT = "security.selinux"  # xattr(7)
BLOCK = 1 << 20
# White space for isspace(3) in the C locale. str.strip() without it also strips characters that are content for others.
SPACE = " \t\n\r\x0b\x0c"
KEEP_OWNER = (-1, -1)  # chown(2): an ID of -1 stays


def read_text_file(path: str) -> str:
    """Return a file's text, or "" if there is no file.

    Writing it again gives the same bytes.

    This includes bytes that are not UTF-8, and line ends of other systems, which Python would convert.

    Raises:
        OSError: it exists and is unreadable. It must not be treated as empty and overwritten.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def read_bytes(path: str) -> bytes:
    """Return all of a file.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    with open(path, "rb") as stream:
        return stream.read()


def split_lines(text: str) -> list[str]:
    """Return the lines of a configuration file without their ends.

    Only a line feed ends a line. str.splitlines() splits at nine other characters as well, and could turn text after a
    form feed in a comment into an entry.
    """
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def split_whole_lines(text: str) -> list[str]:
    """Return the lines with their line ends, so that joining them gives the text again."""
    return [line + "\n" for line in text.split("\n")[:-1]] + [
        line for line in text.split("\n")[-1:] if line
    ]


def split_words(text: str, most: int = -1) -> list[str]:
    """Split a text at white space as the readers of configuration files do. *most*: maximum of splits, -1 for all.

    str.split() also splits at 23 other Unicode characters, such as a no-break space, which are content.
    """
    words = re.split(f"[{SPACE}]+", text.lstrip(SPACE), maxsplit=max(most, 0))
    return words[:-1] if not words[-1] else words


def read_text_or_empty(path: str) -> str:
    """Return a file's text, or "" if it is unreadable, for example because its process has ended."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def hash_file(path: str) -> str:
    """Return the checksum of a file of any size."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def read_selinux_context(path: str | int) -> str:
    """Return the SELinux context of a path or a descriptor, empty if there is none."""
    try:
        return os.getxattr(path, CONTEXT).decode().rstrip("\0")
    except (OSError, UnicodeDecodeError):
        return ""


def set_file_attributes(
    handle: int, mode: int, owner: tuple[int, int] = KEEP_OWNER, context: str = ""
) -> None:
    """Set mode, owner (uid, gid) and SELinux context of an open file."""
    info = os.fstat(handle)
    if owner not in (KEEP_OWNER, (info.st_uid, info.st_gid)):
        os.fchown(handle, *owner)
    os.fchmod(handle, mode)
    set_selinux_context(handle, context)


def set_selinux_context(handle: int, context: str) -> None:
    """Set the SELinux context of an open file, if one is given and differs."""
    if context and read_selinux_context(handle) != context:
        os.setxattr(handle, CONTEXT, context.encode())


def fsync_directory(path: str) -> None:
    """Flush a directory, so that a rename survives a power cut.

    The fsync of a file does not cover its name (fsync(2)).
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file_atomically(
    path: str,
    data: str | bytes,
    mode: int | None = None,
    owner: tuple[int, int] | None = None,
    context: str = "",
) -> None:
    """Replace a file in one step, or overwrite it if it is a mount point (a container's /etc/hosts).

    Readers see the old or the new content. On a full disk the old content stays and no temporary file is left. In a
    folder of another account, this is done as that account, which also owns the file.

    Args:
        path: of the file. Missing parent folders are created (0755).
        data: text, or bytes.
        mode: None keeps the mode, 0644 for a new file.
        owner: uid and gid, None keeps them.
        context: of SELinux. "" keeps it, or uses the folder's default.

    Raises:
        OSError: it cannot be written. The file is unchanged, unless it is a mount point.
        ForeignFolderError: the folder is root's, and others can change it.
    """
    content = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    folder, name = os.path.split(path)
    make_folders(folder)
    act_in_folder(
        folder, lambda here: replace_file(os.path.join(here, name), content, mode, owner, context)
    )


def make_folders(folder: str) -> None:
    """Create missing folders (0755), each with the rights of the account that owns its parent."""
    above = folder
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    if above != folder:
        rest = os.path.relpath(folder, above)
        act_in_folder(above, lambda here: os.makedirs(os.path.join(here, rest), 0o755))


def replace_file(
    path: str, content: bytes, mode: int | None, owner: tuple[int, int] | None, context: str
) -> None:
    """Write a temporary file and rename it. Files that others can swap are only accessed by descriptor."""
    if os.path.isfile(path):
        info = os.stat(path)
        mode = stat.S_IMODE(info.st_mode) if mode is None else mode
        owner = (info.st_uid, info.st_gid) if owner is None else owner
    kept = "" if context else read_selinux_context(path)
    # an account can give no file away
    who = owner if owner and os.geteuid() == 0 else KEEP_OWNER
    wanted = (0o644 if mode is None else mode, who, context)
    folder = os.path.dirname(path)
    handle, aside = tempfile.mkstemp(prefix=".fullmesh-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            set_file_attributes(stream.fileno(), *wanted)
            with contextlib.suppress(
                OSError
            ):  # a container may not set the context that its host set
                set_selinux_context(stream.fileno(), kept)
            os.fsync(stream.fileno())
        try:
            os.rename(aside, path)
        except OSError as exc:
            if exc.errno not in (errno.EBUSY, errno.EXDEV):
                raise
            overwrite_file(path, content, wanted)
        fsync_directory(folder)
    finally:
        if os.path.lexists(aside):
            os.unlink(aside)


def overwrite_file(path: str, content: bytes, wanted: tuple[int, tuple[int, int], str]) -> None:
    """Overwrite an existing file, and set its attributes as `set_file_attributes` does."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    with os.fdopen(handle, "r+b") as stream:
        stream.write(content)
        stream.truncate()
        stream.flush()
        set_file_attributes(stream.fileno(), *wanted)
        os.fsync(stream.fileno())


def write_or_remove_file(path: str, text: str) -> None:
    """Replace a file, or remove it if *text* is empty."""
    if text:
        write_file_atomically(path, text)
    elif os.path.lexists(path):
        os.unlink(path)
