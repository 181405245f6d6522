# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Keep the last verdicts of this node, and the changes of its software, for `fullmesh-health`.

Equal verdicts that follow each other are one span. The file is bounded, replaced as a whole, and checked on reading.
"""

from __future__ import annotations

import calendar
import contextlib
import glob
import json
import os
import re
import tempfile
import time
from typing import TYPE_CHECKING

import fullmesh_check_node as check_node
from fullmesh_foreign_text import parse_decimal, parse_foreign_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HISTORY = "/var/lib/fullmesh/health/history.json"
SCHEMA = 1
MOST_BYTES = 1 << 20
MOST_SPANS, MOST_CHANGES, MOST_STATE = 100, 200, 400
MOST_TEXT, MOST_CODES = 500, 16
BEFORE_SECONDS = 24 * 3600  # changes in the day before a fault are shown with it
SHOWN, SHOWN_PACKAGES = 8, 6
LOG_BYTES = 64 << 10
PACKAGE_DATA = (
    "/var/lib/dpkg/status",
    "/var/lib/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
)
DPKG_LOG, DNF_LOG = "/var/log/dpkg.log", "/var/log/dnf.rpm.log"
BOOT, BIOS = "/proc/sys/kernel/random/boot_id", "/sys/class/dmi/id/bios_version"
DPKG = re.compile(
    r"([0-9-]{10} [0-9:]{8}) (install|upgrade|remove) (\S{1,100}) (\S{1,80}) (\S{1,80})"
)
DNF = re.compile(
    r"([0-9-]{10}T[0-9:]{8})([+-])([0-9]{2})([0-9]{2}) \S{1,20} (Installed|Upgrade|Erase): (\S{1,150})"
)
VERDICTS = {True: "fit", False: "not fit", None: "not checked"}


# --- the file -----------------------------------------------------------------------------------------


def make_empty_history() -> dict[str, Any]:
    """Return the history of a node without verdicts."""
    return {"schema": SCHEMA, "spans": [], "changes": [], "state": {}}


def read_history() -> dict[str, Any]:
    """Read the history. Entries that are damaged are left out."""
    found = make_empty_history()
    with contextlib.suppress(ValueError):
        data = parse_foreign_json(check_node.read_bytes(HISTORY, MOST_BYTES), most_bytes=MOST_BYTES)
        if isinstance(data, dict) and data.get("schema") == SCHEMA:
            spans, changes, state = (data.get(key) for key in ("spans", "changes", "state"))
            found["spans"] = [
                one for one in (spans if isinstance(spans, list) else []) if is_span(one)
            ][-MOST_SPANS:]
            found["changes"] = [
                one for one in (changes if isinstance(changes, list) else []) if is_change(one)
            ][-MOST_CHANGES:]
            found["state"] = {
                name: value
                for name, value in (state.items() if isinstance(state, dict) else ())
                if isinstance(value, str) and len(name) + len(value) <= 2 * MOST_TEXT
            }
    return found


def is_time(value: object) -> bool:
    """Return whether a value is a time in seconds."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40


def is_span(one: object) -> bool:
    """Return whether a value is a span of equal verdicts."""
    if not isinstance(one, dict) or not all(is_time(one.get(key)) for key in ("first", "last")):
        return False
    codes, text, fit, count = (one.get(key) for key in ("codes", "text", "fit", "count"))
    return (
        (fit is None or isinstance(fit, bool))
        and is_time(count)
        and isinstance(text, str)
        and len(text) <= MOST_TEXT
        and isinstance(codes, list)
        and len(codes) <= MOST_CODES
        and all(isinstance(code, str) for code in codes)
    )


def is_change(one: object) -> bool:
    """Return whether a value is a change of the software."""
    return (
        isinstance(one, dict)
        and is_time(one.get("time"))
        and isinstance(one.get("text"), str)
        and len(one["text"]) <= MOST_TEXT
    )


