"""The verb ``doctor``: check that this controller can run Ansible on the nodes. Contacts no node."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import locale
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from fullmesh.catalogue import add_verb
from fullmesh.faults import InvalidInputError
from fullmesh.play import options
from fullmesh.play.names import shorten_path
from fullmesh.printed import clean_line, clean_values, print_text
from fullmesh.settings import ROOT, RUNS

OK, PROBLEM = 0, 1
SCHEMA = 1
PASSED, WARNING, ERROR = "ok", "warning", "error"
PYTHONS = ((3, 11), (3, 14))  # oldest and newest
CALLBACKS = ("fullmesh_progress", "fullmesh_preload", "fullmesh_events")
FREE_BYTES = 2 * 1000**3  # a run with a bundle or a lab needs more, and checks it itself
SECONDS = 30.0  # for a program to answer
Answer = TypeVar("Answer", list[Any], dict[str, Any])
CODES = {
    "DR-101": "Fullmesh does not support this version of Python",
    "DR-102": "ansible-core is missing, or Fullmesh does not support its version",
    "DR-103": "An Ansible collection is missing or too old",
    "DR-104": "There is no ssh client",
    "DR-105": "ssh cannot read its configuration",
    "DR-106": "Ansible does not use the ansible.cfg of Fullmesh, or some callback plugins are off",
    "DR-107": "There is no inventory yet, or it does not exist",
    "DR-108": "Ansible cannot read the inventory, or it has no hosts in group `torch_nodes`",
    "DR-109": "The folder for runs is not writable",
    "DR-110": "The disk is almost full",
    "DR-111": "The clock is wrong, or it is not synchronized",
    "DR-112": "The locale is not UTF-8",
    "DR-113": "A program that doctor called did not answer in time",
}


@dataclass(frozen=True)
class ControllerCheck:
    """One check of the controller.

    Attributes:
        status: ``ok``, ``warning`` or ``error``.
        seen: the value that was seen.
        code: empty if the check passed.
        fix: a command or a change that corrects it.
        check: a command that shows more, if the fix depends on it.
    """

    name: str
    seen: str
    status: str = PASSED
    code: str = ""
    fix: str = ""
    check: str = ""


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "doctor", "Contacts no node.")
    options.add_inventory_option(parser)
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.set_defaults(func=run_doctor)


def run_doctor(args: argparse.Namespace) -> int:
    """``fullmesh doctor``."""
    checks = check_controller(args.inventory)
    failed = any(check.status == ERROR for check in checks)
    if args.json:
        data = {"schema": SCHEMA, "ready": not failed, "checks": [asdict(one) for one in checks]}
        print_text(json.dumps(clean_values(data), indent=2))
    else:
        print_text("\n".join(render_checks_list(checks)))
    return PROBLEM if failed else OK


def render_checks_list(checks: Sequence[ControllerCheck]) -> list[str]:
    """Render the checks as lines, with a summary."""
    lines = []
    for one in checks:
        code = f"[{one.code}] " if one.code else ""
        lines.append(clean_line(f"{one.status:<8} {one.name}: {code}{one.seen}"))
        steps = {"check": one.check, "fix": one.fix}
        lines += [clean_line(f"         {label}: {step}") for label, step in steps.items() if step]
    errors = [one for one in checks if one.status == ERROR]
    if errors:
        return [
            *lines,
            f"This controller is not ready: {len(errors)} of {len(checks)} checks failed.",
        ]
    return [*lines, "This controller is ready."]


def check_controller(inventory: str) -> list[ControllerCheck]:
    """Run all checks. Those that call programs run in parallel."""
    checks: list[Callable[[], ControllerCheck]] = [
        check_python,
        check_ansible_core,
        check_collections,
        check_ssh,
        check_ansible_config,
        lambda: check_inventory(inventory),
        check_runs_folder,
        check_disk,
        check_clock,
        check_locale,
    ]
    with ThreadPoolExecutor(len(checks)) as pool:
        return list(pool.map(run_check_safely, checks))


def run_check_safely(check: Callable[[], ControllerCheck]) -> ControllerCheck:
    """Run a check. If its program does not answer in time, that is the result."""
    try:
        return check()
    except subprocess.TimeoutExpired as error:
        program = str(error.cmd[0])
        text = f"{program} did not answer in {SECONDS:g} s"
        return ControllerCheck(program, text, ERROR, "DR-113", check=" ".join(map(str, error.cmd)))


def call_program(*command: str) -> subprocess.CompletedProcess[str] | None:
    """Run a program with its own time limit. Return None if it is not installed or cannot be started."""
    try:
        return subprocess.run(  # noqa: S603 (fixed names, no shell)
            command,
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
        )
    except OSError:
        return None


def parse_answer(text: str, kind: type[Answer]) -> Answer | None:
    """Parse the JSON that a program printed. Return None if it is damaged, or not of this kind."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, kind) else None


