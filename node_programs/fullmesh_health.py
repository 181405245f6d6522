# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Record checks of this node, and keep a node that is not fit out of Slurm's jobs.

    fullmesh-health record         check the node, and record the verdict (a timer starts it)
    fullmesh-health history        since when the node is fit or not, and what changed before
    fullmesh-health slurm-prolog   Slurm's Prolog, slurm-epilog its Epilog, slurm-check its HealthCheckProgram

Exit status of `record`: that of fullmesh-check. Of `slurm-*`: 1 if the node is not fit, else 0.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import fullmesh_check
import fullmesh_check_links as check_links
import fullmesh_check_node as check_node
import fullmesh_health_history as health_history
from fullmesh_check_node import NoCheckError
from fullmesh_foreign_text import list_objects, parse_foreign_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

SETTINGS = "/etc/fullmesh/health.json"
DEFAULTS: dict[str, Any] = {
    "levels": ["node", "links"],
    "textfile_dir": "",
    "webhook_url": "",
    "slurm_resume": True,
}
USUAL_FOLDER = "/var/lib/prometheus/node-exporter"  # of the distributions' packages
TEXTFILE = "fullmesh_health.prom"
DRAINED = "/var/lib/fullmesh/health/drained"
LOCK_SECONDS = 0.5
CHECK_SECONDS = (
    5.0  # the jobs of a node can keep all its CPUs busy, and a check that ends needs less
)
WEBHOOK_SECONDS = 5
SLURM_SECONDS = 3.0  # of one program, if Slurm's controller is busy
SLURM_PATH = ":/usr/local/bin:/opt/slurm/bin"
DRIFT = "HC-151"  # a node differs from its manifest while `./fullmesh apply` runs, so this alone drains no node
MARK = "fullmesh:"  # begins the reason of a drain, so that no other drain is ended
UNREACHABLE = f"{MARK} unreachable:"  # begins the reason if other nodes drained this one
MOST_REASON = 400
WITNESSES = 16  # nodes outside of a job that show whose fault a broken link is
PAIR_SECONDS = 3.0  # before one end of a broken link drains itself, twice that for the other
AGAIN_SECONDS = 2.0  # between the two checks that end a drain
AWAY = ("down", "drain", "fail", "power", "reboot", "unknown")


class SlurmNode(NamedTuple):
    """A node as Slurm sees it."""

    state: str
    reason: str


def read_settings(path: str = "") -> dict[str, Any]:
    """Read the settings that the role wrote. A setting that is damaged has its default."""
    found = dict(DEFAULTS)
    with contextlib.suppress(ValueError):
        data = parse_foreign_json(check_node.read_bytes(path or SETTINGS), most_bytes=1 << 16)
        for name, default in DEFAULTS.items():
            value = data.get(name) if isinstance(data, dict) else None
            if type(value) is type(default):
                found[name] = value
    found["levels"] = [one for one in found["levels"] if one in fullmesh_check.LEVELS]
    found["levels"] = found["levels"] or DEFAULTS["levels"]
    return found


