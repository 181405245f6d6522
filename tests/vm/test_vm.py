"""What containers cannot show: a kernel of one's own, SELinux, reboots. The checks build on each other.

Emulation is slow, so three boots serve nearly all of them: the first, one after a hard reset and one after an orderly
reboot, both in the middle of a change that nobody has confirmed. Last come the reboots that SELinux itself needs.
"""

from __future__ import annotations

import ipaddress
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from devtools.lab.vm import plan

from .conftest import Machines, play

SITE, VERIFY = "tests/vm/site.yml", "tests/vm/verify.yml"
EL, UBUNTU = "el1", "ubuntu1"
# Settings of the whole kernel, which a container cannot have; two beside the role's own.
SYSCTLS = {
    "net.core.rmem_max": None,
    "net.core.wmem_max": None,
    "net.core.netdev_max_backlog": None,
    "net.core.default_qdisc": "fq",
    "net.ipv4.tcp_mem": "24576 32768 49152",
}
TUNING = {key: value for key, value in SYSCTLS.items() if value}
# Time to come back in, for emulated machines on busy cores.
PATIENCE = {
    "static_ip_wait_seconds": 120,
    "static_ip_rollback_seconds": 300,
    "peer_firewall_rollback_seconds": 300,
    "selinux_mode_rollback_seconds": 300,
    "verify_cluster_deadline_seconds": 600,
}
# Torch for CPUs, and nobody who could use NCCL.
CPU = {"nccl_manage": False, "torch_runtime_accelerator": "cpu"}
# The rungs that there are without GPUs, up to a training job.
CHECKS = ("L0", "L1", "L2", "L3", "L4", "L5", "L8")
# A denial of the kernel's that was one: what a permissive domain does is only watched.
DENIED = "dmesg | grep 'avc: *denied' | grep -v permissive=1 | grep -E 'python|torch|fullmesh|pt_main' || true"
# What is compared across tests: the kernel's values before.
BARE: dict[str, Any] = {}
CONVERGED: dict[str, Any] = {}


def kernel(machines: Machines) -> dict[str, dict[str, str]]:
    """The values of SYSCTLS on each machine."""
    command = "for k in {}; do echo $k=$(cat /proc/sys/$(echo $k | tr . /)); done".format(
        " ".join(SYSCTLS)
    )
    return {
        name: dict(line.split("=", 1) for line in text.splitlines())
        for name, text in machines.all(command).items()
    }


def selinux(machines: Machines) -> tuple[str, str]:
    """The mode now, and the one that the configuration asks for."""
    text = machines.on(EL, "getenforce; grep ^SELINUX= /etc/selinux/config")
    now, configured = text.split()
    return now.lower(), configured.partition("=")[2]


def state(machines: Machines) -> dict[str, Any]:
    """What an undo has to give back, of each machine: /etc, rules, addresses, kernel values, SELinux."""
    return {
        "etc": machines.etc(times=False),
        "rules": {
            name: text.splitlines() for name, text in machines.all("nft -s list ruleset").items()
        },
        "addresses": machines.each(lambda name: eth0(machines, name)),
        "kernel": kernel(machines),
        "selinux": selinux(machines),
    }


def inventory(
    machines: Machines, name: str, links: bool = False, ssh_address: bool = False
) -> Path:
    """The same machines where they answer now; with *links*, their first card shall have static addresses."""
    folder = machines.inventory.parent / f"inventory-{name}"
    (folder / "host_vars").mkdir(parents=True, exist_ok=True)
    for entry in ("hosts.yml", "group_vars"):
        link = folder / entry
        link.unlink(missing_ok=True)
        link.symlink_to(machines.inventory / entry)
    for one, vm in machines.vms.items():
        wanted: dict[str, Any] = {"ansible_host": machines.at[one]}
        if ssh_address:
            wanted["fullmesh_ssh_address"] = vm.machine.static_address
        if links:
            addresses = [f"{vm.machine.static_address}/24", static6(vm.machine)]
            link_of = {"interface": "eth0", "addresses": addresses, "gateway": vm.machine.gateway}
            wanted["fullmesh_links"] = [link_of]
        (folder / "host_vars" / f"{one}.json").write_text(json.dumps(wanted))
    return folder