def make_folder() -> str:
    """Make the folder of the history, which only root can open. Return its path."""
    folder = os.path.dirname(HISTORY)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def replace_file(path: str, text: str, mode: int) -> None:
    """Replace a file as a whole.

    Raises:
        OSError: it cannot be written.
    """
    folder = os.path.dirname(path)
    # node_exporter reads *.prom, so the name ends differently
    handle, name = tempfile.mkstemp(prefix=".fullmesh-", suffix=".new", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


# --- the state of the software ------------------------------------------------------------------------


def observe_state() -> dict[str, str]:
    """Return the versions and files whose change can explain a fault."""
    found = {
        "boot": check_node.read_text(BOOT)[:36],
        "kernel": os.uname()[2],
        "NVIDIA driver": check_node.read_text(check_node.MODULE)[:50],
        "BIOS": check_node.read_text(BIOS)[:80],
    }
    for path in sorted(glob.glob(f"{check_node.RDMA}/*/fw_ver"))[:SHOWN]:
        name = os.path.basename(os.path.dirname(path))
        found[f"firmware of {name}"] = check_node.read_text(path)[:50]
    for path in PACKAGE_DATA:
        with contextlib.suppress(OSError):
            found["packages"] = str(int(os.stat(path).st_mtime))
    with contextlib.suppress(ValueError, KeyError, TypeError):
        manifest = parse_foreign_json(check_node.read_bytes(check_node.MANIFEST, MOST_BYTES))
        for path in sorted(manifest["state"]["file"])[: MOST_STATE - len(found)]:
            try:
                info = os.lstat(path)
                found[f"file {path}"] = f"{info.st_size} bytes of {int(info.st_mtime)}"
            except OSError:
                found[f"file {path}"] = "missing"
    return {name: value for name, value in found.items() if value}


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Describe the differences between two states."""
    found = []
    for name in sorted({*before, *now}):
        old, new = before.get(name, "none"), now.get(name, "none")
        if old == new:
            continue
        if name == "boot":
            found.append("the node restarted")
        elif name == "packages":
            found += list_package_changes(parse_decimal(old) or 0) or ["packages changed"]
        elif name.startswith("file "):
            verb = "is missing" if new == "missing" else "changed"
            found.append(f"{name} {verb}"[:MOST_TEXT])
        else:
            found.append(f"{name}: {old} -> {new}"[:MOST_TEXT])
    return found


def list_package_changes(since: int) -> list[str]:
    """Describe the packages that dpkg or dnf changed after a time, from the ends of their logs."""
    found = []
    for line in read_end(DPKG_LOG):
        match = DPKG.fullmatch(line.strip())
        if match:
            with contextlib.suppress(ValueError, OverflowError):
                when = time.mktime(time.strptime(match.group(1), "%Y-%m-%d %H:%M:%S"))
                if when > since:
                    found.append("{} {} {} -> {}".format(*match.groups()[1:]))
    for line in read_end(DNF_LOG):
        match = DNF.match(line)
        if match:
            sign = -1 if match.group(2) == "+" else 1
            offset = 3600 * int(match.group(3)) + 60 * int(match.group(4))
            with contextlib.suppress(ValueError, OverflowError):
                when = calendar.timegm(time.strptime(match.group(1), "%Y-%m-%dT%H:%M:%S"))
                if when + sign * offset > since:
                    found.append(f"{match.group(5).lower()} {match.group(6)}")
    more = len(found) - SHOWN_PACKAGES
    text = ", ".join(found[:SHOWN_PACKAGES]) + (f", and {more} more" if more > 0 else "")
    return [f"packages: {text}"[:MOST_TEXT]] if found else []


def read_end(path: str) -> list[str]:
    """Return the last lines of a file, [] if there is none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - LOG_BYTES))
            return stream.read(LOG_BYTES).decode("utf-8", "replace").splitlines()[1:]
    except OSError:
        return []


# --- verdicts -----------------------------------------------------------------------------------------


