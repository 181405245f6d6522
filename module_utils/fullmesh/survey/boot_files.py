# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Parse the files that a boot uses. Without side effects. Standard library only."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, TypedDict

from ..facts.sysctl import sysctl_key_to_path
from ..files import SPACE, split_lines, split_words
from ..foreign_text import parse_decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..schema.next_boot import CurrentMount, KeptMount

    Reader = Callable[[str], str]
    Lister = Callable[[str], list[str]]

# File systems that several nodes share and jobs read data from. An automounter restores its own mounts.
KINDS = frozenset(
    (
        *("nfs", "nfs4", "lustre", "beegfs", "gpfs", "ceph", "cifs", "glusterfs", "fuse.glusterfs"),
        *("fuse.juicefs", "wekafs", "panfs", "orangefs", "virtiofs", "9p", "autofs"),
    )
)
SHM = "/dev/shm"  # noqa: S108 (a mount point's name)
UNITS_OF = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# Words that request a lease in NetworkManager, networkd, netplan, ifcfg and ifupdown.
LEASE = re.compile(
    r"^\s*(?:method\s*=\s*auto|DHCP\s*=\s*(?:yes|true|ipv4|ipv6)|BOOTPROTO\s*=\s*[\"']?(?:dhcp|bootp)"
    r"|iface\s+\S+\s+inet6?\s+(?:dhcp|auto))|dhcp[46]\s*:\s*(?:true|yes|on)",
    re.MULTILINE | re.IGNORECASE | re.ASCII,
)
# A file without an interface name, or for a kind of interface, may be for any: a match of networkd or netplan, a
# keyfile for all.
FOR_MANY = re.compile(
    r"^\s*Name\s*=.*[*?]|^\s*(?:Type|Driver|Kind)\s*=|\bmatch\s*:", re.MULTILINE | re.ASCII
)
NFT_TABLE = re.compile(
    r"^\s*(?:add\s+|create\s+)?table\s+(?:(ip6?|inet|arp|bridge|netdev)\s+)?([\w.-]+)\s*(?:\{|;|$)",
    re.MULTILINE | re.ASCII,
)
NFT_INCLUDE = re.compile(r"^\s*include\s+\"([^\"]+)\"", re.MULTILINE | re.ASCII)
NFT_COMMENT = re.compile(r"#[^\n]*")
BLS, GRUBENV = "/boot/loader/entries/*.conf", "/boot/grub2/grubenv"
GRUB_CFG, GRUB_DEFAULT = "/boot/grub/grub.cfg", "/etc/default/grub"
FSTAB_FIELDS = 4  # source, mount point, type, options


class SysctlOption(TypedDict):
    """A setting of a sysctl.d file. ``value`` is None if the line only excludes a key from the patterns."""

    value: str | None
    source: str


class BootEntry(TypedDict):
    """The boot loader's next entry."""

    version: str
    arguments: str
    source: str


# --- kernel settings


def parse_sysctl_files(rows: Iterable[tuple[str, str]]) -> dict[str, SysctlOption]:
    """Return the settings of sysctl.d files as systemd-sysctl applies them: key or pattern -> its last value.

    Args:
        rows: path and text of each file, in the order of reading.
    """
    found: dict[str, SysctlOption] = {}
    for path, text in rows:
        for raw in split_lines(text):
            line = raw.strip(SPACE)
            if not line or line[0] in "#;":
                continue
            key, equals, value = line.partition("=")
            key = key.strip(SPACE)
            if not equals and not key.startswith("-"):
                continue  # systemd reports that it is no setting, and continues
            name = sysctl_key_to_path(key.lstrip("-").strip(SPACE))
            option: SysctlOption = {"value": value.strip(SPACE) if equals else None, "source": path}
            if name in found and found[name]["value"] == option["value"]:
                continue  # a repeated key keeps its place in the order
            found.pop(name, None)
            found[name] = option
    return found


def find_boot_setting(key: str, settings: dict[str, SysctlOption]) -> tuple[str, str]:
    """Return the value that a key gets, and the file, or two empty texts.

    A named key wins over patterns in any order. Of patterns, the last one wins.
    """
    name = sysctl_key_to_path(key)
    if name in settings:
        own = settings[name]
        return ("", "") if own["value"] is None else (own["value"], own["source"])
    value, source = "", ""
    for pattern, option in settings.items():
        if option["value"] is not None and is_matching_key(name, pattern):
            value, source = option["value"], option["source"]
    return value, source


