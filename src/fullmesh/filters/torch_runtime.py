"""Provide the choice of wheels to Ansible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.border import validate_registered
from fullmesh.model.auto import AUTO
from fullmesh.observed.torch import VenvSeen, WheelhouseResult, WheelSource
from fullmesh.plain import to_json_value
from fullmesh.roles import accelerators, torch_runtime
from fullmesh.settings import ROOT


def torch_runtime_files(domain: bool) -> str:
    """Return the folder of the committed locks. Playbooks use it too, because role_path only exists in the role.

    Args:
        domain: the locks with torchvision and torchaudio.
    """
    return torch_runtime.choose_lock_folder(str(ROOT / "roles/torch_runtime/files"), domain=domain)


def torch_runtime_made_for(asked: str, plan: Any, host: str, facts: Any, options: Any) -> str:
    """Return the accelerator of torch on *host*. For auto, use the plan or, without a survey, the machine itself.

    Args:
        asked: torch_runtime_accelerator.
        plan: the cluster plan, {} without.
        host: inventory name.
        facts: its result of node_facts.
        options: ``torch`` and ``lock``, as in model.types.AutoSettings.
    """
    node = to_json_value(plan).get("nodes", {}).get(str(host), {}) if asked == AUTO and plan else {}
    if asked != AUTO or node.get("accelerator"):
        return str(node.get("accelerator") or asked)
    seen = to_json_value(facts)["fullmesh"]["accelerators"]
    try:
        return accelerators.choose_torch_build(
            str(host), str(options["torch"]), str(options["lock"]), seen
        )
    except accelerators.UndecidedError as why:
        raise AnsibleFilterError(str(why)) from why


def torch_runtime_lock(version: str, files: str, wanted: str, own: str) -> str:
    """Return the path of the lock for torch *version*."""
    return torch_runtime.choose_lock_file(files, str(version), wanted, own)


def torch_runtime_index(own: str, files: str, version: str, wanted: str) -> str:
    """Return the index of the accelerator's wheels, or *own* if set."""
    return torch_runtime.choose_package_index(files, str(version), wanted, own)


def torch_runtime_asks(interpreter: str, lock: str) -> bool:
    """Return whether the interpreter must be queried for its version: its name has none, and the lock needs one."""
    path = Path(lock)
    held = (
        torch_runtime.parse_lock_targets(path.read_text(encoding="utf-8"))
        if path.is_file()
        else None
    )
    return bool(held) and not torch_runtime.find_python_version(interpreter, "")


def torch_runtime_python_faults(
    interpreter: str, seen: str, machine: str, lock: str, node: str
) -> list[str]:
    """Return an error message with its code if *lock* has no wheels for the Python or architecture of *node*."""
    found = torch_runtime.find_python_faults(node, str(interpreter), str(seen), str(machine), lock)
    return [str(fault) for fault in found]


def read_venv_seen(hostvars: Any, host: str) -> VenvSeen | None:
    """Return the result of torch_venv on a host, or None if it was not queried or did not answer."""
    said = hostvars[host].get("__torch_runtime_seen") or {}
    return (
        validate_registered(VenvSeen, said, f"torch_venv on {host}") if "needed" in said else None
    )


def read_wheel_settings(hostvars: Any, host: str) -> torch_runtime.WheelSettings:
    """Return the controller's own settings for a host's download, never those from the host's answer."""
    found = hostvars[host]["__torch_runtime_wanted"]
    return {"lock": str(found["lock"]), "index": str(found["index"])}


def torch_runtime_targets(hostvars: Any, hosts: list[str]) -> list[torch_runtime.WheelTarget]:
    """List the downloads for *hosts*, each once."""
    found = [(host, read_venv_seen(hostvars, host)) for host in hosts]
    return torch_runtime.list_wheel_targets(
        [(read_wheel_settings(hostvars, host), seen) for host, seen in found if seen]
    )


def find_wheels(results: list[Any], seen: VenvSeen, lock: str) -> WheelhouseResult:
    """Find the download among *results* for the node that was *seen*, by its *lock*."""
    if not seen["python"]:  # check mode on a bare node: its Python is not installed yet
        return {
            "changed": False,
            "key": "",
            "wheels": {},
            "bundle": "",
            "bundle_bytes": 0,
            "manifest": {},
            "installed_bytes": 0,
        }
    key = torch_runtime.derive_target_key(lock, seen["python"], seen["machine"])
    for result in results:
        if result.get("key") == key:
            return validate_registered(WheelhouseResult, result, "wheelhouse")
    raise AnsibleFilterError(f"torch_runtime_wheels: nothing was downloaded for {key}")


def torch_runtime_wheels(results: list[Any], seen: Any, lock: str) -> WheelhouseResult:
    """Find the download for a node from the result of torch_venv."""
    return find_wheels(results, validate_registered(VenvSeen, seen, "torch_venv"), str(lock))


def torch_runtime_pinned(requirements: str, name: str) -> str:
    """Return the version that the lock's text pins *name* to, or ""."""
    return torch_runtime.parse_lock_pins(requirements).get(name, "")


def torch_runtime_space(seen: Any, wheels: Any, node: str) -> list[str]:
    """Return a coded sentence if *node* lacks the space."""
    there = validate_registered(VenvSeen, seen, f"torch_venv on {node}")
    return [
        str(fault) for fault in torch_runtime.find_space_faults(node, there, to_json_value(wheels))
    ]


def torch_runtime_handover(
    results: list[Any], hostvars: Any, hosts: list[str], plan: Any
) -> dict[str, torch_runtime.BundleHandover]:
    """Decide which nodes get the bundle from the controller and which from other nodes."""
    nodes = {}
    for host in hosts:
        seen = read_venv_seen(hostvars, host)
        if seen and seen["needed"] and seen["python"]:
            nodes[host] = (
                seen,
                find_wheels(results, seen, read_wheel_settings(hostvars, host)["lock"]),
            )
    return torch_runtime.plan_bundle_handover(nodes, plan)


def torch_runtime_sources(names: list[str], hostvars: Any, plan: Any) -> list[WheelSource]:
    """Return name, address and port of the nodes among *names* that listen."""
    ports = {name: hostvars[name].get("__torch_runtime_share", {}).get("port", 0) for name in names}
    return [
        {"name": name, "address": plan["nodes"][name]["address"], "port": port}
        for name, port in ports.items()
        if port
    ]