def read_last_line(text: str) -> str:
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def check_python() -> ControllerCheck:
    """Compare this Python's version with those that are supported."""
    seen = ".".join(map(str, sys.version_info[:3]))
    oldest, newest = (".".join(map(str, one)) for one in PYTHONS)
    if PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        return ControllerCheck("Python", seen)
    fix = f"install Python {oldest} to {newest} and remove {shorten_path(ROOT / '.venv')}"
    return ControllerCheck("Python", seen, ERROR, "DR-101", fix)


def check_ansible_core() -> ControllerCheck:
    """Compare the version of ansible-core with those that are supported."""
    from fullmesh.model.plan import find_controller_faults  # noqa: PLC0415 (slow to import)

    fix = "run: pip install -r requirements.txt, or remove .venv and call ./fullmesh again"
    try:
        seen = importlib.metadata.version("ansible-core")
    except importlib.metadata.PackageNotFoundError:
        return ControllerCheck("ansible-core", "not installed", ERROR, "DR-102", fix)
    if find_controller_faults(seen):
        return ControllerCheck("ansible-core", f"{seen} is not supported", ERROR, "DR-102", fix)
    return ControllerCheck("ansible-core", seen)


def find_collection_version(name: str, folders: Sequence[str]) -> str:
    """Return the version of an installed collection, or "". One with a damaged manifest is skipped."""
    for folder in folders:
        manifest = Path(folder, "ansible_collections", *name.split("."), "MANIFEST.json")
        try:
            data = parse_answer(manifest.read_text(encoding="utf-8", errors="replace"), dict)
        except OSError:
            continue
        info = (data or {}).get("collection_info")
        if isinstance(info, dict) and info.get("version"):
            return str(info["version"])
    return ""


def list_collection_folders() -> list[str]:
    """Return the folders in which Ansible looks for collections."""
    own = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(":")
    usual = ["~/.ansible/collections", "/usr/share/ansible/collections"]
    return [*filter(None, own), *(str(Path(one).expanduser()) for one in usual), *sys.path]


def check_collections() -> ControllerCheck:
    """Check that the collections of requirements.yml are installed, in the required version or newer."""
    wanted = yaml.safe_load((ROOT / "requirements.yml").read_text(encoding="utf-8"))
    found, missing = [], []
    for one in wanted["collections"]:
        name, least = one["name"], one["version"].removeprefix(">=")
        seen = find_collection_version(name, list_collection_folders())
        enough = _parse_version(seen) >= _parse_version(least) if seen else False
        found.append(f"{name} {seen}")
        if not enough:
            missing.append(f"{name} {seen or 'is missing'} ({least} or newer is needed)")
    if missing:
        fix = "run: ansible-galaxy collection install -r requirements.yml"
        return ControllerCheck("collections", ", ".join(missing), ERROR, "DR-103", fix)
    return ControllerCheck("collections", ", ".join(found))


def _parse_version(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)[:3]]


def check_ssh() -> ControllerCheck:
    """Let ssh read its configuration."""
    done = call_program("ssh", "-G", "localhost")
    if done is None:
        fix = "install it (apt-get install openssh-client, dnf install openssh-clients)"
        return ControllerCheck("ssh", "not installed", ERROR, "DR-104", fix)
    if done.returncode:
        seen = read_last_line(done.stderr)
        fix = "correct the line in ~/.ssh/config or /etc/ssh/ssh_config"
        return ControllerCheck("ssh", seen, ERROR, "DR-105", fix)
    version = call_program("ssh", "-V")
    return ControllerCheck("ssh", read_last_line(version.stderr) if version else "installed")