def add_verdict(
    history: dict[str, Any], document: Mapping[str, Any], state: Mapping[str, str], now: int
) -> bool:
    """Add a verdict to the history. Return whether it differs from the previous one."""
    if history["state"]:
        found = describe_changes(history["state"], state)
        history["changes"] += [{"time": now, "text": text} for text in found]
    history["state"] = dict(list(state.items())[:MOST_STATE])
    checks = document["checks"].values()
    codes = sorted({found["code"] for one in checks for found in one["findings"]})[:MOST_CODES]
    last = history["spans"][-1] if history["spans"] else None
    differs = last is None or (last["fit"], last["codes"]) != (document["fit"], codes)
    if last is None or differs:
        last = {"first": now, "count": 0, "fit": document["fit"], "codes": codes}
        history["spans"].append(last)
    last.update({"last": now, "count": last["count"] + 1, "text": document["text"][:MOST_TEXT]})
    history["spans"] = history["spans"][-MOST_SPANS:]
    history["changes"] = history["changes"][-MOST_CHANGES:]
    return differs


def format_time(seconds: int) -> str:
    """Return a time in the node's time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def describe_history(history: Mapping[str, Any]) -> list[str]:
    """Say since when the node has its verdict, what was before, and what changed before it."""
    if not history["spans"]:
        return ["no check is recorded"]
    *earlier, last = history["spans"]
    found = [
        f"{VERDICTS[last['fit']]} since {format_time(last['first'])} ({last['count']} checks, "
        f"the last at {format_time(last['last'])})"
    ]
    if last["fit"] is not True:
        found.append(last["text"])
    for one in reversed(earlier[-3:]):
        codes = f": {', '.join(one['codes'])}" if one["codes"] else ""
        found.append(
            f"before: {VERDICTS[one['fit']]} from {format_time(one['first'])} "
            f"to {format_time(one['last'])}{codes}"
        )
    begin, end = last["first"] - BEFORE_SECONDS, last["first"]
    changes = [one for one in history["changes"] if begin <= one["time"] <= end]
    if last["fit"] is not True:
        found += [
            f"changed by {format_time(one['time'])}: {one['text']}" for one in changes[-SHOWN:]
        ] or ["no recorded change in the day before"]
    return [check_node.clean_text(line) for line in found]


def render_metrics(document: Mapping[str, Any], history: Mapping[str, Any], now: int) -> str:
    """Render the verdict for node_exporter (Prometheus text format)."""
    checks = document["checks"]
    checked = {name: one for name, one in checks.items() if one["state"] in ("ok", "failed")}
    kinds: dict[str, bool] = {}
    for name, one in checked.items():  # mounts share a label, since their names are not bounded
        kind = name.split()[0]
        kinds[kind] = kinds.get(kind, True) and one["state"] == "ok"
    codes = sorted({found["code"] for one in checks.values() for found in one["findings"]})
    spans = history["spans"]
    rows: list[tuple[str, str, list[tuple[str, object]]]] = [
        ("fit", "1 if the node is fit for jobs, absent if it could not be checked", []),
        ("timestamp_seconds", "Time of the last check", [("", now)]),
        ("since_timestamp_seconds", "Time since which the verdict is the same", []),
        ("duration_seconds", "Duration of the last check", [("", document["seconds"])]),
        ("cpu_seconds", "CPU time of the last check", [("", document["cpu_seconds"])]),
        (
            "check_ok",
            "1 if a check found nothing",
            [(f'{{check="{kind}"}}', int(ok)) for kind, ok in kinds.items()],
        ),
        ("finding", "1 for each current finding", [(f'{{code="{one}"}}', 1) for one in codes]),
    ]
    if document["fit"] is not None:
        rows[0][2].append(("", int(document["fit"])))
    if spans:
        rows[2][2].append(("", spans[-1]["first"]))
    lines = []
    for name, text, values in rows:
        full = f"fullmesh_health_{name}"
        lines += [f"# HELP {full} {text}.", f"# TYPE {full} gauge"]
        lines += [f"{full}{label} {value}" for label, value in values]
    return "\n".join(lines) + "\n"


def write_history(history: Mapping[str, Any]) -> None:
    """Replace the history.

    Raises:
        OSError: it cannot be written.
    """
    make_folder()
    replace_file(HISTORY, json.dumps(history) + "\n", 0o600)
