"""Configure nodes on which other programs work: podman, fail2ban, keepalived, bird and NFS keep working.

Real, from packages: podman 4 with netavark and aardvark-dns (network, published port, name server
of containers); fail2ban with a ban; keepalived on both nodes, which agree by VRRP on the owner of
the address; bird with a route; an NFS server (nfs-ganesha, which needs no kernel module) and NFS 4
calls of a program (libnfs), because a container can neither load nfsd nor mount. Each check uses a
new connection from the other node.

Not real: the distributions (docs/development/lab.md), the kernel's NFS server and client, and the
objects that tests/e2e/test_neighbours.py makes by hand. Making the packages takes half a minute,
installing them a minute.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import power
import pytest
from plays import read_output, run

from devtools.lab.paths import find
from devtools.lab.podman import Podman

from .conftest import expect_success, site

LAB = "e2e-real"
PARTS = ("--tags", "network,firewall,tuning", "-e", "peer_firewall_existing_services=open")
SETTLE_SECONDS = 90
BANNED = "203.0.113.7"
ROUTE = "198.51.100.0/24"
# The EL node has a firewalld that its user opened for the services. The Ubuntu node has none.
FIREWALL = """
systemctl enable -q --now firewalld
firewall-cmd -q --state
firewall-cmd -q --permanent --add-port=2049/tcp
firewall-cmd -q --permanent --add-protocol=vrrp
firewall-cmd -q --reload
"""
# Podman in a container: overlayfs cannot be nested, so its storage copies (vfs). A cgroup of its
# own would need a device filter, for which crun raises its memlock limit, and a lab's root may not
# do that. The address is fixed so that rules can be compared after a reboot.
PODMAN = """
set -eu
mkdir -p /etc/containers /root/image/bin /root/image/www
cat > /etc/containers/storage.conf <<'END'
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
END
policy=/etc/containers/policy.json
[ -e $policy ] || echo '{{"default":[{{"type":"insecureAcceptAnything"}}]}}' > $policy
cp "$(command -v busybox)" /root/image/bin/busybox
echo {name} > /root/image/www/index.html
tar -C /root/image -c . | podman import - localhost/web
podman network create --subnet 10.89.7.0/24 site
cat > /etc/systemd/system/web.service <<'END'
[Unit]
Description=a container of the user's own
After=network-online.target
Wants=network-online.target
[Service]
ExecStartPre=-/usr/bin/podman rm -f -t 0 web
ExecStart=/usr/bin/podman run --rm --name web --cgroups=disabled --network site --ip 10.89.7.10 -p 8080:80 \\
  localhost/web /bin/busybox httpd -f -p 80 -h /www