def is_matching_key(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a path below /proc/sys. A star does not match slashes, as in glob(7)."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(
        fnmatch.fnmatchcase(part, one) for part, one in zip(parts, wanted)
    )


def find_tuned_keys(read: Reader, listed: Lister) -> list[str]:
    """Return the kernel settings that tuned's active profile and its parents set after sysctl.d."""
    todo, done, keys = split_words(read("/etc/tuned/active_profile")), set(), set()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        places = [
            f"{base}/{name}/tuned.conf"
            for base in ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
        ]  # fmt: skip
        path = next((place for place in places if listed(place)), "")
        section = ""
        for raw in split_lines(read(path)) if path else []:
            line = raw.strip(SPACE)
            if line.startswith("["):
                section = line.strip("[]")
            elif "=" in line and not line.startswith("#"):
                key, value = (part.strip(SPACE) for part in line.split("=", 1))
                if section == "main" and key == "include":
                    todo += split_words(value.replace(",", " "))
                elif section == "sysctl":
                    keys.add(key)
    return sorted(keys)


# --- units and limits


def list_system_drop_ins(listed: Lister) -> list[str]:
    """Return the drop-ins of systemd's own configuration, in the order of reading."""
    folders = ("/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd")
    names: dict[str, str] = {}
    for folder in folders:
        for path in listed(folder + "/system.conf.d/*.conf"):
            names[path.rpartition("/")[2]] = path
    return [names[name] for name in sorted(names)]


def parse_manager_limits(text: str) -> dict[str, str]:
    """Parse the hard limits in DefaultLimit...= of a file."""
    found = {}
    for raw in split_lines(text):
        key, equals, value = raw.strip(SPACE).partition("=")
        if equals and key.strip(SPACE).startswith("DefaultLimit"):
            found[key.strip(SPACE)] = format_unit_limit(value.strip(SPACE).rpartition(":")[2])
    return found


def format_unit_limit(text: str) -> str:
    """Format a limit like systemctl: bytes, or infinity."""
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)i?B?", text.strip(SPACE), re.IGNORECASE | re.ASCII)
    return str(int(found[1]) * UNITS_OF[found[2].lower()]) if found else text.strip(SPACE)


# --- addresses


def is_about_interface(text: str, interface: str, mac: str) -> bool:
    """Return whether a network configuration file may be about an interface."""
    if (
        re.search(rf"(?<![\w.-]){re.escape(interface)}(?![\w.-])", text, re.ASCII)
        or mac.lower() in text.lower()
    ):
        return True
    keyfile = "[connection]" in text and "interface-name" not in text and "mac-address" not in text
    return keyfile or bool(FOR_MANY.search(text))


def needs_address_lease(text: str) -> bool:
    """Return whether a file requests addresses by DHCP or similar."""
    return bool(LEASE.search(text))


# --- packet filter


def read_nft_file(path: str, read: Reader, listed: Lister) -> str:
    """Return an nft file with its includes, without comments."""
    text = NFT_COMMENT.sub("", read(path))
    more = [one for pattern in NFT_INCLUDE.findall(text) for one in sorted(listed(pattern))]
    return "\n".join([text, *(NFT_COMMENT.sub("", read(one)) for one in more)])


def parse_nft_tables(text: str) -> list[str]:
    """Return the tables that a file creates, such as ``inet filter``. Without a family it is ip, as in nft."""
    return sorted({f"{family or 'ip'} {name}" for family, name in NFT_TABLE.findall(text)})


def has_nft_drops(text: str) -> bool:
    """Return whether a file has a rule or policy that drops or rejects packets."""
    return bool(re.search(r"\b(?:drop|reject)\b", text, re.ASCII))


# --- mounts


def parse_mount(line: str) -> CurrentMount | None:
    """Parse a line of /proc/self/mounts."""
    fields = split_words(line)
    if len(fields) < FSTAB_FIELDS:
        return None
    what, point, kind, options = fields[:FSTAB_FIELDS]
    return {
        "point": unescape_mount(point),
        "kind": kind,
        "what": unescape_mount(what),
        "size": parse_tmpfs_size(options),
    }