def check_ansible_config() -> ControllerCheck:
    """Query the configuration that Ansible uses, and the enabled callback plugins."""
    done = call_program("ansible-config", "dump", "--only-changed", "--format", "json")
    if done is None or done.returncode:
        seen = read_last_line(done.stderr) if done else "ansible-config is not installed"
        return ControllerCheck("ansible.cfg", seen, ERROR, "DR-106", "unset ANSIBLE_CONFIG")
    answer = parse_answer(done.stdout, list)
    if answer is None:
        check = "ansible-config dump --only-changed --format json"
        return ControllerCheck(
            "ansible.cfg", "ansible-config printed no JSON", ERROR, "DR-106", check=check
        )
    values = {one.get("name"): one.get("value") for one in answer if isinstance(one, dict)}
    seen, wanted = str(values.get("CONFIG_FILE")), ROOT / "ansible.cfg"
    missing = [one for one in CALLBACKS if one not in (values.get("CALLBACKS_ENABLED") or ())]
    if seen == str(wanted) and not missing:
        return ControllerCheck("ansible.cfg", f"{shorten_path(wanted)}, callback plugins on")
    if seen != str(wanted):
        # Ansible skips the file of a folder that all users may write to
        fix = f"unset ANSIBLE_CONFIG && chmod o-w {ROOT}"
        return ControllerCheck("ansible.cfg", f"Ansible uses {seen}", ERROR, "DR-106", fix)
    text = f"callback plugins that are off: {', '.join(missing)}"
    return ControllerCheck("ansible.cfg", text, ERROR, "DR-106", "unset ANSIBLE_CALLBACKS_ENABLED")


def check_inventory(named: str) -> ControllerCheck:
    """Let Ansible read the inventory."""
    try:
        path = options.find_inventory(named)
    except InvalidInputError as error:
        (fault,) = error.faults
        # there is none before the first ./fullmesh init
        status = ERROR if named or fault.code == "CL-106" else WARNING
        fix = "./fullmesh init, or name another one with -i"
        return ControllerCheck("inventory", fault.text, status, "DR-107", fix)
    typed = shorten_path(path)
    done = call_program("ansible-inventory", "-i", str(path), "--list")
    check = f"ansible-inventory -i {typed} --list"
    if done is None or done.returncode:
        seen = read_last_line(done.stderr) if done else "ansible-inventory is not installed"
        return ControllerCheck("inventory", f"{typed}: {seen}", ERROR, "DR-108", check=check)
    groups = parse_answer(done.stdout, dict)
    if groups is None:
        seen = f"{typed}: ansible-inventory printed no JSON"
        return ControllerCheck("inventory", seen, ERROR, "DR-108", check=check)
    group = groups.get("torch_nodes")
    count = len(group.get("hosts") or ()) if isinstance(group, dict) else 0
    if not count:
        seen = f"{typed} has no hosts in group torch_nodes"
        fix = f"add your nodes to group torch_nodes in {typed}"
        return ControllerCheck("inventory", seen, ERROR, "DR-108", fix, check)
    return ControllerCheck("inventory", f"{typed}, {count} nodes")


def check_runs_folder() -> ControllerCheck:
    """Check that the folder of runs is writable."""
    folder = RUNS if RUNS.exists() else RUNS.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        text = f"{shorten_path(folder)}: {error.strerror}"
        return ControllerCheck("runs", text, ERROR, "DR-109", f"sudo chown -R $USER {folder}")
    return ControllerCheck("runs", f"{shorten_path(folder)} is writable")


def check_disk() -> ControllerCheck:
    """Compare the free space with the space that runs need."""
    free = shutil.disk_usage(ROOT).free
    seen = f"{free / 1000**3:.1f} GB free"
    if free >= FREE_BYTES:
        return ControllerCheck("disk", seen)
    fix = f"free {FREE_BYTES / 1000**3:g} GB on the file system of {ROOT}, for example old runs"
    return ControllerCheck("disk", seen, ERROR, "DR-110", fix)


def check_clock() -> ControllerCheck:
    """Compare the clock with the age of this checkout, and ask systemd whether it is synchronized."""
    fix = "timedatectl set-ntp true"
    newest = max((ROOT / name).stat().st_mtime for name in ("ansible.cfg", "site.yml"))
    now = time.time()
    seen = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    if now < newest:
        return ControllerCheck("clock", f"{seen} is before this checkout", ERROR, "DR-111", fix)
    done = call_program("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if done and done.stdout.strip() == "no":
        return ControllerCheck("clock", f"{seen}, not synchronized", WARNING, "DR-111", fix)
    return ControllerCheck("clock", seen)


def check_locale() -> ControllerCheck:
    """Ansible refuses to run without a UTF-8 locale."""
    seen = locale.nl_langinfo(locale.CODESET)
    if seen.upper().replace("-", "") == "UTF8":
        return ControllerCheck("locale", seen)
    return ControllerCheck("locale", seen, ERROR, "DR-112", "export LC_ALL=C.UTF-8")
