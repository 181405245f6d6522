"""Test on virtual machines: their own kernel, SELinux, reboots.

The tests build on each other.

Emulation is slow, so three boots serve nearly all tests: the first one, one after a hard reset, and
one after an orderly reboot. Both reboots interrupt an unconfirmed change. The reboots that SELinux
itself needs come last.
"""

from __future__ import annotations

import ipaddress
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from devtools.lab.vm import plan

from .conftest import Machines, run_playbook

SITE, VERIFY = "tests/vm/site.yml", "tests/vm/verify.yml"
EL, UBUNTU = "el1", "ubuntu1"
# Settings of the whole kernel, which a container cannot have, and two besides those of the role.
SYSCTLS = {
    "net.core.rmem_max": None,
    "net.core.wmem_max": None,
    "net.core.netdev_max_backlog": None,
    "net.core.default_qdisc": "fq",
    "net.ipv4.tcp_mem": "24576 32768 49152",
}
TUNING = {key: value for key, value in SYSCTLS.items() if value}
# Time limits for emulated machines on busy cores.
PATIENCE = {
    "static_ip_wait_seconds": 120,
    "static_ip_rollback_seconds": 300,
    "peer_firewall_rollback_seconds": 300,
    "selinux_mode_rollback_seconds": 300,
    "verify_cluster_deadline_seconds": 600,
}
# Torch for CPUs, without NCCL.
CPU = {"nccl_manage": False, "torch_runtime_accelerator": "cpu"}
# The checks that need no GPU, up to a training job.
CHECKS = ("L0", "L1", "L2", "L3", "L4", "L5", "L8")
# Real denials of the kernel. In a permissive domain, denials are only logged.
DENIED = "dmesg | grep 'avc: *denied' | grep -v permissive=1 | grep -E 'python|torch|fullmesh|pt_main' || true"
# The kernel's values before the first change, compared across tests.
BARE: dict[str, Any] = {}
CONVERGED: dict[str, Any] = {}


def read_kernel_values(machines: Machines) -> dict[str, dict[str, str]]:
    """Read the values of SYSCTLS on each machine."""
    command = "for k in {}; do echo $k=$(cat /proc/sys/$(echo $k | tr . /)); done".format(
        " ".join(SYSCTLS)
    )
    return {
        name: dict(line.split("=", 1) for line in text.splitlines())
        for name, text in machines.all(command).items()
    }


def read_selinux(machines: Machines) -> tuple[str, str]:
    """Return the current SELinux mode, and the configured one."""
    text = machines.on(EL, "getenforce; grep ^SELINUX= /etc/selinux/config")
    now, configured = text.split()
    return now.lower(), configured.partition("=")[2]


def read_state(machines: Machines) -> dict[str, Any]:
    """Return all state that an undo must restore: /etc, rules, addresses, kernel values, SELinux."""
    return {
        "etc": machines.etc(times=False),
        "rules": {
            name: text.splitlines() for name, text in machines.all("nft -s list ruleset").items()
        },
        "addresses": machines.each(lambda name: list_addresses(machines, name)),
        "kernel": read_kernel_values(machines),
        "selinux": read_selinux(machines),
    }


def write_inventory(
    machines: Machines, name: str, links: bool = False, ssh_address: bool = False
) -> Path:
    """Write an inventory with the machines' current addresses. With *links*, their first interface gets static ones."""
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
            addresses = [f"{vm.machine.static_address}/24", get_static6(vm.machine)]
            link_of = {"interface": "eth0", "addresses": addresses, "gateway": vm.machine.gateway}
            wanted["fullmesh_links"] = [link_of]
        (folder / "host_vars" / f"{one}.json").write_text(json.dumps(wanted))
    return folder


def write_first_inventory(machines: Machines) -> Path:
    """Write the user's inventory: static addresses, and the old address for the first connection."""
    return machines.inventory.parent / "inventory-bootstrap"


def get_static6(machine: plan.Machine) -> str:
    """Return the static IPv6 address of a machine's first interface, with its prefix."""
    return str(ipaddress.ip_interface(machine.gateway6.removesuffix("2") + "77/64"))


def list_addresses(machines: Machines, name: str) -> set[str]:
    """Return the global addresses of the first interface."""
    found = json.loads(machines.on(name, "ip -j addr show dev eth0"))
    return {
        f"{one['local']}/{one['prefixlen']}"
        for one in found[0]["addr_info"]
        if one["scope"] == "global"
    }


def make_wrong_links(machines: Machines, name: str) -> list[dict[str, Any]]:
    """Return links that make a machine unreachable: another address, no gateway."""
    vm = machines.vms[name].machine
    common = {"mac": "", "gateway": "", "dns": [], "search": [], "mtu": 0, "routes": []}
    more: dict[str, Any] = {"vlan": {}, "bond": {}}
    lost = vm.dhcp_address.rsplit(".", 1)[0] + ".99/24"
    return [
        {"interface": "eth1", "addresses": [vm.cluster_address], **common, **more},
        {"interface": "eth0", "addresses": [lost], **common, **more},
    ]