def bootstrap(machines: Machines) -> Path:
    """The user's inventory: static addresses, and the address of before to reach the machines at first."""
    return machines.inventory.parent / "inventory-bootstrap"


def static6(machine: plan.Machine) -> str:
    """The static IPv6 address of a machine's first card, with prefix."""
    return str(ipaddress.ip_interface(machine.gateway6.removesuffix("2") + "77/64"))


def eth0(machines: Machines, name: str) -> set[str]:
    """The global addresses of the first card."""
    found = json.loads(machines.on(name, "ip -j addr show dev eth0"))
    return {
        f"{one['local']}/{one['prefixlen']}"
        for one in found[0]["addr_info"]
        if one["scope"] == "global"
    }


def wrong_links(machines: Machines, name: str) -> list[dict[str, Any]]:
    """Links that leave a machine where nobody finds it: another address, no gateway."""
    vm = machines.vms[name].machine
    common = {"mac": "", "gateway": "", "dns": [], "search": [], "mtu": 0, "routes": []}
    more: dict[str, Any] = {"vlan": {}, "bond": {}}
    lost = vm.dhcp_address.rsplit(".", 1)[0] + ".99/24"
    return [
        {"interface": "eth1", "addresses": [vm.cluster_address], **common, **more},
        {"interface": "eth0", "addresses": [lost], **common, **more},
    ]


def cut(machines: Machines, network: str) -> None:
    """Leave one machine in the middle of a change of its network, the other of its firewall: nobody gets in."""
    now = inventory(machines, "now")
    links = {name: wrong_links(machines, name) for name in machines.vms}
    with ThreadPoolExecutor() as pool:
        firewall = pool.submit(play, "tests/vm/cut_firewall.yml", now, cut=f"all:!{network}")
        pool.submit(play, "tests/vm/cut_network.yml", now, cut=network, links=links).result()
    assert firewall.result().code == 0
    # else the reboot would prove nothing
    machines.each(machines.wait_cut_off)


def assert_as_before(machines: Machines, before: dict[str, list[str]], part: str) -> None:
    """The node came back by itself, and nothing is left of the change or of what undid it."""
    now = machines.etc()
    for name in machines.vms:
        assert now[name] == before[name], part
        log = machines.on(name, "cat /var/lib/fullmesh/rollback/log")
        assert "before it was confirmed" in log
        left = machines.on(
            name, "ls /etc/systemd/system/fullmesh-rollback.service 2>/dev/null | wc -l"
        )
        assert left == "0"
        assert machines.on(name, "systemctl --failed --no-legend | wc -l") == "0"


def assert_nothing_drifted(machines: Machines, inventory: Path, **variables: Any) -> None:
    """A run finds every node converged: no role runs, nothing changes."""
    done = play(SITE, inventory, **variables)
    assert (done.code, set(done.changed().values())) == (0, {0})
    assert "TASK [peer_firewall :" not in done.output


def test_an_installed_machine(machines: Machines) -> None:
    assert selinux(machines) == ("enforcing", "enforcing")
    assert ":sshd_t:" in machines.on(EL, "ps -C sshd -o label --no-headers | head -1")
    for name, vm in machines.vms.items():
        assert f"{vm.machine.dhcp_address}/24" in eth0(machines, name)
    BARE.update(state(machines))


def settings(mode: str) -> dict[str, Any]:
    """SELinux' mode and more kernel values."""
    return {"selinux_mode": mode, "kernel_tuning_sysctls": TUNING, **CPU, **PATIENCE}


