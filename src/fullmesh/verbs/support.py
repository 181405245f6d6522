"""The verb ``support-bundle``: pack the last runs for a report to others, without names, addresses and secrets."""

from __future__ import annotations

import argparse
import getpass
import json
import platform
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullmesh.catalogue import add_verb
from fullmesh.faults import Fault, InvalidInputError
from fullmesh.play import options
from fullmesh.play.names import shorten_path
from fullmesh.printed import print_error, print_text
from fullmesh.settings import HAS_PLAYBOOKS, ROOT, RUNS, STARTED_IN
from fullmesh.verbs.checkout import print_refusal

if TYPE_CHECKING:  # slow to import, and other verbs do not need it
    from fullmesh.support.archive import CollectedFiles
    from fullmesh.support.redact import Redactor

OK, PROBLEM, USAGE = 0, 1, 2
DEFAULT_NAME = "fullmesh-support.zip"
DEADLINE = 120.0  # seconds for all nodes


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "support-bundle",
        "It replaces names, addresses, serial numbers and paths of users with stand-ins, and removes secrets.",
    )
    parser.add_argument("log", nargs="*", help="logs of a failed job to add")
    parser.add_argument(
        "-i",
        "--inventory",
        default="",
        help="also collect the manifests and the recent errors of these nodes",
    )
    parser.add_argument(
        "-o",
        "--output",
        default=DEFAULT_NAME,
        help=f"the archive to write (default: {DEFAULT_NAME})",
    )
    parser.add_argument(
        "--keep-names",
        action="store_true",
        help="keep names and addresses, for use inside your site. Secrets are still removed",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list the contents, and write nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the list of contents as JSON")
    options.add_playbook_options(parser, (*options.CONNECT, *options.RUN))
    parser.set_defaults(func=run_support_bundle)


def run_support_bundle(args: argparse.Namespace) -> int:
    """``fullmesh support-bundle``."""
    from fullmesh.support import archive  # noqa: PLC0415 (slow to import, and other verbs do not need it)
    from fullmesh.support.redact import Redactor  # noqa: PLC0415 (as above)

    target = STARTED_IN / Path(args.output).expanduser()
    if not args.dry_run and (target.exists() or target.is_symlink()):
        step = "Fix: remove it, or name another file with -o"
        fault = Fault("CL-127", f"{shorten_path(target)} already exists", step)
        return print_refusal(InvalidInputError([fault]))
    files = archive.CollectedFiles()
    archive.collect_runs(RUNS, files)
    archive.collect_logs([STARTED_IN / Path(one).expanduser() for one in args.log], files)
    try:
        if args.inventory:
            collect_node_records(args, files)
    except InvalidInputError as error:
        return print_refusal(error)
    redactor = Redactor(keep_names=args.keep_names)
    learn_controller(redactor, args.inventory)
    try:
        members = archive.redact_members(files.members, redactor)
    except ValueError as error:
        return print_refusal(
            InvalidInputError([Fault("CL-128", f"No bundle: {error}", "Fix: use --keep-names")])
        )
    contents = archive.describe_contents(files, members, redactor, describe_versions())
    if args.json:
        print_text(json.dumps(contents, indent=2))
    else:
        print_text("\n".join(render_contents(contents)))
    if not members:
        print_error(
            "fullmesh: [CL-107] No run to pack. Fix: run ./fullmesh diagnose or verify first, or name logs."
        )
        return USAGE
    if not args.dry_run:
        try:
            archive.write_bundle(target, archive.pack_bundle(members, contents))
        except OSError as error:
            fault = Fault(
                "CL-128", f"{shorten_path(target)} cannot be written", f"{error.strerror}. Fix: -o"
            )
            return print_refusal(InvalidInputError([fault]))
        print_error(f"fullmesh: wrote {shorten_path(target)}. Read it before you send it.")
    return PROBLEM if files.left_out else OK


def collect_node_records(args: argparse.Namespace, files: CollectedFiles) -> None:
    """Collect the manifest and the recent errors of each node.

    Raises:
        InvalidInputError: the inventory does not exist, or no node answered.
    """
    from fullmesh.play import run as runner  # noqa: PLC0415 (msgspec is slow to import)
    from fullmesh.support import archive  # noqa: PLC0415 (see above)
    from fullmesh.verbs import diagnose, playbook  # noqa: PLC0415 (as above)

    inventory = options.find_inventory(args.inventory)
    if not HAS_PLAYBOOKS:
        step = "Fix: leave out -i, or run ./fullmesh support-bundle in a checkout"
        raise InvalidInputError([Fault("CL-113", "-i needs the playbooks of a checkout", step)])
    with tempfile.TemporaryDirectory(prefix="fullmesh-support-") as folder:
        nodes = Path(folder) / "nodes"
        nodes.mkdir()
        command = ["ansible-playbook", "playbooks/support_bundle.yml", "-i", str(inventory)]
        command += ["-e", json.dumps({"support_folder": str(nodes)})]
        command += options.list_ansible_words(args)
        if options.needs_raw_output(args):
            playbook.run_ansible_raw(command)
        else:
            view = options.PLAIN if args.json and args.progress == options.JSON else args.progress
            outcome = runner.run_with_view(
                command,
                runner.choose_view(view),
                Path(folder),
                env=diagnose.build_diagnose_env(DEADLINE),
                deadline=DEADLINE,
            )
            if outcome.code or not outcome.in_time:
                files.left_out["nodes"] = "not all nodes answered, see above"
        before = len(files.members)
        archive.collect_nodes(nodes, files)
        if len(files.members) == before:
            step = "Check: ./fullmesh status -i INVENTORY"
            raise InvalidInputError([Fault("CL-128", "No bundle: no node answered", step)])


def learn_controller(redactor: Redactor, inventory: str) -> None:
    """Learn the names of this machine and of its user, and the folders that Fullmesh uses here."""
    if redactor.keep_names:
        return
    folders = {"/fullmesh": ROOT, "/start": STARTED_IN}
    if sys.prefix != sys.base_prefix:
        folders["/venv"] = Path(sys.prefix)
    if inventory:
        folders["/inventory"] = options.find_inventory(inventory)
    for replacement, folder in folders.items():
        for spelled in (folder, folder.resolve()):
            redactor.learn_path(str(spelled), replacement)
    for name in {socket.gethostname(), socket.getfqdn()}:
        redactor.names.learn_host(name)
    for name in {getpass.getuser(), Path.home().name}:
        redactor.names.learn_user(name)


def describe_versions() -> dict[str, str]:
    """Return the versions of the programs on the controller."""
    from fullmesh.verbs.about import collect_versions  # noqa: PLC0415 (see above)

    found = collect_versions()
    names = ("python", "ansible_core")
    return {**{name: str(found[name]) for name in names}, "system": platform.platform()}


def render_contents(contents: Mapping[str, Any]) -> list[str]:
    """Render the list of contents for people."""
    lines = [f"{'bytes':>10}  file"]
    for one in contents["members"]:
        note = f" ({one['note']})" if one.get("note") else ""
        lines.append(f"{one['bytes']:>10}  {one['name']}{note}")
    lines += [f"  left out  {one['name']}: {one['why']}" for one in contents["left_out"]]
    counts = ", ".join(
        f"{number} {kind}" for kind, number in contents["replaced"].items() if number
    )
    verb = "Removed" if contents["names"] == "kept" else "Replaced or removed"
    return [*lines, f"{verb}: {counts or 'nothing'}."]