def interrupt_changes(machines: Machines, network: str) -> None:
    """Interrupt a network change on one machine and a firewall change on the other. Both become unreachable."""
    now = write_inventory(machines, "now")
    links = {name: make_wrong_links(machines, name) for name in machines.vms}
    with ThreadPoolExecutor() as pool:
        firewall = pool.submit(
            run_playbook, "tests/vm/cut_firewall.yml", now, cut=f"all:!{network}"
        )
        pool.submit(
            run_playbook, "tests/vm/cut_network.yml", now, cut=network, links=links
        ).result()
    assert firewall.result().code == 0
    # otherwise the reboot would prove nothing
    machines.each(machines.wait_cut_off)


def assert_as_before(machines: Machines, before: dict[str, list[str]], part: str) -> None:
    """Check that the node reverted the change, and that no trace of it or of its rollback is left."""
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
    """Check that a run finds every node converged: no role runs, nothing changes."""
    done = run_playbook(SITE, inventory, **variables)
    assert (done.code, set(done.changed().values())) == (0, {0})
    assert "TASK [peer_firewall :" not in done.output


def test_fresh_machines_have_the_expected_systems(machines: Machines) -> None:
    assert read_selinux(machines) == ("enforcing", "enforcing")
    assert ":sshd_t:" in machines.on(EL, "ps -C sshd -o label --no-headers | head -1")
    for name, vm in machines.vms.items():
        assert f"{vm.machine.dhcp_address}/24" in list_addresses(machines, name)
    BARE.update(read_state(machines))


def make_settings(mode: str) -> dict[str, Any]:
    """Return settings with an SELinux mode and more kernel values."""
    return {"selinux_mode": mode, "kernel_tuning_sysctls": TUNING, **CPU, **PATIENCE}


def test_site_converges_on_a_real_kernel(machines: Machines) -> None:
    done = run_playbook(SITE, machines.inventory, **make_settings("permissive"))
    assert done.code == 0
    assert read_selinux(machines) == ("permissive", "permissive")
    assert done.says("[SE-203]")
    CONVERGED["kernel"] = read_kernel_values(machines)
    for name, values in CONVERGED["kernel"].items():
        assert values["net.core.default_qdisc"] == "fq"
        assert values["net.ipv4.tcp_mem"].split() == ["24576", "32768", "49152"]
        assert int(values["net.core.rmem_max"]) >= 16 * 1024**2
        assert int(values["net.core.netdev_max_backlog"]) >= 16384
        assert values != BARE["kernel"][name]


def test_a_value_that_the_kernel_rejects_is_reverted(machines: Machines) -> None:
    """Set a value that a real kernel rejects (containers of the lab take any). Everything is reverted."""
    done = run_playbook(
        SITE,
        machines.inventory,
        "--tags",
        "kernel_tuning",
        fullmesh_converge="always",
        kernel_tuning_sysctls=dict(TUNING, **{"net.core.default_qdisc": "no_such_qdisc"}),
    )
    assert done.code != 0
    assert done.says("[KT-110]")
    assert read_kernel_values(machines) == CONVERGED["kernel"]


def test_a_hard_reset_during_a_change_reverts_it(machines: Machines) -> None:
    before = machines.etc()
    boots = machines.boots()
    interrupt_changes(machines, network=UBUNTU)
    for vm in machines.vms.values():
        vm.reset()
    machines.wait(boots)
    assert_as_before(machines, before, "hard reset")


def test_selinux_stays_permissive_after_a_reset(machines: Machines) -> None:
    assert read_selinux(machines) == ("permissive", "permissive")


def test_kernel_values_survive_a_reset(machines: Machines) -> None:
    assert read_kernel_values(machines) == CONVERGED["kernel"]


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
    """Check from a peer: ssh and the plan's ports are reachable, and no others."""
    machines.until("firewall-cmd --state", "running")
    wanted = {"22": "open", "29500": "through", "29400": "through", "20000": "shut", "111": "shut"}
    for source, target in ((UBUNTU, EL), (EL, UBUNTU)):
        address = machines.vms[target].machine.cluster_address.split("/")[0]
        ports = " ".join(wanted)
        text = machines.on(source, f"python3 -c '{KNOCK}' {address} {ports}")
        assert json.loads(text) == wanted, f"{source} -> {target}"


def test_clock_and_launcher_work_after_a_reset(machines: Machines) -> None:
    machines.until("chronyc -n tracking >/dev/null && echo yes", "yes")
    sources = machines.on(UBUNTU, "chronyc -n sources")
    assert machines.vms[EL].machine.cluster_address.split("/")[0] in sources
    unit = "systemctl show -p LoadState --value fullmesh-job@probe.service"
    assert set(machines.all(unit).values()) == {"loaded"}


def test_nothing_drifted_after_a_reset(machines: Machines) -> None:
    assert_nothing_drifted(machines, machines.inventory, **make_settings("permissive"))


