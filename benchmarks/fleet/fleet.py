"""Hosts for benchmarks: network namespaces with a real sshd each, on one machine. Needs root and Linux.

    python benchmarks/fleet/fleet.py up 200
    python benchmarks/fleet/fleet.py run -- ansible -i /run/fullmesh-fleet/inventory -m ping all
    python benchmarks/fleet/fleet.py down

A host has its own network and host name, its own sshd with its own host key, and its own copy of the file system (an
overlay over this machine's). The controller is a namespace too: ``run`` starts a command in it. This machine's own
network does not change. The programs in stand_ins/ (systemctl and nft) simulate two tools that need an init of the
host's own. They answer in the form of the real ones, as fast as a shell can. Everything else is real: sshd, dpkg,
iproute2, the kernel's settings of a network namespace.

Works on Debian and Ubuntu. If this machine has no sshd, the package is downloaded and unpacked for the hosts only.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATE = Path("/run/fullmesh-fleet")
LAYERS, KEYS, INVENTORY = (STATE / one for one in ("layers", "keys", "inventory"))
# on one file system that is not this machine's root, because overlayfs rejects an upper layer inside a lower one
BASE, UPPER = LAYERS / "base", LAYERS / "upper"
# RFC 2544's range for benchmarks, in namespaces without a route out
NETWORK = ipaddress.IPv4Network("198.18.0.0/16")
MOST = 1000
PREFIX = "fmfleet-"
CONTROLLER = f"{PREFIX}controller"
STARTED_WITHIN = 30.0
SSHD_PACKAGES = ("openssh-server", "openssh-sftp-server", "libwrap0")
CONFIG = """\
Port 22
HostKey /etc/ssh/fleet_host_key
AuthorizedKeysFile /etc/ssh/fleet_authorized_keys
PidFile /run/sshd.pid
PermitRootLogin yes
PasswordAuthentication no
StrictModes no
UsePAM no
UseDNS no
MaxStartups 500:30:1000
Subsystem sftp /usr/lib/openssh/sftp-server
"""
# Gives the host its own file system and name. Then sshd replaces the shell.
HOST = r"""
set -e
name=$1 upper=$2 base=$3
mount --make-rprivate /
mkdir -p "$upper/up" "$upper/work" "$upper/root"
mount -t overlay overlay -o "lowerdir=$base:/,upperdir=$upper/up,workdir=$upper/work" "$upper/root"
for one in proc sys dev; do mount --rbind "/$one" "$upper/root/$one"; done
hostname "$name"
exec chroot "$upper/root" /usr/sbin/sshd -D -f /etc/ssh/fleet_sshd_config -E /var/log/fleet_sshd.log
"""


def call(*argv: str, given: str | None = None) -> str:
    """Return a command's output; exit with its error message if it fails."""
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(argv)[:200]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def names(count: int) -> list[str]:
    """Return node001 and so on: inventory name, host name and, with the prefix, namespace."""
    return [f"node{number:03}" for number in range(1, count + 1)]


def address(number: int) -> ipaddress.IPv4Address:
    """Return the address of a host; the controller is number 0."""
    return NETWORK[number + 1]


def base_layer() -> None:
    """Make the layer that all hosts have above this machine's files: stand-ins, sshd and its settings."""
    for tool in (HERE / "stand_ins").iterdir():
        target = BASE / "usr/bin" / tool.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tool, target)
        target.chmod(0o755)
    for folder in ("run/systemd/system", "run/sshd", "tmp", "etc/ssh", "var/log", "var/root"):
        (BASE / folder).mkdir(parents=True, exist_ok=True)
    (BASE / "tmp").chmod(0o1777)
    (BASE / "run/sshd").chmod(0o755)
    if not Path("/usr/sbin/sshd").exists():
        with tempfile.TemporaryDirectory() as folder:
            fetch = f"cd {folder} && apt-get -q download {' '.join(SSHD_PACKAGES)}"
            call("sh", "-c", fetch)
            for package in Path(folder).glob("*.deb"):
                # not `dpkg -x`, which would make a directory of a link such as /lib
                call("sh", "-c", f"dpkg --fsys-tarfile '{package}' | tar -x -C {folder}")
            for part in ("usr", "lib"):
                call(
                    "cp",
                    "-a",
                    f"{folder}/{part}/.",
                    f"{BASE}/usr{'/lib' if part == 'lib' else ''}/",
                )
    # this machine's root may have a shell that takes 0.5 s to start
    passwd = Path("/etc/passwd").read_text().replace(":/root:", ":/var/root:", 1)
    if "\nsshd:" not in passwd:
        passwd += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    (BASE / "etc/passwd").write_text(passwd)
    (BASE / "etc/ssh/fleet_sshd_config").write_text(CONFIG)
    KEYS.mkdir()
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(KEYS / "id"))
    shutil.copy(KEYS / "id.pub", BASE / "etc/ssh/fleet_authorized_keys")


