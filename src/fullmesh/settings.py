"""Know the names of all settings: settable names, derived names, and likely typing errors.

Ansible's argument specs do not catch a misspelled variable (ansible#75098), so the plan does, for all hosts at once.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fullmesh.faults import Fault

PACKAGE = Path(__file__).resolve().parent
IN_CHECKOUT = (PACKAGE.parent.parent / "site.yml").is_file()
# A wheel has the playbooks inside the package (shell/build.py), an Ansible collection next to it.
PACKED = PACKAGE / "tree"
ROOT = PACKED if PACKED.is_dir() and not IN_CHECKOUT else PACKAGE.parent.parent
HAS_PLAYBOOKS = (ROOT / "playbooks").is_dir()
# The command line changes to the checkout after it has imported this. A file that the user names is relative to here.
try:
    STARTED_IN = Path.cwd()
except OSError:  # the folder is gone
    STARTED_IN = Path("/")
# The folder for files that the controller creates. Do not write into an installed package or collection.
KEPT = ROOT if IN_CHECKOUT else STARTED_IN
RUNS = KEPT / "runs"
PREFIX = "fullmesh_"
# libyaml's loader, if PyYAML has it, takes a tenth of the time in every run
LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SWAPPED = 2  # letters

# The plan's own settings and their defaults. None: the user must set it, or it is derived.
PLAN_SETTINGS: dict[str, Any] = {
    "fullmesh_address": None,
    "fullmesh_interface": "",
    "fullmesh_links": None,
    "fullmesh_rails": [],
    "fullmesh_local_ranks": "auto",
    "fullmesh_node_rank": None,
    "fullmesh_hostname": "",
    "fullmesh_master": "",
    "fullmesh_master_port": 29500,
    "fullmesh_rendezvous_port": 29400,
    "fullmesh_data_ports": "auto",
    "fullmesh_process_groups": 8,
    "fullmesh_services": [],
    "fullmesh_controllers": [],
    "fullmesh_routed": False,
    "fullmesh_expected_nodes": 0,
    "fullmesh_converge": "auto",
    "fullmesh_serial": "100%",
    "fullmesh_wait_seconds": 600,
    "fullmesh_ssh_address": "",
    "fullmesh_bundle": "",
}
# One value for the whole cluster: a host that differs is a fault.
CLUSTER_WIDE = (
    "fullmesh_master",
    "fullmesh_master_port",
    "fullmesh_rendezvous_port",
    "fullmesh_data_ports",
    "fullmesh_process_groups",
    "fullmesh_services",
    "fullmesh_controllers",
    "fullmesh_rails",
    "fullmesh_routed",
    "fullmesh_serial",
    "fullmesh_expected_nodes",
)
# Fullmesh's facts, which share the prefix of the settings.
FACTS = frozenset(
    {"fullmesh_plan", "fullmesh_node", "fullmesh_owned", "fullmesh_notes", "fullmesh_bootstrap"}
)
# Settings of release 0.2 -> those that replace them, and how to write their values.
RENAMED = {
    "fullmesh_nodes": "fullmesh_expected_nodes",
    "fullmesh_service_ports": "fullmesh_services",
    "peer_firewall_extra_ports": "fullmesh_services",
    "peer_firewall_start": "peer_firewall_existing_services",
    "time_sync_only": "time_sync_disable_other_sources",
    "verify_cluster_clock_limit": "verify_cluster_clock_limit_seconds",
    "verify_cluster_deadline": "verify_cluster_deadline_seconds",
    "verify_cluster_init_timeout": "verify_cluster_init_timeout_seconds",
    "verify_cluster_link_deadline": "verify_cluster_link_deadline_seconds",
    "verify_cluster_rungs": "verify_cluster_checks",
}
RENAMED_VALUES = {
    "fullmesh_service_ports": "{name: NAME, ports: [PORT], reach: none}",
    "peer_firewall_extra_ports": "{name: NAME, ports: [PORT/PROTOCOL]}",
    "peer_firewall_start": "open instead of carry, block instead of cut",
}
# Settings that control a run but do not change a node's state.
NOT_STATE = (
    "fullmesh_bundle",
    "fullmesh_converge",
    "fullmesh_expected_nodes",
    "fullmesh_serial",
    "fullmesh_ssh_address",
    "fullmesh_wait_seconds",
    "verify_cluster_",
    "preflight_",
)


@dataclass(frozen=True, eq=False)
class SettingNames:
    """The names of all settings.

    Attributes:
        settable: names that an inventory may set.
        wired: role variable -> the plan value that fills it (playbooks/vars/wiring.yml).
        prefixes: prefixes of Fullmesh's names.
        roles: names of roles, which count as well (``selinux_mode``).
    """

    settable: frozenset[str]
    wired: Mapping[str, str]
    prefixes: tuple[str, ...]
    roles: frozenset[str] = field(default_factory=frozenset)

    def ours(self, name: str) -> bool:
        """Return whether *name* has one of Fullmesh's prefixes."""
        return name in self.roles or name.startswith(self.prefixes)


