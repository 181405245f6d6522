"""Compare a run of site.yml that changes nothing with the cheapest tools that collect the same data from the hosts.

    fleet="python benchmarks/fleet/fleet.py" PATH=$PWD/.venv/bin:$PATH
    $fleet up 8
    $fleet run -- ansible-playbook -i /run/fullmesh-fleet/inventory benchmarks/fleet/seed.yml
    $fleet run -- python benchmarks/fleet/compare.py [--rounds 5] [--pyinfra PATH]
    $fleet down

The kinds are interleaved, so that a noisy machine affects all in the same way. The output has for each kind the median
of the seconds, the controller's CPU time per host (Ansible and all its children, without the hosts' own work) and the
largest resident size. ``start`` is Ansible without any task. The ratios are printed with and without it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FLEET = Path("/run/fullmesh-fleet")
PARALLEL = 50
FOREIGN = ("bare ssh script", "pyinfra")
# 40 values of a host, queried by a simple script.
THINGS = """
for f in /etc/hosts /etc/fstab /etc/passwd /etc/group /etc/os-release; do sha256sum $f; done
for f in 0 1 2 3 4 5 6 7 8 9 10 11 12; do stat -c '%a %u %g %s' /etc/fullmesh/file$f; done
for k in tcp_fin_timeout tcp_rmem tcp_wmem tcp_sack ip_local_port_range ip_local_reserved_ports; do
    cat /proc/sys/net/ipv4/$k; done
for u in chrony firewalld ssh nftables; do systemctl show -p Id,ActiveState,UnitFileState $u.service; done
for p in bash tar grep sed; do dpkg-query -W $p; done
ip -o addr show; ip route show; df -k /; uname -r; hostname; date +%s; nproc; cat /proc/meminfo
"""
# The same values with the facts of pyinfra, if it has them.
PYINFRA = """
from pyinfra import host
from pyinfra.facts import deb, files, hardware, server, systemd

for number in range(13):
    host.get_fact(files.File, path=f"/etc/fullmesh/file{number}")
for name in ("hosts", "fstab", "passwd", "group", "os-release"):
    host.get_fact(files.Sha256File, path=f"/etc/{name}")
for fact in (server.Sysctl, server.Hostname, server.Date, server.Kernel, hardware.Cpus, hardware.Memory,
             hardware.NetworkDevices, deb.DebPackages, systemd.SystemdStatus):
    host.get_fact(fact)
"""


@dataclass(frozen=True)
class Cost:
    """The cost of one run: seconds, CPU seconds of the controller, KiB of its largest process."""

    wall: float
    cpu: float
    memory: int


def hosts() -> dict[str, str]:
    """Return inventory name -> address, from the inventory that fleet.py wrote."""
    lines = (FLEET / "inventory/hosts.yml").read_text().splitlines()
    found, name = {}, ""
    for line in lines:
        word = line.strip()
        if word.startswith("node"):
            name = word.rstrip(":")
        elif word.startswith("ansible_host:"):
            found[name] = word.split()[1]
    return found


def ssh(address: str) -> list[str]:
    """Return the ssh command of the simple script, which uses kept connections."""
    options = [
        "ControlMaster=auto", "ControlPersist=120s", f"ControlPath={FLEET}/bare-%C",
        f"UserKnownHostsFile={FLEET}/keys/known_hosts", "GlobalKnownHostsFile=none",
    ]  # fmt: skip
    return [
        "ssh",
        "-i",
        f"{FLEET}/keys/id",
        *(word for one in options for word in ("-o", one)),
        f"root@{address}",
    ]


def bare(script: Path) -> list[str]:
    """Return the command of a parallel ssh script: one command per host, PARALLEL of them at once."""
    ways = "\n".join(" ".join(ssh(address)) for address in hosts().values())
    script.write_text(ways + "\n")
    return [
        "sh",
        "-c",
        f"xargs -P {PARALLEL} -I WAY sh -c 'WAY \"$0\" > /dev/null' '{THINGS.replace(chr(39), chr(34))}' < {script}",
    ]


def cost(command: list[str], env: dict[str, str]) -> Cost:
    """Run a command, which must succeed, and return its cost."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=said, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            sys.exit(
                f"{command[:4]} ended with {process.returncode}:\n{said.read().decode()[-3000:]}"
            )
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss)


def kinds(folder: Path, pyinfra: str) -> dict[str, list[str]]:
    """Return the commands that are compared."""
    (folder / "start.yml").write_text("- {hosts: localhost, gather_facts: false, tasks: []}\n")
    inventory = ["-i", str(FLEET / "inventory")]
    found = {
        "bare ssh script": bare(folder / "ways"),
        "start": ["ansible-playbook", *inventory, str(folder / "start.yml")],
        "ansible ping": ["ansible", *inventory, "-m", "ping", "torch_nodes"],
        "no change": ["ansible-playbook", *inventory, "site.yml", "--skip-tags", "verify"],
    }
    if pyinfra:
        (folder / "facts.py").write_text(PYINFRA)
        (folder / "fleet.py").write_text(
            f"hosts = {list(hosts().values())!r}, "
            + repr(
                {
                    "ssh_user": "root",
                    "ssh_key": f"{FLEET}/keys/id",
                    "ssh_known_hosts_file": f"{FLEET}/keys/known_hosts",
                }
            )
            + "\n"
        )
        found["pyinfra"] = [pyinfra, "-y", str(folder / "fleet.py"), str(folder / "facts.py")]
    return found


def main() -> None:
    """Run the commands interleaved, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pyinfra", default="", help="where its command is")
    parser.add_argument("--only", nargs="*", help="names of kinds")
    args = parser.parse_args()
    count = len(hosts())
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": ""}
    took: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder:
        every = kinds(Path(folder), args.pyinfra)
        every = {kind: every[kind] for kind in args.only or every}
        # one run in advance: connections are made, files are read from the disk
        for command in every.values():
            cost(command, env)
        for _ in range(args.rounds):
            for kind, command in every.items():
                took.setdefault(kind, []).append(cost(command, env))
    wall = {kind: statistics.median(one.wall for one in held) for kind, held in took.items()}
    start = wall.get("start", 0.0)
    bar = wall.get("bare ssh script", 0.0)
    for kind, held in took.items():
        cpu = statistics.median(one.cpu for one in held)
        # commands without Ansible do not have its start
        began = took["start"] if "start" in took and kind not in FOREIGN else []
        own = cpu - (statistics.median(one.cpu for one in began) if began else 0)
        memory = max(one.memory for one in held) / 1024
        later = wall[kind] - (start if began else 0)
        ratio = f"{wall[kind] / bar:5.1f} x bare, {later / bar:5.1f} without start" if bar else ""
        print(
            f"{kind:<16} {wall[kind]:6.2f} s  CPU {cpu:6.2f} s, {own / count * 1000:6.1f} ms a host beyond "
            f"start  {memory:4.0f} MiB  {ratio}"
        )
    print(
        f"{count} hosts, {args.rounds} rounds, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    main()