ExecStop=/usr/bin/podman stop -t 1 web
Restart=always
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload && systemctl enable -q --now web
"""
KEEPALIVED = """
cat > /etc/keepalived/keepalived.conf <<'END'
vrrp_instance site {{
  state BACKUP
  interface eth1
  virtual_router_id 51
  priority {priority}
  advert_int 1
  virtual_ipaddress {{
    {vip}/32 dev eth1
  }}
}}
END
systemctl enable -q keepalived && systemctl restart keepalived
"""
BIRD = """
cat > /etc/bird/bird.conf <<'END'
router id 192.0.2.{number};
protocol device {{ }}
protocol kernel {{ ipv4 {{ export all; }}; }}
protocol static {{ ipv4; route {route} via {gateway}; }}
END
systemctl enable -q bird && systemctl restart bird
"""
# Its files are in memory, because a node's overlayfs has no file handles.
NFS = """
printf 'd /run/export\\nf /run/export/who 0644 - - - {name}\\n' > /etc/tmpfiles.d/export.conf
systemd-tmpfiles --create /etc/tmpfiles.d/export.conf
cat > /etc/ganesha/ganesha.conf <<'END'
NFS_CORE_PARAM {{ Protocols = 4; }}
NFSv4 {{ Graceless = true; }}
EXPORT {{
  Export_Id = 1; Path = /run/export; Pseudo = /export; Access_Type = RW; Squash = none; SecType = sys;
  FSAL {{ Name = VFS; }}
}}
END
systemctl enable -q nfs-ganesha && systemctl restart nfs-ganesha
"""
# As in the distributions' packages: EL's fail2ban uses firewalld, others write iptables' or
# nftables' rules.
ACTIONS = {
    "el": {"sshd": "firewallcmd-rich-rules"},
    "ubuntu": {"sshd": "iptables-multiport", "sshd-too": "nftables-multiport"},
}
JAIL = """
[{jail}]
enabled = true
filter = sshd
backend = polling
logpath = /var/log/auth.log
bantime = 1d
banaction = {action}
"""
FAIL2BAN = """
touch /var/log/auth.log
cat > /etc/fail2ban/jail.d/site.conf
rm -f /etc/fail2ban/jail.d/defaults-debian.conf
systemctl enable -q fail2ban && systemctl restart fail2ban
for _ in $(seq 50); do fail2ban-client ping > /dev/null 2>&1 && break; sleep 0.2; done
"""
# Their rules in the kernel and in firewalld, in order. A container gets another number at each
# start.
LOOK = """
iptables-save | grep -e '^[-*]' | sed 's/ id: [0-9a-f]*//'
nft -s list table inet f2b-table 2> /dev/null | grep -v '^table' || true
ip route show proto bird
if firewall-cmd -q --state 2> /dev/null; then firewall-cmd --zone=public --list-rich-rules; fi
"""
# From inside the container: the node's name server and an outside address.
OUT = """
podman exec web /bin/busybox nslookup web 10.89.7.1 2> /dev/null | grep -o '10[.]89[.]7[.]10$'
printf 'GET / HTTP/1.0\\r\\n\\r\\n' | podman exec -i web /bin/busybox nc -w 3 {peer} 8080 2> /dev/null | tail -n 1
"""
# The owners' own commands to restore their rules after a manual reload of firewalld, which they do
# not notice.
OWNERS = "podman network reload --all > /dev/null 2>&1 && systemctl restart fail2ban"


class Lab:
    """A lab of its own, with real neighbors."""

    def __init__(self) -> None:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB, "--dhcp").code == 0
        status: dict[str, Any] = json.loads(
            read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
        )
        if status["image_source"] != "lookalike":
            pytest.skip("the packages are made for look-alikes")
        self.inventory = status["inventory"].rsplit("/", 1)[0]
        self.containers = {one["name"]: one["container"] for one in status["nodes"]}
        self.leases = {one["name"]: one["management_address"] for one in status["nodes"]}
        self.planned = {
            one["name"]: one["cluster_address"].partition("/")[0] for one in status["nodes"]
        }
        self.names = sorted(self.leases)
        self.net = self.leases[self.names[0]].rpartition(".")[0]
        self.vip = f"{self.net}.200"
        self.podman = Podman(find())
        self.podman.prepare()

    def on(self, name: str, script: str, stdin: str | None = None) -> str:
        """Run a shell script on a node. Return its standard output."""
        words = ("exec", "-i", self.containers[name], "sh", "-c", script)
        done = self.podman.run(*words, stdin=stdin, timeout=300)
        assert done.returncode == 0, f"{name}: {script}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def asked(self, name: str, script: str) -> str:
        """Return the output of a script on a node, whether it fails or not."""
        done = self.podman.run("exec", self.containers[name], "sh", "-c", script, timeout=60)
        return done.stdout.strip()

    def other(self, name: str) -> str:
        return next(one for one in self.names if one != name)

    def make(self) -> None:
        """Install and start the neighbors."""
        packages = run(sys.executable, "-m", "devtools.lab.neighbours", "--name", LAB, seconds=1800)
        assert packages.code == 0, packages.output
        for number, name in enumerate(self.names, 1):
            family = name.rstrip("0123456789")
            if family == "el":
                self.on(name, f"set -e; dnf -q -y install firewalld; {FIREWALL}")
            jails = ACTIONS[family].items()
            text = "".join(JAIL.format(jail=jail, action=action) for jail, action in jails)
            self.on(name, FAIL2BAN, stdin=text)
            for jail, _ in jails:
                self.on(name, f"fail2ban-client set {jail} banip {BANNED}")
            self.on(name, PODMAN.format(name=name))
            self.on(name, KEEPALIVED.format(priority=200 - number, vip=self.vip))
            gateway = f"{self.net}.1"
            self.on(name, BIRD.format(number=number, route=ROUTE, gateway=gateway))
            self.on(name, NFS.format(name=name))

    def view(self) -> dict[str, list[str]]:
        """Return the neighbors' rules in the kernels and in firewalld."""
        return {name: self.on(name, LOOK).splitlines() for name in self.names}

    def works(self, addresses: dict[str, str]) -> dict[str, str]:
        """Return the answers that each node gets from the other one, over new connections."""
        found = {}
        for name in self.names:
            peer = addresses[self.other(name)]
            found[f"{name}: port"] = self.asked(name, f"curl -s -m 5 http://{peer}:8080/")
            found[f"{name}: VIP"] = self.asked(name, f"curl -s -m 5 http://{self.vip}:8080/")
            nfs = (
                f"timeout 20 nfs-cat 'nfs://{peer}/export/who?version=4&nfsport=2049' 2> /dev/null"
            )
            found[f"{name}: NFS"] = self.asked(name, nfs)
            found[f"{name}: out"] = self.asked(name, OUT.format(peer=peer))
            holds = f"ip -4 -o address show dev eth1 | grep -c '{self.vip}/32'"
            found[f"{name}: holds VIP"] = self.asked(name, holds)
        return found

    def wanted(self) -> dict[str, str]:
        """Return the expected answers."""
        found = {}
        for name in self.names:
            peer = self.other(name)
            found |= {f"{name}: port": peer, f"{name}: NFS": peer, f"{name}: VIP": self.names[0]}
            found[f"{name}: out"] = f"10.89.7.10\n{peer}"
            found[f"{name}: holds VIP"] = "1" if name == self.names[0] else "0"
        return found

    def same(self, before: dict[str, list[str]], addresses: dict[str, str], when: str) -> None:
        """Check that all programs work, with the same rules in the same order. Services may take a moment to start."""
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            works, view = self.works(addresses), self.view()
            if (works, view) == (self.wanted(), before) or time.monotonic() > end:
                break
            time.sleep(2)
        sys.stdout.write(f"{when}: {json.dumps(works)}\n")
        assert works == self.wanted(), when
        assert view == before, when

    def reload(self) -> None:
        """Reload firewalld by hand, and run the owners' commands for programs that do not notice."""
        for name in self.names:
            if self.asked(name, "firewall-cmd --state 2> /dev/null") == "running":
                self.on(name, "firewall-cmd -q --reload")
                self.on(name, OWNERS)

    def reboot(self) -> None:
        for name in self.names:
            power.reboot_node(self.podman, self.containers[name])


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    made = Lab()
    made.make()
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_real_neighbours_live_on(lab: Lab) -> None:
    lab_works = lab.works(lab.leases)
    before = lab.view()
    for name in lab.names:
        assert any(BANNED in line for line in before[name])
        assert any("--to-destination 10.89.7.10:80" in line for line in before[name])
        assert any(line.startswith(f"{ROUTE} via") for line in before[name])
        rules = [line for line in before[name] if line.startswith("-A")]
        assert len(rules) == len(set(rules))
    lab.same(before, lab.leases, f"before, at first {lab_works}")

    # without Fullmesh: a manual reload drops iptables' rules, and their owners restore them
    el = lab.names[0]
    lab.on(el, "firewall-cmd -q --reload")
    assert not any("NETAVARK" in line for line in lab.view()[el])
    lab.on(el, OWNERS)
    lab.same(before, lab.leases, "reload before apply")

    expect_success(site(*PARTS, inventory=lab.inventory))
    lab.same(before, lab.planned, "apply")

    again = site(*PARTS, inventory=lab.inventory)
    expect_success(again)
    assert (again.code, set(again.changed().values())) == (0, {0})
    lab.same(before, lab.planned, "second run")

    lab.reload()
    lab.same(before, lab.planned, "reload")

    lab.reboot()
    lab.same(before, lab.planned, "reboot")

    expect_success(run("ansible-playbook", "playbooks/undo.yml", "-i", lab.inventory))
    lab.same(before, lab.leases, "undo")
    lab.reboot()
    lab.same(before, lab.leases, "reboot after undo")