def wire(hosts: list[str]) -> None:
    """Make a namespace for each host, all on the controller's bridge."""
    call("ip", "netns", "add", CONTROLLER)
    cables = [
        "link add br0 type bridge",
        f"addr add {address(0)}/{NETWORK.prefixlen} dev br0",
        "link set br0 up",
        "link set lo up",
    ]
    for number, name in enumerate(hosts, 1):
        call("ip", "netns", "add", PREFIX + name)
        cables += [
            f"link add v{number} type veth peer name eth0 netns {PREFIX}{name}",
            f"link set v{number} master br0 up",
        ]
    call("ip", "-n", CONTROLLER, "-batch", "-", given="\n".join(cables) + "\n")
    for number, name in enumerate(hosts, 1):
        own = f"addr add {address(number)}/{NETWORK.prefixlen} dev eth0\nlink set eth0 up\nlink set lo up\n"
        call("ip", "-n", PREFIX + name, "-batch", "-", given=own)


def begin(hosts: list[str]) -> None:
    """Start every host's sshd, each with its own host key, which the controller knows."""
    known = []
    for number, name in enumerate(hosts, 1):
        home = UPPER / name / "up/etc/ssh"
        home.mkdir(parents=True)
        key = home / "fleet_host_key"
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key))
        public = key.with_suffix(".pub").read_text().split()
        known.append(f"{address(number)} {public[0]} {public[1]}\n")
        script = ["sh", "-c", HOST, "host", name, str(UPPER / name), str(BASE)]
        process = subprocess.Popen(
            ["ip", "netns", "exec", PREFIX + name, "unshare", "--mount", "--uts", *script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(STATE / "starts.log").open("a"),
            start_new_session=True,
        )
        (STATE / "pids").open("a").write(f"{process.pid}\n")
    (KEYS / "known_hosts").write_text("".join(known))


def inventory(hosts: list[str]) -> None:
    """Write an inventory of the hosts, as a user would."""
    INVENTORY.mkdir()
    lines = ["torch_nodes:", "  hosts:"]
    for number, name in enumerate(hosts, 1):
        there = address(number)
        lines += [
            f"    {name}:",
            f"      ansible_host: {there}",
            f"      fullmesh_address: {there}/{NETWORK.prefixlen}",
            "      fullmesh_interface: eth0",
        ]
    lines += [
        "  vars:",
        "    ansible_user: root",
        "    ansible_python_interpreter: /usr/bin/python3",
        f"    ansible_ssh_private_key_file: {KEYS}/id",
        f"    ansible_ssh_common_args: -o UserKnownHostsFile={KEYS}/known_hosts -o GlobalKnownHostsFile=none",
        f"    fullmesh_controllers: [{address(0)}]",
    ]
    (INVENTORY / "hosts.yml").write_text("\n".join(lines) + "\n")


def up(count: int) -> None:
    """Make the hosts and wait until every sshd listens."""
    if STATE.exists():
        sys.exit(f"there is a fleet already, take it down first: {sys.argv[0]} down")
    hosts = names(count)
    for folder in (STATE, LAYERS):
        folder.mkdir()
    # the hosts' writes stay in memory; this size is the free space that they see
    call("mount", "-t", "tmpfs", "-o", "size=20g,mode=0755", "tmpfs", str(LAYERS))
    BASE.mkdir()
    base_layer()
    wire(hosts)
    begin(hosts)
    inventory(hosts)
    until = time.monotonic() + STARTED_WITHIN
    for name in hosts:
        while ":22 " not in call("ip", "netns", "exec", PREFIX + name, "ss", "-Hltn"):
            if time.monotonic() > until:
                sys.exit(f"{name}: no sshd after {STARTED_WITHIN:.0f} s, see {STATE}/starts.log")
            time.sleep(0.05)
    print(f"{count} hosts; inventory {INVENTORY}")


def inside(name: str) -> list[int]:
    """Return the process ids in a namespace."""
    return [int(one) for one in call("ip", "netns", "pids", name).split()]


def down() -> None:
    """Remove all hosts, also those of an incomplete ``up``."""
    there = [
        one.split()[0] for one in call("ip", "netns", "list").splitlines() if one.startswith(PREFIX)
    ]
    for name in there:
        for pid in inside(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for name in there:
        call("ip", "netns", "delete", name)
    if LAYERS.is_mount():
        call("umount", "-l", str(LAYERS))
    shutil.rmtree(STATE, ignore_errors=True)


def on_host(name: str, command: list[str]) -> int:
    """Run a command on a host, in its file system and its network."""
    pids = inside(PREFIX + name)
    if not pids:
        sys.exit(f"{name} does not run")
    there = ["nsenter", "-t", str(pids[0]), "--mount", "--net", "--uts", "--root", "--wd=/"]
    return subprocess.run([*there, *command], check=False).returncode


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up", help="make hosts").add_argument("count", type=int)
    verbs.add_parser("down", help="take them away")
    verbs.add_parser("run", help="run a command as the controller").add_argument(
        "command", nargs=argparse.REMAINDER
    )
    on = verbs.add_parser("on", help="run a command on a host")
    on.add_argument("host")
    on.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if os.geteuid():
        sys.exit("namespaces need root")
    if args.verb == "up":
        if not 1 <= args.count <= MOST:
            sys.exit(f"{args.count} hosts: from 1 to {MOST}")
        up(args.count)
    elif args.verb == "down":
        down()
    else:
        command = args.command[1:] if args.command[:1] == ["--"] else args.command
        if args.verb == "on":
            sys.exit(on_host(args.host, command))
        inside_it = ["ip", "netns", "exec", CONTROLLER, *command]
        sys.exit(subprocess.run(inside_it, check=False).returncode)


if __name__ == "__main__":
    main()
