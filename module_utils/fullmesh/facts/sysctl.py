# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Kernel settings of a node: the running values, and the files that set them at boot. Standard library only."""

from __future__ import annotations

import errno
import os

from ..files import split_words

# sysctl.d(5): a file in an earlier directory hides others of the same name. The rest is sorted by name.
DIRECTORIES = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
# sysctl(8) --system reads it last. systemd reads it through the link 99-sysctl.conf, if the distribution has that.
LAST_FILE = "/etc/sysctl.conf"


def sysctl_key_to_path(key: str) -> str:
    """Return a key's path below /proc/sys.

    ``net/ipv4/conf/eth0.1/x`` and ``net.ipv4.conf.eth0/1.x`` are the same.
    """
    dot, slash = key.find("."), key.find("/")
    if slash != -1 and (dot == -1 or slash < dot):
        return key
    return key.translate({ord("."): "/", ord("/"): "."})


def normalize_value(value: object) -> str:
    """Return a value with single blanks: the kernel prints tabs between several numbers."""
    return " ".join(split_words(str(value)))


class SysctlNode:
    """The node. Tests use another root."""

    def __init__(self, root: str = "/") -> None:
        self.root = root.rstrip("/")

    def at(self, path: str) -> str:
        """Return the local path of a path on the node."""
        return self.root + path

    def text(self, path: str) -> str | None:
        """Return a file's text, or None if there is none."""
        try:
            with open(self.at(path), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return None

    def value(self, key: str) -> str | None:
        """Return the running kernel's value, or None if the key is missing or hidden."""
        text = self.text("/proc/sys/" + sysctl_key_to_path(key))
        return None if text is None else normalize_value(text)

    def why_not(self, key: str) -> str:
        """Return why a key cannot be written here, or "". Writes nothing."""
        path = self.at("/proc/sys/" + sysctl_key_to_path(key))
        if not os.path.exists(path):
            return "absent"
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as exc:
            return f"readonly ({errno.errorcode.get(exc.errno or 0, str(exc.errno))})"
        return ""

    def write(self, key: str, value: str) -> str:
        """Write a value. Return the name of the kernel's error, or ""."""
        try:
            with open(self.at("/proc/sys/" + sysctl_key_to_path(key)), "w") as stream:
                stream.write(value + "\n")
        except OSError as exc:
            return str(errno.errorcode.get(exc.errno or 0, str(exc.errno)))
        return ""

    def boot_files(self) -> list[str]:
        """List the files that systemd-sysctl reads at boot, in the order of their effect (sysctl.d(5))."""
        names: dict[str, str] = {}
        for directory in reversed(DIRECTORIES):
            try:
                entries = os.listdir(self.at(directory))
            except OSError:
                continue
            names.update((name, directory + "/" + name) for name in entries if name[-5:] == ".conf")
        return [names[name] for name in sorted(names)]

    def conf_files(self) -> list[str]:
        """Return the files that set kernel values, in the order of their effect."""
        files = self.boot_files()
        return [*files, LAST_FILE] if os.path.exists(self.at(LAST_FILE)) else files

    def is_container(self) -> bool:
        """Return whether this is a container, which shares its host's kernel."""
        if os.path.exists(self.at("/run/systemd/container")):
            return True
        return "container=" in (self.text("/proc/1/environ") or "")