def test_site_converges_on_a_real_kernel(machines: Machines) -> None:
    done = play(SITE, machines.inventory, **settings("permissive"))
    assert done.code == 0
    assert selinux(machines) == ("permissive", "permissive")
    assert done.says("[SE-203]")
    CONVERGED["kernel"] = kernel(machines)
    for name, values in CONVERGED["kernel"].items():
        assert values["net.core.default_qdisc"] == "fq"
        assert values["net.ipv4.tcp_mem"].split() == ["24576", "32768", "49152"]
        assert int(values["net.core.rmem_max"]) >= 16 * 1024**2
        assert int(values["net.core.netdev_max_backlog"]) >= 16384
        assert values != BARE["kernel"][name]


def test_a_value_that_a_real_kernel_refuses(machines: Machines) -> None:
    """The lab's containers take any value; a kernel does not, and then everything is as before."""
    done = play(
        SITE,
        machines.inventory,
        "--tags",
        "kernel_tuning",
        fullmesh_converge="always",
        kernel_tuning_sysctls=dict(TUNING, **{"net.core.default_qdisc": "no_such_qdisc"}),
    )
    assert done.code != 0
    assert done.says("[KT-110]")
    assert kernel(machines) == CONVERGED["kernel"]


def test_a_hard_reset_in_the_middle_of_a_change(machines: Machines) -> None:
    before = machines.etc()
    boots = machines.boots()
    cut(machines, network=UBUNTU)
    for vm in machines.vms.values():
        vm.reset()
    machines.wait(boots)
    assert_as_before(machines, before, "hard reset")


def test_selinux_stays_permissive_after_a_reset(machines: Machines) -> None:
    assert selinux(machines) == ("permissive", "permissive")


def test_kernel_values_are_there_after_a_reset(machines: Machines) -> None:
    assert kernel(machines) == CONVERGED["kernel"]


KNOCK = """
import errno, json, socket, sys
found = {}
for port in map(int, sys.argv[2:]):
    probe = socket.socket()
    probe.settimeout(5)
    try:
        probe.connect((sys.argv[1], port))
        found[port] = "open"
    except OSError as exc:
        found[port] = "through" if exc.errno == errno.ECONNREFUSED else "shut"
    probe.close()
print(json.dumps(found))
"""


def test_the_firewall_is_in_force_after_a_reset(machines: Machines) -> None:
    """Seen from a peer, on the wire: ssh, the plan's ports, and nothing else."""
    machines.until("firewall-cmd --state", "running")
    wanted = {"22": "open", "29500": "through", "29400": "through", "20000": "shut", "111": "shut"}
    for source, target in ((UBUNTU, EL), (EL, UBUNTU)):
        address = machines.vms[target].machine.cluster_address.split("/")[0]
        ports = " ".join(wanted)
        text = machines.on(source, f"python3 -c '{KNOCK}' {address} {ports}")
        assert json.loads(text) == wanted, f"{source} -> {target}"


def test_clock_and_launcher_after_a_reset(machines: Machines) -> None:
    machines.until("chronyc -n tracking >/dev/null && echo yes", "yes")
    sources = machines.on(UBUNTU, "chronyc -n sources")
    assert machines.vms[EL].machine.cluster_address.split("/")[0] in sources
    unit = "systemctl show -p LoadState --value fullmesh-job@probe.service"
    assert set(machines.all(unit).values()) == {"loaded"}


def test_nothing_drifted_after_a_reset(machines: Machines) -> None:
    assert_nothing_drifted(machines, machines.inventory, **settings("permissive"))


def test_dhcp_to_static_under_ssh_and_selinux_enforcing(machines: Machines) -> None:
    """The interface of our own connection moves to another address, IPv4 and IPv6, and the play ends there."""
    done = play(
        SITE,
        inventory(machines, "bootstrap", links=True, ssh_address=True),
        **settings("enforcing"),
    )
    assert done.code == 0
    for name, vm in machines.vms.items():
        machines.at[name] = vm.machine.static_address
        addresses = eth0(machines, name)
        assert {f"{vm.machine.static_address}/24", static6(vm.machine)} <= addresses
        assert f"{vm.machine.dhcp_address}/24" not in addresses
        machines.on(name, f"ping -c 1 -W 5 {vm.machine.gateway}")
        machines.on(name, f"ping -c 1 -W 5 {vm.machine.gateway6}")
    assert selinux(machines) == ("enforcing", "enforcing")


