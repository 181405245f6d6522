"""Parse and edit chrony's configuration, and judge its state: text in, text or data out.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .files import SPACE, split_lines, split_whole_lines, split_words

if TYPE_CHECKING:
    from .tools.chronyc import ChronySource, ChronyTracking

HEAD = "# Ansible managed: role time_sync of Fullmesh; changes made here are lost."
BEGIN = "# BEGIN Fullmesh, role time_sync (changes between the marks are lost)"
END = "# END Fullmesh"
MUTED = "# Fullmesh, time_sync_only: "
# chrony.conf(5): directives for sources, and for directories with further sources (from DHCP or the distribution).
SOURCES = ("server", "pool", "peer", "sourcedir", "initstepslew")
CAP_SYS_TIME = 25  # capabilities(7), linux/capability.h


def list_confdirs(text: str) -> list[str]:
    """Return the directories whose *.conf files this configuration reads (chrony.conf(5), confdir)."""
    found: list[str] = []
    for line in split_lines(text):
        fields = split_words(line.split("#", 1)[0])
        if fields and fields[0].lower() == "confdir":
            found += [field.rstrip("/") for field in fields[1:]]
    return found


def remove_chrony_block(text: str) -> str:
    """Return the configuration without Fullmesh's block."""
    lines, inside = [], False
    for line in split_lines(text):
        mark = line.rstrip("\r")  # an editor may have given the whole file other line ends
        if mark == BEGIN:
            inside = True
        elif mark == END and inside:
            inside = False
        elif not inside:
            lines.append(line)
    return "\n".join(lines) + "\n" if lines else ""


def set_sources_muted(text: str, only: bool) -> str:
    """Return the configuration with others' sources commented out, or with Fullmesh's comments reverted."""
    lines = []
    for line in split_whole_lines(text):
        own = line[len(MUTED) :] if line.startswith(MUTED) else line
        names_source = split_words(own, 1)[:1] and split_words(own, 1)[0].lower() in SOURCES
        lines.append(MUTED + own if only and names_source else own)
    return "".join(lines)


def build_chrony_files(
    config: str, text: str, drop_ins: list[str], lines: list[str], only: bool = False
) -> dict[str, str]:
    """Return the wanted files: {path: content, empty for absent}.

    Uses a drop-in if *text* reads its directory.

    *only*: *lines* are the only sources.
    """
    read = list_confdirs(text)
    usable = [path for path in drop_ins if path.rsplit("/", 1)[0] in read]
    files = dict.fromkeys(drop_ins, "")
    if BEGIN in [line.rstrip("\r") for line in split_lines(text)]:
        text = remove_chrony_block(text)
    text = set_sources_muted(text, only)
    files[config] = text
    if lines and usable:
        files[usable[0]] = "\n".join([HEAD, *lines]) + "\n"
    elif lines:
        files[config] = (
            "\n".join([remove_chrony_block(text).rstrip("\n"), BEGIN, *lines, END]) + "\n"
        )
    return files


def explain_unsynchronised(
    tracking: ChronyTracking, sources: list[ChronySource], expected: list[str]
) -> str:
    """Return why the clock is not synchronized as expected, or "".

    One of the *expected* addresses must answer. Without any, every source is accepted, including chrony's own clock
    (``local``).
    """
    if tracking["leap"] == "no answer":
        return "chronyd does not answer"
    heard = [one["address"] for one in sources if one["reach"]]
    if expected and not set(expected) & set(heard):
        return "no answer yet from {} (answering: {})".format(
            ", ".join(expected),
            ", ".join(heard) or "none",
        )
    if tracking["leap"] == "Not synchronised":
        seen = ["{} {}".format(one["address"], one["state"]) for one in sources]
        return "the clock follows no source yet (sources: %s)" % (", ".join(seen) or "none")
    return ""


def can_set_clock(status: str, uid_map: str, bounding: str) -> bool:
    """Return whether chronyd may set the clock here.

    Args:
        status: /proc/1/status. A container's bounding set may lack CAP_SYS_TIME.
        uid_map: /proc/1/uid_map. In a user namespace the kernel refuses regardless of the set.
        bounding: the unit's own CapabilityBoundingSet, as systemctl shows it.
    """
    for line in split_lines(status):
        if line.startswith("CapBnd:") and not int(split_words(line)[1], 16) >> CAP_SYS_TIME & 1:
            return False
    if split_words(uid_map) not in ([], ["0", "0", "4294967295"]):
        return False
    return not bounding or "cap_sys_time" in split_words(bounding)


def find_chronyd_command(unit: str) -> str:
    """Return the value of the last ExecStart in ``systemctl cat``, with its prefix.

    Empty if a script starts chronyd.

    Ubuntu's script adds -x itself.
    """
    lines = [
        line.split("=", 1)[1].strip(SPACE)
        for line in split_lines(unit)
        if line.startswith("ExecStart=")
    ]
    command = [line for line in lines if line][-1:]
    return "".join(one for one in command if one.lstrip("!+-@:").startswith("/usr/sbin/chronyd "))


def render_unit_drop_in(command: str) -> str:
    """Render a drop-in that starts chronyd without setting the clock. In a container, the host sets it."""
    lines = [
        "[Unit]",
        "ConditionCapability=",
        "[Service]",
        "ExecStart=",
        "ExecStart=" + command + " -x",
    ]
    return "\n".join([HEAD, *lines]) + "\n"
