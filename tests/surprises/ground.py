"""Two unconfigured lab nodes, with faults, the oracle and the diagnosis on them."""

from __future__ import annotations

import io
import json
import secrets
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.bench import Bench, Node

from devtools.lab.podman import WITHOUT_HOST_CAPABILITIES
from fullmesh.diagnose import inventory, judge, traces
from fullmesh.settings import ROOT
from fullmesh.verify import probe_wants

from .generate import PREF, TABLE, Surprise
from .oracle import ACCOUNT

HERE = "/run/surprises"
NOBODYS = "02:00:00:00:00:99"
CALL_SECONDS, ORACLE_SECONDS = 60, 60
LINK_SECONDS = 1.3  # playbooks/diagnosis/vars.yml
Failed = dict[tuple[str, str, int], str]


def group_nodes(made: Bench) -> list[Ground]:
    """Group the nodes in pairs. Each pair has its own oracle and diagnosis, and a fault stays on its node."""
    names = list(made.nodes)
    found = [Ground(made, two) for two in zip(names[::2], names[1::2], strict=True)]
    for ground in found:
        ground.prepare()
        ground.tidy()
        assert not ground.oracle(), f"{ground.names} are not whole to begin with"
    return found


TIDY = f"""set +e
for family in inet ip netdev; do nft delete table $family {TABLE}; done
ip rule del pref {PREF}; ip route flush table {PREF}; ip xfrm policy flush; tc qdisc del dev eth1 root
ip link set eth1 up mtu 1500 arp on; ip neigh flush dev eth1
"""


