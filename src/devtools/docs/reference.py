"""Generate reference pages from the sources: the command line, every setting, the list of modules."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import yaml

from fullmesh.settings import PLAN_SETTINGS, ROOT
from fullmesh.shell.commands import walk_commands

# Comments in inventory/prod describe a setting of the plan: "# name: default   # purpose".
COMMENT = re.compile(r"^# (fullmesh_\w+):[^#\n]*#\s*(.+)$", re.MULTILINE)
USAGE_COLUMNS = 88
# Settings without such a comment: inventory/prod uses them, or the command line sets them.
SAID = {
    "fullmesh_address": "the node's cluster address with its prefix, `10.0.0.1/24`, or a list, the primary one first",
    "fullmesh_interface": "the interface that gets it, by name or MAC. Empty: the one that has it now",
    "fullmesh_links": "several interfaces, VLANs, bonds, gateways and name servers ([links](../docs/links.md))",
    "fullmesh_local_ranks": "ranks that a job starts on the node; auto: one for each NVIDIA GPU, else one",
    "fullmesh_node_rank": "the node's rank; unset: its place in the inventory",
    "fullmesh_hostname": "the node's host name; empty: it stays as it is",
    "fullmesh_master_port": "rank 0's port, `MASTER_PORT` of every job",
    "fullmesh_rendezvous_port": "the port of torchrun's rendezvous",
    "fullmesh_data_ports": "auto: as many ports as the ranks need; or a range such as 50000-54095",
    "fullmesh_services": "additional open ports: `[ray]`, or your own ([services](../docs/services.md))",
    "fullmesh_controllers": "addresses and networks that are never locked out",
    "fullmesh_converge": "auto: only nodes that differ from their manifest; always: all",
    "fullmesh_wait_seconds": "how long a run waits for cloud-init, upgrades and package managers' locks",
    "fullmesh_bundle": "a bundle to install from, without internet ([bundle](../docs/bundle.md))",
}


def wrap_usage(usage: str) -> list[str]:
    """Wrap a usage line between its options."""
    options = re.findall(r"(?:\[(?:[^\[\]]|\[[^\]]*\])*\]|[^\s\[])+", usage)
    joined = " ".join(option.replace(" ", "\0") for option in options)
    wrapped = textwrap.wrap(
        joined,
        USAGE_COLUMNS,
        subsequent_indent="    ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace("\0", " ") for line in wrapped]


def commands() -> str:
    """Build the page of the command line."""
    from fullmesh.cli import build_parser  # noqa: PLC0415 (loads every verb)

    lines = [
        "# Commands",
        "",
        "`./fullmesh VERB --help` prints the same text in your terminal.",
        "",
        "Exit codes: 0 no problem, 1 a problem was found, 2 wrong usage or environment, 130 interrupted.",
    ]
    for command in walk_commands(build_parser()):
        lines += ["", f"{'#' * (command.depth + 2)} {command.name}", "", command.text, ""]
        lines += ["```text", *wrap_usage(command.usage), "```"]
        for words, text in command.options:
            escaped = text.replace("<", "\\<")
            lines += ["", f"`{words}`", f": {escaped}"]
        lines += ["", "```text", *command.ending, "```"] if command.ending else []
    return "\n".join(lines) + "\n"


class Setting(NamedTuple):
    """A variable of the inventory."""

    name: str
    kind: str
    default: object
    text: str
    owner: str


def of_roles() -> Iterator[Setting]:
    """Yield every setting of every role that a user may set."""
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        role = path.parent.parent.name
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]
        for name, option in spec["options"].items():
            if option.get("required"):
                continue  # set by the plan through playbooks/vars/wiring.yml
            text = option["description"]
            text = " ".join(text) if isinstance(text, list) else text
            text = re.sub(r"\b[CVI]\(([^)]*)\)", r"`\1`", text)
            yield Setting(name, option.get("type", "str"), option.get("default"), text, role)


def of_plan() -> Iterator[Setting]:
    """Yield every setting of the plan."""
    comments = (ROOT / "inventory/prod/group_vars/all.yml").read_text(encoding="utf-8")
    said = {**dict(COMMENT.findall(comments)), **SAID}
    for name, default in PLAN_SETTINGS.items():
        yield Setting(name, "", default, said[name], "")


def value(default: object) -> str:
    """Format a default as in an inventory."""
    return str(default).lower() if isinstance(default, bool) else str(default)


def table(settings: Iterable[Setting]) -> Iterator[str]:
    """Yield the settings as a Markdown table, with their types if they have any."""
    shown = list(settings)
    typed = any(one.kind for one in shown)
    heads = ("setting", *(["type"] if typed else []), "default", "meaning")
    yield from (f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
    for one in shown:
        given = "" if one.default in (None, "") else f"`{value(one.default)}`"
        cells = (f"`{one.name}`", *([one.kind] if typed else []), given, one.text)
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def settings() -> str:
    """Build the page of all settings."""
    lines = [
        "# Settings",
        "",
        "You can set these variables in your inventory. An unknown name with the prefix of a role or",
        "`fullmesh_` is an error.",
        "",
        "## Cluster plan",
        "",
        *table(of_plan()),
    ]
    by_role: dict[str, list[Setting]] = {}
    for one in of_roles():
        by_role.setdefault(one.owner, []).append(one)
    for role, found in by_role.items():
        lines += [
            "",
            f"## {role}",
            "",
            f"[The role](../roles/{role}/README.md).",
            "",
            *table(found),
        ]
    return "\n".join(lines) + "\n"


# Remove this note: Galaxy does not have the collection. Remove the list too: the theme shows a page's contents.
PUBLISHED = re.compile(
    r"^\.\. note::\n    This (?:role|module) is part of .*?(?=^\S)", re.MULTILINE | re.DOTALL
)
CONTENTS = re.compile(r"^\.\. contents::\n(?:   .*\n)+", re.MULTILINE)


def of_ours(page: str) -> str:
    """Correct a page of antsibull-docs for a collection that is built from a checkout."""
    return CONTENTS.sub("", PUBLISHED.sub("", page))


TITLES: Mapping[str, str] = {"role": "Roles: their arguments", "module": "Modules"}


ANSIBLE = "https://docs.ansible.com/ansible/latest"
# Pages that antsibull-docs' pages refer to and that only Ansible's own documentation has.
OTHERS = (
    "(common_return_values)=",
    "(ansible_collections.amazon.aws.ec2_security_group_module)=",
    "",
    "## In Ansible's own documentation",
    "",
    f"[What every module returns]({ANSIBLE}/reference_appendices/common_return_values.html) and",
    f"[amazon.aws.ec2_security_group]({ANSIBLE}/collections/amazon/aws/ec2_security_group_module.html).",
)


def listing(pages: Iterable[str]) -> str:
    """Build the list of the pages that antsibull-docs generated."""
    lines = [
        "# The collection's roles and modules",
        "",
        "Made by antsibull-docs from the roles' `meta/argument_specs.yml` and the modules' own documentation, under",
        "the names that they have in [the collection](../../docs/collection.md). What a role does to a node says its",
        "own page.",
    ]
    names = sorted(pages)
    for kind, title in TITLES.items():
        own = [name for name in names if name.endswith(f"_{kind}")]
        entries = [f"{name.removesuffix(f'_{kind}')} <{name}>" for name in own]
        lines += ["", f"## {title}", "", "```{toctree}", ":maxdepth: 1", "", *entries, "```"]
    lines += ["", *OTHERS]
    return "\n".join(lines) + "\n"