def test_a_second_run_at_the_new_address_changes_nothing(machines: Machines) -> None:
    """The inventory still has the address of before, where nobody answers any more."""
    assert_nothing_drifted(machines, bootstrap(machines), **settings("enforcing"))


def test_an_orderly_reboot_in_the_middle_of_a_change(machines: Machines) -> None:
    before = machines.etc()
    boots = machines.boots()
    cut(machines, network=EL)
    machines.power_cycle()
    assert set(machines.boots().values()).isdisjoint(boots.values())
    assert_as_before(machines, before, "orderly reboot")


def test_enforcing_and_static_addresses_after_a_reboot(machines: Machines) -> None:
    assert selinux(machines) == ("enforcing", "enforcing")
    for name, vm in machines.vms.items():
        addresses = eth0(machines, name)
        assert {f"{vm.machine.static_address}/24", static6(vm.machine)} <= addresses
        assert f"{vm.machine.dhcp_address}/24" not in addresses
    moved = inventory(machines, "moved", links=True, ssh_address=True)
    assert_nothing_drifted(machines, moved, **settings("enforcing"))


def test_a_gloo_job_runs_under_enforcing(machines: Machines) -> None:
    """The whole verification over both machines, one of them enforcing: collectives, every pair, and a training job."""
    done = play(
        VERIFY, inventory(machines, "moved", links=True, ssh_address=True), **settings("enforcing")
    )
    assert done.code == 0
    for rung in CHECKS:
        assert done.says(f"{rung} passed"), rung
    assert selinux(machines) == ("enforcing", "enforcing")
    assert ":usr_t:" in machines.on(EL, "ls -Zd /opt/fullmesh/venv/")
    assert machines.on(EL, DENIED) == ""


def test_disabled_says_that_it_needs_a_reboot(machines: Machines) -> None:
    done = play("tests/vm/selinux.yml", inventory(machines, "now"), selinux_mode="disabled")
    assert done.code == 0
    assert done.says("SELinux becomes disabled with the next boot")
    assert selinux(machines) == ("permissive", "disabled")


def test_undo_gives_everything_back(machines: Machines) -> None:
    done = play("playbooks/undo.yml", inventory(machines, "now"), **PATIENCE)
    assert done.code == 0
    for name, vm in machines.vms.items():
        machines.at[name] = vm.machine.dhcp_address
    now = state(machines)
    for part, before in BARE.items():
        assert now[part] == before, part


def test_a_permitted_reboot_takes_the_node_that_needs_it(machines: Machines) -> None:
    """The other one has no SELinux and goes on; the run ends when this one is back and has its mode."""
    boots = machines.boots()
    done = play(
        "tests/vm/selinux.yml",
        inventory(machines, "now"),
        selinux_mode="disabled",
        selinux_mode_reboot=True,
    )
    assert done.code == 0
    now = machines.boots()
    assert now[EL] != boots[EL]
    assert now[UBUNTU] == boots[UBUNTU]
    assert selinux(machines) == ("disabled", "disabled")


def test_back_from_disabled_everything_is_labelled_before_it_is_enforced(
    machines: Machines,
) -> None:
    machines.on(EL, "echo unlabelled > /etc/made-while-disabled")
    # nothing was made there, and emulated it takes longer than all other checks together
    machines.on(EL, "echo /usr > /etc/selinux/fixfiles_exclude_dirs")
    done = play(
        "tests/vm/selinux.yml",
        inventory(machines, "now"),
        selinux_mode="enforcing",
        selinux_mode_reboot=True,
        **PATIENCE,
    )
    assert done.code == 0
    assert selinux(machines) == ("enforcing", "enforcing")
    assert ":etc_t:" in machines.on(
        EL, "ls -Z /etc/made-while-disabled; rm /etc/made-while-disabled"
    )
    assert machines.on(EL, "ls /.autorelabel 2>/dev/null | wc -l") == "0"