def test_dhcp_to_static_under_ssh_and_selinux_enforcing(machines: Machines) -> None:
    """Move the interface of the ssh connection to another IPv4 and IPv6 address, at which the play ends."""
    done = run_playbook(
        SITE,
        write_inventory(machines, "bootstrap", links=True, ssh_address=True),
        **make_settings("enforcing"),
    )
    assert done.code == 0
    for name, vm in machines.vms.items():
        machines.at[name] = vm.machine.static_address
        addresses = list_addresses(machines, name)
        assert {f"{vm.machine.static_address}/24", get_static6(vm.machine)} <= addresses
        assert f"{vm.machine.dhcp_address}/24" not in addresses
        machines.on(name, f"ping -c 1 -W 5 {vm.machine.gateway}")
        machines.on(name, f"ping -c 1 -W 5 {vm.machine.gateway6}")
    assert read_selinux(machines) == ("enforcing", "enforcing")


def test_a_second_run_at_the_new_address_changes_nothing(machines: Machines) -> None:
    """Run with an inventory that still has the old address, which no longer answers."""
    assert_nothing_drifted(machines, write_first_inventory(machines), **make_settings("enforcing"))


def test_an_orderly_reboot_during_a_change_reverts_it(machines: Machines) -> None:
    before = machines.etc()
    boots = machines.boots()
    interrupt_changes(machines, network=EL)
    machines.power_cycle()
    assert set(machines.boots().values()).isdisjoint(boots.values())
    assert_as_before(machines, before, "orderly reboot")


def test_enforcing_and_static_addresses_survive_a_reboot(machines: Machines) -> None:
    assert read_selinux(machines) == ("enforcing", "enforcing")
    for name, vm in machines.vms.items():
        addresses = list_addresses(machines, name)
        assert {f"{vm.machine.static_address}/24", get_static6(vm.machine)} <= addresses
        assert f"{vm.machine.dhcp_address}/24" not in addresses
    moved = write_inventory(machines, "moved", links=True, ssh_address=True)
    assert_nothing_drifted(machines, moved, **make_settings("enforcing"))


def test_a_gloo_job_runs_under_enforcing(machines: Machines) -> None:
    """Verify both machines, one of them enforcing: collectives, every pair, a training job."""
    done = run_playbook(
        VERIFY,
        write_inventory(machines, "moved", links=True, ssh_address=True),
        **make_settings("enforcing"),
    )
    assert done.code == 0
    for check in CHECKS:
        assert done.says(f"{check} passed"), check
    assert read_selinux(machines) == ("enforcing", "enforcing")
    assert ":usr_t:" in machines.on(EL, "ls -Zd /opt/fullmesh/venv/")
    assert machines.on(EL, DENIED) == ""


def test_disabled_says_that_it_needs_a_reboot(machines: Machines) -> None:
    done = run_playbook(
        "tests/vm/selinux.yml", write_inventory(machines, "now"), selinux_mode="disabled"
    )
    assert done.code == 0
    assert done.says("SELinux becomes disabled with the next boot")
    assert read_selinux(machines) == ("permissive", "disabled")


def test_undo_restores_everything(machines: Machines) -> None:
    done = run_playbook("playbooks/undo.yml", write_inventory(machines, "now"), **PATIENCE)
    assert done.code == 0
    for name, vm in machines.vms.items():
        machines.at[name] = vm.machine.dhcp_address
    now = read_state(machines)
    for part, before in BARE.items():
        assert now[part] == before, part


def test_a_permitted_reboot_affects_only_the_node_that_needs_it(machines: Machines) -> None:
    """Reboot the node with SELinux only. The run ends when that node is back in its new mode."""
    boots = machines.boots()
    done = run_playbook(
        "tests/vm/selinux.yml",
        write_inventory(machines, "now"),
        selinux_mode="disabled",
        selinux_mode_reboot=True,
    )
    assert done.code == 0
    now = machines.boots()
    assert now[EL] != boots[EL]
    assert now[UBUNTU] == boots[UBUNTU]
    assert read_selinux(machines) == ("disabled", "disabled")


def test_back_from_disabled_everything_is_labelled_before_it_is_enforced(
    machines: Machines,
) -> None:
    machines.on(EL, "echo unlabelled > /etc/made-while-disabled")
    # the tests made nothing in /usr, and relabeling it takes longer than all other checks together
    machines.on(EL, "echo /usr > /etc/selinux/fixfiles_exclude_dirs")
    done = run_playbook(
        "tests/vm/selinux.yml",
        write_inventory(machines, "now"),
        selinux_mode="enforcing",
        selinux_mode_reboot=True,
        **PATIENCE,
    )
    assert done.code == 0
    assert read_selinux(machines) == ("enforcing", "enforcing")
    assert ":etc_t:" in machines.on(
        EL, "ls -Z /etc/made-while-disabled; rm /etc/made-while-disabled"
    )
    assert machines.on(EL, "ls /.autorelabel 2>/dev/null | wc -l") == "0"