def find_boot_mounts(text: str, now: str, read: Reader, listed: Lister) -> list[KeptMount]:
    """Return the mounts of the next boot: fstab(5), and mount units.

    Args:
        text: of fstab.
        now: of /proc/self/mounts.
        read: gives a file's text.
        listed: gives the paths that a pattern finds.
    """
    held = {one["point"] for one in map(parse_mount, split_lines(now)) if one}
    found: list[KeptMount] = []
    for line in split_lines(text):
        one = None if line.strip(SPACE).startswith("#") else parse_mount(line)
        if one and one["kind"] != "swap" and one["point"].startswith("/"):
            waits = not {"noauto", "nofail", "x-systemd.automount"} & set(
                split_words(line)[3].split(",")
            )
            mounted = one["point"] in held
            found.append({**one, "source": "/etc/fstab", "waits": waits, "mounted": mounted})
    for path in listed("/etc/systemd/system/*.mount"):
        unit = dict(line.split("=", 1) for line in split_lines(read(path)) if "=" in line)
        point = unit.get("Where", "").strip(SPACE)
        if point:  # a link to /dev/null masks a unit
            found.append(
                {
                    "point": point,
                    "kind": unit.get("Type", "").strip(SPACE),
                    "what": unit.get("What", "").strip(SPACE),
                    "size": parse_tmpfs_size(unit.get("Options", "")),
                    "source": path,
                    "waits": False,
                    "mounted": point in held,
                }
            )
    return found


def unescape_mount(text: str) -> str:
    r"""Decode a name in fstab or mounts, in which blanks are ``\040``."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def parse_tmpfs_size(options: str) -> int:
    """Return ``size=`` of a tmpfs in bytes, 0 without one or if it is a share of the memory."""
    found = re.search(r"(?:^|,)size=(\d+)([kmgt]?)(?:,|$)", options, re.IGNORECASE | re.ASCII)
    return int(found[1]) * UNITS_OF[found[2].lower()] if found else 0


# --- kernel


def parse_selinux_mode(text: str) -> str:
    """Return SELINUX= from its configuration, or ""."""
    found = re.findall(r"^\s*SELINUX\s*=\s*(\w+)", text, re.MULTILINE | re.ASCII)
    return str(found[-1]) if found else ""


def find_next_boot_entry(read: Reader, listed: Lister) -> BootEntry | None:
    """Return the kernel that boots next: from boot loader entries (EL), or from GRUB's menu (Debian)."""
    entries = listed(BLS)
    if entries:
        return find_bls_entry(read(GRUBENV), [(path, read(path)) for path in entries])
    return find_grub_entry(read(GRUB_CFG), read(GRUB_DEFAULT))


def find_bls_entry(environment: str, entries: Sequence[tuple[str, str]]) -> BootEntry | None:
    """Return the saved default entry, or the newest one."""
    known = dict(line.split("=", 1) for line in split_lines(environment) if "=" in line)
    chosen = [one for one in entries if strip_conf_suffix(one[0]) == known.get("saved_entry")]
    rescue = [one for one in entries if "-0-rescue" not in one[0]]
    path, text = max(
        chosen or rescue or entries, key=lambda one: version_to_key(strip_conf_suffix(one[0]))
    )
    fields = {}
    for line in split_lines(text):
        name, _, value = line.strip(SPACE).partition(" ")
        fields[name] = value.strip(SPACE)
    words = " ".join(
        known.get(word[1:], "") if word.startswith("$") else word
        for word in split_words(fields.get("options", ""))
    )
    return {"version": fields.get("version", "").strip(SPACE), "arguments": words, "source": path}


def strip_conf_suffix(path: str) -> str:
    """Return a file's name without ``.conf``."""
    return path.rpartition("/")[2][: -len(".conf")]


def version_to_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key: numbers by their value, other parts by their letters."""
    return [
        (0, 0, part) if part.isalpha() else (1, parse_decimal(part) or 0, part)
        for part in re.findall(r"[0-9]+|[A-Za-z]+", name)
    ]


def find_grub_entry(menu: str, default: str) -> BootEntry | None:
    """Return the first entry of GRUB's menu, if the default was not changed."""
    chosen = re.findall(
        r"^\s*GRUB_DEFAULT\s*=\s*[\"']?([^\"'\n]*)", default, re.MULTILINE | re.ASCII
    )
    first = re.search(
        r"^\s*linux\S*\s+(\S*/vmlinuz-(\S+))\s*([^\n]*)", menu, re.MULTILINE | re.ASCII
    )
    if not first or (chosen and chosen[-1].strip(SPACE) != "0"):
        return None
    words = " ".join(word for word in split_words(first[3]) if not word.startswith("$"))
    return {"version": first[2], "arguments": words, "source": GRUB_CFG}