# --- recording ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def lock_history() -> Iterator[None]:
    """Lock the history's folder, which no other account can open: a lock needs no right to write.

    Raises:
        OSError: another check is being recorded, or the folder cannot be used.
    """
    folder = health_history.make_folder()
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + LOCK_SECONDS
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > end:
                raise TimeoutError(f"another check is being recorded (waited {LOCK_SECONDS} s)")
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def record_verdict(document: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Record a verdict: in the history, for node_exporter, and at the webhook. Return what failed."""
    now, failed = int(time.time()), []
    try:
        with lock_history():
            history = health_history.read_history()
            known = bool(history["spans"])
            differs = health_history.add_verdict(
                history, document, health_history.observe_state(), now
            )
            # if the disk is full, the metrics and the webhook say so, again with each check
            try:
                health_history.write_history(history)
            except OSError as error:
                failed.append(f"the history cannot be written: {error}")
    except OSError as error:
        return [f"the history cannot be used: {error}"]
    try:
        write_textfile(settings["textfile_dir"], document, history, now)
    except OSError as error:
        failed.append(f"the metrics cannot be written: {error}")
    if settings["webhook_url"] and differs and (known or document["fit"] is not True):
        failed += call_webhook(settings["webhook_url"], document, history)
    return failed


def write_textfile(
    folder: str, document: Mapping[str, Any], history: Mapping[str, Any], now: int
) -> None:
    """Write the metrics, if node_exporter's folder is there.

    Raises:
        OSError: they cannot be written, or other accounts can change the folder.
    """
    named, folder = folder, folder or USUAL_FOLDER
    if not os.path.isdir(folder) and not named:
        return
    info = os.stat(folder)
    if info.st_uid != os.geteuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        seen = f"owner {info.st_uid}, mode {info.st_mode & 0o7777:04o}"
        raise PermissionError(
            f"other accounts can change {folder} ({seen}). Fix: chown root, chmod 755"
        )
    text = health_history.render_metrics(document, history, now)
    health_history.replace_file(f"{folder}/{TEXTFILE}", text, 0o644)


def call_webhook(url: str, document: Mapping[str, Any], history: Mapping[str, Any]) -> list[str]:
    """Send a new verdict to the webhook. Return what failed. A name server that hangs cannot delay it."""
    import http.client  # noqa: PLC0415 (slow to import)
    import urllib.request  # noqa: PLC0415 (as above)

    if not url.lower().startswith(("http://", "https://")):
        return ["the webhook is not http or https"]
    body = {key: document[key] for key in ("node", "fit", "text")}
    body["history"] = health_history.describe_history(history)
    failed = [f"the webhook gave no answer in {WEBHOOK_SECONDS} s"]

    def send() -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            request = urllib.request.Request(  # noqa: S310 (its scheme was checked)
                url, json.dumps(body).encode(), {"Content-Type": "application/json"}
            )
            with opener.open(request, timeout=WEBHOOK_SECONDS):
                failed.clear()
        except (OSError, ValueError, http.client.HTTPException) as error:
            failed[:] = [f"the webhook failed: {error}"]

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    thread.join(WEBHOOK_SECONDS)
    return list(failed)


# --- Slurm --------------------------------------------------------------------------------------------


def run_slurm(*command: str) -> str | None:
    """Run a program of Slurm. Return its output. If it fails, report that and return None."""
    try:
        status, text = check_node.run_tool(*command, more_path=SLURM_PATH, seconds=SLURM_SECONDS)
    except NoCheckError as error:
        status, text = 1, str(error)
    if status == 0:
        return text
    why = text.strip() or ("not installed" if status < 0 else f"exit status {status}")
    report_failures([f"{' '.join(command[:4])}: {why}"])
    return None


def list_slurm_nodes() -> dict[str, SlurmNode]:
    """Return all nodes of Slurm, {} if its controller does not answer."""
    found = {}
    for line in (run_slurm("sinfo", "-N", "-h", "-o", "%N|%T|%E") or "").splitlines():
        name, _, rest = line.partition("|")
        state, _, reason = rest.partition("|")
        found[name.strip()] = SlurmNode(state.strip().lower(), reason.strip())
    return found


def list_away(nodes: Mapping[str, SlurmNode]) -> set[str]:
    """Return the nodes that get no jobs. ``*``: the node does not respond (sinfo(1))."""
    return {
        name
        for name, one in nodes.items()
        if one.state.endswith("*") or any(word in one.state for word in AWAY)
    }


def find_slurm_name() -> str:
    """Return this node's name in Slurm. A health check may not get it, so it is then the name in the plan."""
    own = None
    if not os.environ.get("SLURMD_NODENAME"):
        with contextlib.suppress(NoCheckError):
            own = check_node.find_own_entry()
    named = str(own.get("name", "")) if own else ""
    return os.environ.get("SLURMD_NODENAME") or named or get_short_name()


def get_short_name() -> str:
    """Return the host name without its domain."""
    return os.uname()[1].partition(".")[0]


def choose_known_name(nodes: Mapping[str, SlurmNode], name: str) -> str:
    """Return the name of this node that Slurm knows. *name*: that in the plan, or Slurm's own."""
    return get_short_name() if name not in nodes and get_short_name() in nodes else name


def list_other_nodes(name: str) -> list[str]:
    """Return the other nodes of the plan, those that follow this one first."""
    nodes = check_node.read_plan().get("nodes")
    names = [str(one.get("name", "")) for one in list_objects(nodes)]
    at = names.index(name) if name in names else 0
    return [one for one in names[at:] + names[:at] if one != name]


def list_broken_peers(document: Mapping[str, Any]) -> set[str]:
    """Return the peers with a broken link to this node."""
    checks = document["checks"].values()
    return {peer for one in checks for found in one["findings"] for peer in found["peers"]}


def describe_findings(document: Mapping[str, Any], peers: Collection[str] | None) -> str:
    """Return the findings that count in Slurm: of links to some peers, or (None) those of the node itself."""
    found = [
        "[{code}] {text}".format(**one)
        for check in document["checks"].values()
        for one in check["findings"]
        if one["code"] != DRIFT
        and (set(one["peers"]) & set(peers) if peers is not None else not one["peers"])
    ]
    return "; ".join(found)


def find_drain_reason(
    document: Mapping[str, Any], name: str, peers: Collection[str], away: Collection[str]
) -> tuple[str, bool]:
    """Return why this node must get no jobs, or "", and whether a broken pair of nodes is the only reason.

    This node is at fault if most of its links are broken. Otherwise a link belongs to a pair.

    Args:
        document: the verdict.
        name: this node.
        peers: the nodes that were checked.
        away: nodes that get no jobs. Links to them do not count.
    """
    own = describe_findings(document, None)
    if own:
        return own, False
    up = {*peers} - {*away, name}
    broken = list_broken_peers(document) & up
    text = describe_findings(document, broken)
    if len(up) > 1 and 2 * len(broken) > len(up):
        return text, False
    return text, bool(broken)


def decide_drain(document: Mapping[str, Any], name: str, peers: Collection[str]) -> str:
    """Return why this node must get no jobs, or "". Slurm is queried only if links are broken.

    Of a pair, one end leaves, so that the other stays usable. The one whose name comes last goes first. The other waits
    longer and leaves only if it sees that the first has not, because packets can be lost in one direction.
    """
    if document["fit"] is not False:
        return ""
    broken = list_broken_peers(document)
    away = list_away(list_slurm_nodes()) if broken else set()
    reason, pair = find_drain_reason(document, name, peers, away)
    if pair:
        time.sleep(PAIR_SECONDS if min(broken - away) < name else 2 * PAIR_SECONDS)
        away = list_away(list_slurm_nodes())
        reason, _ = find_drain_reason(document, name, peers, away)
    return reason


def drain_node(name: str, reason: str) -> None:
    """Drain this node, so that its reason is shown by `sinfo -R`. Another drain keeps its reason."""
    nodes = list_slurm_nodes()
    name = choose_known_name(nodes, name)
    node = nodes.get(name, SlurmNode("", ""))
    if "drain" not in node.state or node.reason.startswith(MARK):
        set_drain(name, f"{MARK} {reason}")


def set_drain(name: str, reason: str) -> None:
    """Drain a node, and note that this node did it."""
    text = check_node.clean_text(reason[:MOST_REASON])
    run_slurm("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={text}")
    note_drained({*read_drained(), name})


def read_drained() -> list[str]:
    """Return the names of the nodes that this node drained."""
    return check_node.read_text(DRAINED).split()


def note_drained(names: Collection[str]) -> None:
    """Note the nodes that this node drained."""
    try:
        if names:
            health_history.make_folder()
            health_history.replace_file(DRAINED, "".join(f"{one}\n" for one in names), 0o600)
        elif os.path.exists(DRAINED):
            os.unlink(DRAINED)
    except OSError as error:
        report_failures([f"nothing will end the drain, because {DRAINED} is missing: {error}"])


def drain_shared_peers(document: Mapping[str, Any], name: str, peers: Collection[str]) -> str:
    """Drain a peer that another drained node cannot reach either. Return why this node must still get no jobs.

    If packets to one node are lost, that node may notice nothing. Each other node then sees one broken link, and drains
    itself as one end of a pair. The last of them sees the others in Slurm.
    """
    nodes = list_slurm_nodes()
    away = list_away(nodes)
    reason, pair = find_drain_reason(document, name, peers, away)
    if not pair:
        return reason
    own = {name, choose_known_name(nodes, name)}
    for peer in list_broken_peers(document) & {*nodes} - {*away, *own}:
        if any(
            "drain" in one.state and one.reason.startswith(MARK) and f"] {peer} (" in one.reason
            for other, one in nodes.items()
            if other not in {*own, peer}
        ):
            set_drain(peer, f"{UNREACHABLE} {describe_findings(document, {peer})}")
            away.add(peer)
    return find_drain_reason(document, name, peers, away)[0]


def resume_node(name: str, own: bool = True) -> bool:
    """End a node's drain if this node drained it. Return whether it did.

    If Slurm fails, the next check tries again.

    Args:
        name: the node.
        own: it is this node.
    """
    nodes = list_slurm_nodes()
    known = choose_known_name(nodes, name) if own else name
    node = nodes.get(known)
    if node is None:
        return False
    by_others = node.reason.startswith(UNREACHABLE)
    ours = "drain" in node.state and node.reason.startswith(MARK) and by_others != own
    if ours and run_slurm("scontrol", "update", f"NodeName={known}", "State=RESUME") is None:
        return False
    note_drained({*read_drained()} - {known, name})
    return ours


def run_slurm_script(command: str, settings: Mapping[str, Any]) -> int:
    """Run as Slurm's Prolog, Epilog or HealthCheckProgram."""
    name = find_slurm_name()
    job = check_links.list_slurm_peers()
    others = list_other_nodes(name)
    levels, peers = settings["levels"], others
    if command == "slurm-prolog":
        peers = [*dict.fromkeys(job + others[:WITNESSES])]
    elif command == "slurm-epilog":
        levels = ["node"]
    document = fullmesh_check.run_levels(levels, peers, CHECK_SECONDS)
    concerned = (  # links to nodes outside of the job do not concern it
        command != "slurm-prolog"
        or describe_findings(document, None)
        or list_broken_peers(document) & set(job)
    )
    reason = decide_drain(document, name, peers) if concerned else ""
    left = ""
    if reason:
        drain_node(name, reason)
        left = drain_shared_peers(document, name, peers)
    if command == "slurm-check" or reason:
        report_failures(record_verdict(document, settings))
    sys.stdout.write(document["text"] + "\n")
    if command == "slurm-check" and document["fit"] is not None:
        end_drains(document, name, peers, settings, left)
    return 1 if (left if command == "slurm-check" else reason) else 0


def end_drains(
    document: Mapping[str, Any],
    name: str,
    peers: list[str],
    settings: Mapping[str, Any],
    reason: str,
) -> None:
    """Let Slurm use the nodes again that this node drained, if a second check confirms that they are fit.

    Args:
        document: the first check.
        name: this node.
        peers: the nodes that were checked.
        settings: as in read_settings.
        reason: why this node must get no jobs, or "".
    """
    broken = list_broken_peers(document)
    own = [one for one in read_drained() if one not in peers and not reason]
    others = [one for one in read_drained() if one in peers and one not in broken]
    if not settings["slurm_resume"] or not own + others:
        return
    time.sleep(AGAIN_SECONDS)
    again = fullmesh_check.run_levels(settings["levels"], peers, CHECK_SECONDS)
    if again["fit"] is None:
        return
    fit = [one for one in others if one not in list_broken_peers(again)]
    found = [one for one in fit if resume_node(one, own=False)]
    if own and not decide_drain(again, name, peers) and resume_node(name):
        found.append(name)
    for one in found:
        sys.stdout.write(f"{one} gets jobs again\n")


def report_failures(failed: list[str]) -> None:
    """Print what could not be recorded."""
    for one in failed:
        sys.stderr.write(f"fullmesh-health: {check_node.clean_text(one)[:MOST_REASON]}\n")


def main(argv: list[str]) -> int:
    """Run one of the commands."""
    settings = read_settings()
    if argv == ["record"]:
        document = fullmesh_check.run_levels(settings["levels"], seconds=CHECK_SECONDS)
        report_failures(record_verdict(document, settings))
        sys.stdout.write(document["text"] + "\n")
        return int(document["status"])
    if argv == ["history"]:
        lines = health_history.describe_history(health_history.read_history())
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    if argv in (["slurm-prolog"], ["slurm-epilog"], ["slurm-check"]):
        return run_slurm_script(argv[0], settings)
    sys.stderr.write(f"{__doc__}\n")
    return fullmesh_check.UNCHECKED


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"fullmesh-health: {error}\n")
        # a defect of this program is no reason against a job
        code = 0 if sys.argv[1:2] != ["record"] else fullmesh_check.UNCHECKED
    sys.stdout.flush()
    os._exit(code)