def _load_yaml(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return yaml.load(text, Loader=LOADER) or {}  # noqa: S506 (one of the two safe ones)


@cache
def load_setting_names(root: Path = ROOT) -> SettingNames:
    """Read the names from the roles' argument specs and the wiring of the tree at *root*."""
    options: set[str] = set()
    roles: set[str] = set()
    for spec in sorted(root.glob("roles/*/meta/argument_specs.yml")):
        roles.add(spec.parent.parent.name)
        options |= set(_load_yaml(spec)["argument_specs"]["main"].get("options", {}))
    wiring = root / "playbooks/vars/wiring.yml"
    wired = (
        {name: str(value) for name, value in _load_yaml(wiring).items()} if wiring.exists() else {}
    )
    return SettingNames(
        settable=frozenset((options | PLAN_SETTINGS.keys()) - wired.keys()),
        wired=wired,
        prefixes=(PREFIX, *(f"{role}_" for role in sorted(roles))),
        roles=frozenset(roles),
    )


@cache
def load_role_defaults(root: Path = ROOT) -> Mapping[str, Any]:
    """Load the default of every role setting that has one."""
    found: dict[str, Any] = {}
    for spec in sorted(root.glob("roles/*/meta/argument_specs.yml")):
        for name, option in _load_yaml(spec)["argument_specs"]["main"].get("options", {}).items():
            if "default" in option:
                found[name] = option["default"]
    return found


def select_own_names(variables: Iterable[str], names: SettingNames) -> list[str]:
    """Select Fullmesh's names among *variables*, without facts."""
    return sorted(name for name in variables if names.ours(name) and name not in FACTS)


def count_common_prefix(first: str, second: str) -> int:
    """Count the letters that two names share at their beginning."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def is_one_edit(first: str, second: str) -> bool:
    """Return whether one added, missing, different or swapped letter turns one name into the other."""
    start = count_common_prefix(first, second)
    one, two = first[start:], second[start:]
    end = count_common_prefix(one[::-1], two[::-1])
    one, two = one[: len(one) - end], two[: len(two) - end]
    swapped = len(one) == SWAPPED and one == two[::-1]
    return first != second and (swapped or max(len(one), len(two)) == 1)


@cache
def guess_setting(name: str, names: SettingNames) -> str:
    """Guess the setting that a misspelled name means. Return an empty text if there is none."""
    near = next((one for one in sorted(names.settable) if is_one_edit(name, one)), "")
    word = name.partition("_")[0]
    if not near and "_" in name and is_one_edit(f"{word}_", PREFIX):
        right = PREFIX + name.partition("_")[2]
        found = difflib.get_close_matches(right, names.settable, n=1, cutoff=0.0)
        near = found[0] if found else ""
    return near


def describe_new_name(name: str) -> str:
    """Name the setting that replaces one of an earlier release, or return ""."""
    new, value = RENAMED.get(name, ""), RENAMED_VALUES.get(name, "")
    return f"{new}: {value}" if value else new


def find_setting_faults(host: str, variables: Iterable[str], names: SettingNames) -> list[Fault]:
    """Return a fault for each unknown or derived name with Fullmesh's prefixes, and for misspelled names."""
    faults = [
        Fault("PL-134", f"{host}: {name} is not a setting", f"Did you mean {near}")
        for name in sorted(variables)
        if not names.ours(name) and (near := guess_setting(name, names))
    ]
    for name in select_own_names(variables, names):
        if name in names.wired:
            faults.append(
                Fault(
                    "PL-102",
                    f"{host}: {name} is derived from the cluster plan ({names.wired[name]}) and was set",
                    "Remove it and set the plan's own setting, see inventory/prod",
                )
            )
        elif new := describe_new_name(name):
            faults.append(Fault("PL-136", f"{host}: {name} was replaced", f"Fix: use {new}"))
        elif name not in names.settable:
            faults.append(
                Fault(
                    "PL-101",
                    f"{host}: unknown setting {name}",
                    _suggest_settings(name, names.settable),
                )
            )
    return faults


def _suggest_settings(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if near:
        return f"Did you mean {near[0]}"
    prefix = name.split("_", 1)[0] + "_"
    same = sorted(other for other in known if other.startswith(prefix))
    return f"Known: {', '.join(same or sorted(known))}"
