"""Fault finders as commands: ``python adapters.py NAME INVENTORY NODE...`` prints one JSON answer.

The answer has the texts ``node``, ``peer``, ``direction`` (``a -> b``) and ``cause``. ``{}`` means: nothing is wrong.
The inventory is a YAML inventory of Ansible with ``ansible_host`` and ``fullmesh_address`` for each node.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 40
PORTS = (29500, 33000, 45000, 60000)  # of the store, and three that a kernel may choose
Answer = dict[str, str]
Outcome = tuple[int, str]


@dataclass(frozen=True)
class Target:
    """A node, with the command that logs in."""

    name: str
    login: tuple[str, ...]
    address: str

    def run_script(self, script: str) -> Outcome:
        """Run a shell script on the node. Return its exit code and its output."""
        try:
            done = subprocess.run(
                [*self.login, script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return 255, "no answer in time"
        return done.returncode, done.stdout


def read_targets(inventory: Path, names: list[str]) -> list[Target]:
    """Read the nodes of an inventory."""
    path = inventory / "hosts.yml" if inventory.is_dir() else inventory
    data: Any = yaml.safe_load(path.read_text())["all"]
    hosts, common = data["children"]["torch_nodes"]["hosts"], data.get("vars", {})
    targets = []
    for name in names:
        own = {**common, **hosts[name]}
        login = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
        login += shlex.split(own.get("ansible_ssh_common_args", ""))
        if key := own.get("ansible_ssh_private_key_file"):
            login += ["-i", key]
        login += ["-l", own.get("ansible_user", "root"), own["ansible_host"]]
        targets.append(Target(name, tuple(login), own["fullmesh_address"].partition("/")[0]))
    return targets


def ask_pairs(targets: list[Target], script: str) -> Iterator[tuple[Target, Target, Outcome]]:
    """Run a script for each ordered pair at once. It has ``{to}``, the cluster address of the other node."""
    pairs = list(permutations(targets, 2))
    with ThreadPoolExecutor(len(pairs)) as pool:
        jobs = [
            pool.submit(one.run_script, script.format(to=other.address)) for one, other in pairs
        ]
        for (one, other), job in zip(pairs, jobs, strict=True):
            yield one, other, job.result()


def blame_link(one: Target, other: Target, cause: str) -> Answer:
    """Report a link. The usual guess is that the far end is broken."""
    return {
        "node": other.name,
        "peer": one.name,
        "direction": f"{one.name} -> {other.name}",
        "cause": cause,
    }


def ask_fullmesh(inventory: Path, _targets: list[Target]) -> Answer:
    """``./fullmesh diagnose``."""
    command = ["./fullmesh", "diagnose", "-i", str(inventory), "--json", "--deadline", "80"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    findings = json.loads(done.stdout[done.stdout.index("{") :])["findings"]
    # DG-166: the addresses of these nodes are set by hand and lost after a boot
    findings = [one for one in findings if one["code"] != "DG-166"]
    if not findings:
        return {}
    first = findings[0]
    cause = f"{first['code']} {first['cause']} {first['seen']}"
    return {**{key: first[key] for key in ("node", "peer", "direction")}, "cause": cause}


def ask_ping(_inventory: Path, targets: list[Target]) -> Answer:
    """Three small packets in each direction."""
    for one, other, (code, output) in ask_pairs(targets, "ping -c 3 -i 0.3 -W 1 {to}"):
        lost = re.search(r"([\d.]+)% packet loss", output)
        if code or (lost and lost[1] != "0"):
            return blame_link(one, other, f"ping: {lost[0] if lost else output.strip()[-80:]}")
    return {}


def ask_large_ping(_inventory: Path, targets: list[Target]) -> Answer:
    """Ping in each direction with packets of the full size, which must not be fragmented."""
    for one, other, (code, output) in ask_pairs(
        targets, "ping -M do -s 1472 -c 3 -i 0.3 -W 1 {to}"
    ):
        if code:
            return blame_link(one, other, f"mtu: full-size ping fails: {output.strip()[-80:]}")
    return {}


def ask_ports(_inventory: Path, targets: list[Target]) -> Answer:
    """Run a TCP server on four ports of each node, and connect to all of them from each other node."""
    serve = (
        'python3 -c \'import socket, time; held = [socket.create_server(("0.0.0.0", one)) for one in '
        f"{PORTS}]; time.sleep({SECONDS})' > /dev/null 2>&1 & sleep 1; kill -0 $! && echo $!"
    )
    with ThreadPoolExecutor(len(targets)) as pool:
        served = list(pool.map(lambda one: one.run_script(serve), targets))
        try:
            for one, (code, output) in zip(targets, served, strict=True):
                if code:
                    cause = f"port: no server can start: {output.strip()[-80:]}"
                    return {"node": one.name, "cause": cause}
            return try_ports(targets)
        finally:  # the next finder needs the same nodes, with the ports closed
            wait = "for _ in 1 2 3 4 5 6 7 8 9; do kill -0 $pid || break; sleep 0.1; done"
            ends = [
                "true" if code else f"pid={output.strip()}; kill $pid; {wait}"
                for code, output in served
            ]
            list(pool.map(Target.run_script, targets, ends))


def try_ports(targets: list[Target]) -> Answer:
    """Connect from each node to the ports of each other node."""
    tried = "; ".join(
        f"timeout 2 bash -c '</dev/tcp/{{to}}/{port}' 2>&1 || echo BAD {port} $?" for port in PORTS
    )
    for one, other, (code, output) in ask_pairs(targets, tried):
        bad = re.findall(r"BAD (\d+) (\d+)", output)
        if code or bad:
            word = "drop" if any(status == "124" for _, status in bad) else "refused"
            return blame_link(one, other, f"{word}: port {', '.join(port for port, _ in bad)}")
    return {}


def ask_ansible(inventory: Path, targets: list[Target]) -> Answer:
    """``ansible -m ping``."""
    names = ",".join(one.name for one in targets)
    command = ["ansible", "-i", str(inventory), names, "-m", "ping", "-o"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    for line in done.stdout.splitlines():
        if " | " in line and "SUCCESS" not in line:
            return {"node": line.partition(" | ")[0], "cause": line[:160]}
    return {}


GPU_FIELDS = "name,driver_version,ecc.errors.uncorrected.volatile.total,persistence_mode,compute_mode,mig.mode.current"


def ask_nvidia_smi(_inventory: Path, targets: list[Target]) -> Answer:
    """``nvidia-smi`` on each node: errors, and values that differ between nodes or GPUs."""
    script = f"command -v nvidia-smi > /dev/null || exit 0; nvidia-smi --query-gpu={GPU_FIELDS} --format=csv,noheader"
    seen = [(one, *one.run_script(script)) for one in targets]
    for one, code, output in seen:
        if code:
            return {"node": one.name, "cause": f"nvidia-smi: {output.strip()[-120:]}"}
        for row in output.splitlines():
            if (errors := row.split(", ")[2:3]) and errors[0].isdecimal() and errors[0] != "0":
                return {"node": one.name, "cause": f"ecc: {row}"}
    first = seen[0][2]
    for one, _code, output in seen[1:]:
        if output != first:
            return {"node": one.name, "peer": seen[0][0].name, "cause": "gpu: the GPUs differ"}
    return {}


ADAPTERS: dict[str, Callable[[Path, list[Target]], Answer]] = {
    "fullmesh": ask_fullmesh,
    "ping": ask_ping,
    "full-size ping": ask_large_ping,
    "ports": ask_ports,
    "ansible ping": ask_ansible,
    "nvidia-smi": ask_nvidia_smi,
}
# These do not see each other, so they are asked at once. Every other finder is asked alone.
TOGETHER = ("ping", "full-size ping", "ports", "ansible ping", "nvidia-smi")


def main(name: str, inventory: str, *nodes: str) -> None:
    """Print the answer of one adapter."""
    path = Path(inventory)
    print(json.dumps(ADAPTERS[name](path, read_targets(path, list(nodes)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