@dataclass
class Ground:
    """A pair of nodes.

    Attributes:
        bench: the lab.
        names: of the two nodes.
        macs: of their cluster interfaces.
        variables: of the inventory, for both.
    """

    bench: Bench
    names: tuple[str, ...]
    macs: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)

    def prepare(self) -> None:
        """Copy node code and the oracle to the nodes."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(ROOT / "module_utils/fullmesh", "ansible/module_utils/fullmesh")
            for name in ("agent.py", "oracle.py"):
                tar.add(Path(__file__).parent / name, name)
            for empty in ("ansible/__init__.py", "ansible/module_utils/__init__.py"):
                tar.addfile(tarfile.TarInfo(empty))
        for name in self.names:
            self.run(
                name, f"rm -rf {HERE}; mkdir -p {HERE}; tar -xf - -C {HERE}", packed.getvalue()
            )
            self.macs[name] = self.bench.on(name, "cat /sys/class/net/eth1/address")

    def tidy(self) -> None:
        """Remove the remains of a killed run."""
        for name in self.names:
            self.bench.on(name, TIDY, check=False)

    def enter(self, name: str) -> list[str]:
        """Return the command that enters a node."""
        pid = str(self.bench.nodes[name].pid)
        return [
            "nsenter",
            "-t",
            pid,
            "-m",
            "-u",
            "-i",
            "-n",
            "-p",
            "--",
            *WITHOUT_HOST_CAPABILITIES,
        ]

    def run(self, name: str, script: str, given: bytes, seconds: float = CALL_SECONDS) -> bytes:
        """Run a script on a node with an input."""
        done = subprocess.run(
            [*self.enter(name), "sh", "-euc", script],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C"},
            input=given,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {script}: {done.stderr.decode()[-2000:]}")
        return done.stdout

    def node(self, name: str) -> Node:
        """Return a node of the lab."""
        return self.bench.nodes[name]

    def settings(self, victim: str) -> str:
        """Return the variables of a fault's script."""
        peer = next(name for name in self.names if name != victim)
        values = {
            "OWN": self.node(victim).address,
            "PEER": self.node(peer).address,
            "OWN_MAC": self.macs[victim],
            "MAC": NOBODYS,
        }
        return "".join(f"{name}='{value}'\n" for name, value in values.items())

    @contextmanager
    def broken(self, fault: Surprise) -> Iterator[str]:
        """Make the fault, and undo it after the block."""
        victim = self.names[fault.victim]
        try:
            self.bench.on(victim, self.settings(victim) + fault.script)
            yield victim
        finally:
            self.undo_fault(fault, victim)

    def undo_fault(self, fault: Surprise, victim: str) -> None:
        """Undo a fault, and flush the neighbor entries that were learned under it."""
        self.bench.on(victim, self.settings(victim) + fault.undo.replace("; ", "\n"), check=False)
        for name in self.names:
            self.bench.on(name, "ip neigh flush dev eth1", check=False)

    def all_at_once(self, calls: Mapping[str, tuple[str, bytes]], seconds: float) -> dict[str, Any]:
        """Run one script per node at the same time. Return their JSON outputs."""
        with ThreadPoolExecutor(len(calls)) as pool:
            asked = {n: pool.submit(self.run, n, *call, seconds) for n, call in calls.items()}
            return {n: json.loads(one.result()) for n, one in asked.items()}

    def oracle(self, doubted: Sequence[int] = ()) -> Failed:
        """Return the broken connections of a job's account: (from, to, port) -> error.

        *doubted*: additional ports to try.
        """
        servers = {
            name: subprocess.Popen(
                [
                    *self.enter(name),
                    "python3",
                    f"{HERE}/oracle.py",
                    "serve",
                    self.node(name).address,
                    *(["store"] if name == self.names[0] else []),
                    *map(str, doubted),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for name in self.names
        }
        try:
            listeners = {
                name: json.loads(server.stdout.readline() or "{}")
                for name, server in servers.items()
                if server.stdout
            }
            failed: Failed = {}
            for name, answer in listeners.items():
                for port, error in answer.get("ports", [(0, 99)]):
                    if error:
                        failed |= {
                            (peer, name, port): f"bind: {error}"
                            for peer in self.names
                            if peer != name
                        }
            calls = {name: (self.attempts(name, listeners), b"") for name in self.names}
            for name, found in self.all_at_once(calls, ORACLE_SECONDS).items():
                for key, what in found.items():
                    peer, port = key.split()
                    if what:
                        failed[(name, peer, int(port))] = what
            return failed
        finally:
            for server in servers.values():
                with suppress(OSError):
                    server.communicate(timeout=10)

    def attempts(self, name: str, listeners: Mapping[str, Any]) -> str:
        """Return the command that connects to the others' listeners, at their announced and their cluster addresses."""
        targets = []
        for peer, answer in listeners.items():
            if peer == name:
                continue
            ports = [port for port, error in answer.get("ports", []) if not error]
            targets += [(peer, self.node(peer).address, port) for port in ports]
            if answer and answer["announced"] != self.node(peer).address and ports:
                targets = [one for one in targets if one[0] != peer]
                targets += [(peer, answer["announced"], port) for port in ports]
        return f"python3 {HERE}/oracle.py try '{json.dumps(targets)}'"

    def call(self, what: str, wants: Mapping[str, Any]) -> dict[str, Any]:
        """Run one of the probe's calls on all nodes at once."""
        script = f"PYTHONPATH={HERE} python3 {HERE}/agent.py"
        calls = {
            name: (script, json.dumps({"call": what, "want": want}).encode())
            for name, want in wants.items()
        }
        return self.all_at_once(calls, CALL_SECONDS)

    def diagnose(self) -> dict[str, Any]:
        """Return the result of `./fullmesh diagnose` for an inventory with two addresses."""
        variables = {
            n: {
                "ansible_host": self.node(n).management,
                "fullmesh_address": self.node(n).address,
                **self.variables,
            }
            for n in self.names
        }
        plan = inventory.build_tolerant_plan(variables, list(self.names))
        run, token, begun = (
            f"s{time.monotonic_ns()}",
            secrets.token_hex(16),
            time.strftime("%FT%T+00:00", time.gmtime()),
        )
        looks = {}
        for name in self.names:
            wants = inventory.build_node_request(plan, name, variables[name])
            looks[name] = {
                "run": run,
                "token": token,
                "node": name,
                "hosts": plan["hosts"],
                "samples": 3,
                "outside": False,
                "allowed": [],
                "survey": True,
                "beside": True,
                "listen": True,
                "assumed": plan["assumed"],
                "lifetime": 60,
                "as_job": True,
                **wants,
            }
        node = self.call("node", looks)
        opened = {name: answer["ports"] for name, answer in node.items()}
        links = self.call(
            "links",
            {
                name: {
                    "targets": probe_wants.list_probe_targets(plan, opened, name),
                    "seconds": LINK_SECONDS,
                    "as_job": True,
                    "job_user": self.variables.get("launchers_job_user", str(ACCOUNT)),
                    "node": name,
                    "address": plan["nodes"][name]["address"],
                    "token": token,
                }
                for name in self.names
            },
        )
        observed = {n: {"node": node[n], "links": links[n]} for n in self.names}
        look = judge.build_evidence(plan, observed, judge.DiagnosisRun(run, begun, begun))
        asked = {
            name: {**want, "token": token, "seconds": LINK_SECONDS}
            for name, want in traces.build_trace_requests(look).items()
        }
        if asked:
            for name, answer in self.call("trace", asked).items():
                observed[name]["traced"] = answer
        started = self.call("stop", {name: {"run": run, "state": "started"} for name in self.names})
        for name in self.names:
            observed[name]["started"] = started[name]
        ended = time.strftime("%FT%T+00:00", time.gmtime())
        return dict(judge.diagnose_cluster(plan, observed, judge.DiagnosisRun(run, begun, ended)))
