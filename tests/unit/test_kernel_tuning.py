"""The kernel values: what is asked for, how it is merged with the node's, what is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import kernel as kernel_tune
from ansible.module_utils.fullmesh import sysctl
from ansible.module_utils.fullmesh.facts.sysctl import SysctlNode, sysctl_key_to_path
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.roles import kernel_tuning

OPTIONS: dict[str, Any] = {
    "link_gbit": 10,
    "rtt_ms": 1,
    "nofile": 65536,
    "memlock": "unlimited",
    "sysctls": {},
    "rail_interfaces": [],
}
DATA = "50000 54095"


def test_the_nics_of_rails_answer_for_their_own_addresses() -> None:
    found = map_entries(rail_interfaces=["ens1", "bond0.100"])
    values = {key: found[key]["value"] for key in found if "net.ipv4.conf" in key}
    assert values == {
        f"net.ipv4.conf.{nic}.{name}": value
        for nic in ("ens1", "bond0/100")
        for name, value in (("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "2"))
    }
    path = sysctl_key_to_path("net.ipv4.conf.bond0/100.rp_filter")
    assert path == "net/ipv4/conf/bond0.100/rp_filter"
    assert not [key for key in map_entries() if "net.ipv4.conf" in key]


def map_entries(**options: Any) -> dict[str, dict[str, Any]]:
    world = options.pop("world", 2)
    entries = kernel_tuning.build_kernel_settings(DATA, [29500, 29400], world, OPTIONS | options)
    return {entry["key"]: entry for entry in entries}


# --- what is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "rtt", "size"),
    [
        (10, 1, 16777216),  # 2.5 MB: the floor
        (100, 1, 25001984),  # twice 12.5 MB, whole pages
        (400, 0.1, 16777216),
        (1, 200, 50003968),
    ],
)
def test_buffers_follow_bandwidth_and_delay_from_16_mib(link: float, rtt: float, size: int) -> None:
    found = map_entries(link_gbit=link, rtt_ms=rtt)
    assert found["net.core.rmem_max"]["value"] == str(size)
    assert found["net.ipv4.tcp_wmem"]["value"].split()[2] == str(size)


@given(st.floats(0.001, 1000), st.floats(0.001, 100))
def test_a_buffer_holds_twice_the_product(link: float, rtt: float) -> None:
    size = kernel_tuning.compute_buffer_bytes(link, rtt)
    assert size >= 16777216
    assert size >= int(2 * link * 1e9 / 8 * rtt / 1e3)
    assert size % 4096 == 0


def test_the_pin_and_the_reserved_ports_are_musts() -> None:
    found = map_entries()
    assert found[kernel_tuning.LOCAL_PORTS]["value"] == DATA
    assert found[kernel_tuning.RESERVED_PORTS]["value"] == "29400,29500"
    assert found[kernel_tuning.LOCAL_PORTS]["must"]
    assert found[kernel_tuning.RESERVED_PORTS]["rule"] == "ports"


@pytest.mark.parametrize(
    ("world", "queue"), [(2, "4096"), (2048, "4096"), (10000, "32768"), (16000, "32768")]
)
def test_queues_hold_two_connections_of_every_rank(world: int, queue: str) -> None:
    found = map_entries(world=world)
    assert found["net.core.somaxconn"]["value"] == queue
    assert found["net.ipv4.tcp_max_syn_backlog"]["value"] == queue


def test_the_neighbour_table_grows_with_big_clusters_only() -> None:
    key = "net.ipv4.neigh.default.gc_thresh3"
    assert key not in map_entries(world=256)
    assert map_entries(world=8192)[key]["value"] == "32768"
    assert map_entries(world=8192)["net.ipv6.neigh.default.gc_thresh3"]["if_present"]


def test_a_users_value_replaces_ours_exactly() -> None:
    found = map_entries(sysctls={"net/core/somaxconn": 8192})
    assert found["net.core.somaxconn"] == {
        "key": "net.core.somaxconn",
        "value": "8192",
        "rule": "exact",
        "reason": "kernel_tuning_sysctls asks for it.",
        "must": False,
        "if_present": False,
    }


def test_every_value_has_a_reason() -> None:
    assert all(len(entry["reason"]) > 20 for entry in map_entries(world=9999).values())


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("KT-101", {"link_gbit": 0}),
        ("KT-101", {"rtt_ms": "fast"}),
        ("KT-101", {"link_gbit": True}),
        ("KT-101", {"link_gbit": 400000, "rtt_ms": 1000}),
        ("KT-102", {"sysctls": {"net.ipv4.ip_local_port_range": "1024 65535"}}),
        ("KT-102", {"sysctls": {"net/ipv4/ip_local_reserved_ports": "8080"}}),
        ("KT-103", {"sysctls": {"net.ipv4.conf.*.rp_filter": 1}}),
        ("KT-103", {"sysctls": {"../../etc/passwd": 1}}),
        ("KT-103", {"sysctls": {"net.ipv4.tcp_sack": True}}),
        ("KT-103", {"sysctls": {"net.ipv4.tcp_sack": "1\n2"}}),
        ("KT-103", {"sysctls": {"net.ipv4.tcp_sack": ""}}),
        ("KT-103", {"sysctls": ["net.ipv4.tcp_sack=1"]}),
        ("KT-104", {"nofile": 512}),
        ("KT-104", {"nofile": "many"}),
        ("KT-104", {"memlock": "lots"}),
    ],
)
def test_invalid_settings_are_refused(code: str, change: dict[str, Any]) -> None:
    found = kernel_tuning.find_kernel_faults(DATA, [29500], 2, OPTIONS | change)
    assert [fault.code for fault in found] == [code]


def test_files_grow_with_the_world() -> None:
    assert [fault.code for fault in kernel_tuning.find_kernel_faults(DATA, [], 20000, OPTIONS)] == [
        "KT-104"
    ]


@pytest.mark.parametrize(
    ("local", "reserved"), [("50000", [1]), ("54095 50000", [1]), (DATA, [50001, 29500])]
)
def test_ports_that_no_plan_makes_are_refused(local: str, reserved: list[int]) -> None:
    assert [
        fault.code for fault in kernel_tuning.find_kernel_faults(local, reserved, 2, OPTIONS)
    ] == ["KT-105"]


def test_all_faults_come_at_once() -> None:
    bad = OPTIONS | {"link_gbit": 0, "nofile": 1, "sysctls": {"x": 1}}
    codes = {fault.code for fault in kernel_tuning.find_kernel_faults("x", [], 2, bad)}
    assert codes == {"KT-101", "KT-103", "KT-104", "KT-105"}


# --- ports ----------------------------------------------------------------------------------------


@given(st.sets(st.integers(1, 65535), max_size=60))
def test_ports_survive_the_kernels_form(ports: set[int]) -> None:
    assert sysctl.expand_port_ranges(sysctl.format_port_set(ports)) == ports


def test_ports_are_printed_as_the_kernel_prints_them() -> None:
    assert sysctl.format_port_set({8080, 1, 2, 3}) == "1-3,8080"
    assert sysctl.format_port_set(set()) == ""


# --- a node ---------------------------------------------------------------------------------------

RUNNING = {
    "net.ipv4.ip_local_port_range": "32768\t60999",
    "net.ipv4.ip_local_reserved_ports": "",
    "net.core.rmem_max": "212992",
    "net.ipv4.tcp_rmem": "4096\t131072\t6291456",
    "net.ipv4.tcp_fin_timeout": "60",
    "fs.nr_open": "1048576",
}


class Fake(SysctlNode):
    """A node in a directory; *refuse* holds keys whose writes the kernel answers with an error name."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.refuse: dict[str, str] = {}
        for key, value in RUNNING.items():
            self.put("/proc/sys/" + sysctl_key_to_path(key), value + "\n")

    def put(self, path: str, text: str) -> None:
        target = Path(self.at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def write(self, key: str, value: str) -> str:
        if key in self.refuse:
            return self.refuse[key]
        return str(super().write(key, value))


@pytest.fixture
def node(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def setting(key: str, value: object, rule: str = "exact", **flags: bool) -> dict[str, Any]:
    base = {"must": False, "if_present": False, "reason": "because of this"}
    return {"key": key, "value": str(value), "rule": rule, **base, **flags}


def tune(node: Fake, settings: list[dict[str, Any]], check: bool = False) -> dict[str, Any]:
    params = {
        "settings": settings,
        "path": "/etc/sysctl.d/60-fullmesh.conf",
        "limits_path": "/etc/security/limits.d/60-fullmesh.conf",
        "manager_path": "/etc/systemd/system.conf.d/60-fullmesh.conf",
        "limits": kernel_tuning.build_session_limits(OPTIONS),
        "data_ports": DATA,
        "header": "# ours",
    }
    result: dict[str, Any] = kernel_tune.KernelTuner(params, check, node, lambda: None).run()
    return result


def test_a_value_is_set_verified_and_persisted(node: Fake) -> None:
    result = tune(node, [setting("net.ipv4.tcp_fin_timeout", 30)])
    assert result["keys"]["net.ipv4.tcp_fin_timeout"]["status"] == "set"
    assert node.value("net.ipv4.tcp_fin_timeout") == "30"
    text = node.text("/etc/sysctl.d/60-fullmesh.conf") or ""
    assert "# because of this\n# asked for: 30\nnet.ipv4.tcp_fin_timeout = 30\n" in text
    assert result["sysctls"] == {"net.ipv4.tcp_fin_timeout": "30"}
    assert tune(node, [setting("net.ipv4.tcp_fin_timeout", 30)])["changed"] is False


def test_check_mode_writes_nothing_and_shows_all(node: Fake) -> None:
    result = tune(node, [setting("net.ipv4.tcp_fin_timeout", 30)], check=True)
    assert result["changed"]
    assert node.value("net.ipv4.tcp_fin_timeout") == "60"
    assert not os.path.exists(node.at("/etc"))
    assert {entry["after_header"] for entry in result["diff"]} >= {"running kernel"}


def test_a_larger_buffer_of_the_admin_survives_a_reboot(node: Fake) -> None:
    node.put("/proc/sys/net/core/rmem_max", "67108864\n")
    for _ in range(2):
        result = tune(node, [setting("net.core.rmem_max", 16777216, "floor")])
        assert result["keys"]["net.core.rmem_max"]["status"] == "kept"
        assert "rmem_max = 67108864" in (node.text("/etc/sysctl.d/60-fullmesh.conf") or "")


def test_a_minimum_applies_to_each_number(node: Fake) -> None:
    node.put("/proc/sys/net/ipv4/tcp_rmem", "8192 131072 6291456\n")
    tune(node, [setting("net.ipv4.tcp_rmem", "4096 131072 16777216", "floor")])
    assert node.value("net.ipv4.tcp_rmem") == "8192 131072 16777216"


def test_our_own_larger_value_of_before_is_lowered_again(node: Fake) -> None:
    tune(node, [setting("net.core.rmem_max", 33554432, "floor")])
    tune(node, [setting("net.core.rmem_max", 16777216, "floor")])
    assert node.value("net.core.rmem_max") == "16777216"


def test_reserved_ports_are_merged_and_only_ours_are_removed(node: Fake) -> None:
    key = "net.ipv4.ip_local_reserved_ports"
    node.put("/proc/sys/" + sysctl_key_to_path(key), "8080\n")
    node.put("/etc/sysctl.d/50-kube.conf", f"{key} = 30000-30002\n")
    tune(node, [setting(key, "29400,29500", "ports")])
    assert node.value(key) == "8080,29400,29500,30000-30002"
    assert tune(node, [setting(key, "29400,29500", "ports")])["changed"] is False
    tune(node, [setting(key, "29600", "ports")])
    assert node.value(key) == "8080,29600,30000-30002"


@pytest.mark.parametrize("text", ["1-2-3", "9-8", "70000", "100,x"])
def test_a_file_that_the_kernel_would_reject_is_omitted(node: Fake, text: str) -> None:
    key = "net.ipv4.ip_local_reserved_ports"
    node.put("/proc/sys/" + sysctl_key_to_path(key), "8080\n")
    node.put("/etc/sysctl.d/50-own.conf", f"{key} = {text}\n")
    tune(node, [setting(key, "29500", "ports")])
    assert node.value(key) == "8080,29500"


def test_a_foreign_reservation_inside_the_data_range_is_an_error(node: Fake) -> None:
    key = "net.ipv4.ip_local_reserved_ports"
    node.put("/proc/sys/" + sysctl_key_to_path(key), "50005\n")
    result = tune(node, [setting(key, "29500", "ports")])
    assert "[KT-114]" in result["msg"]
    assert "50005" in result["msg"]


@pytest.mark.parametrize("error", ["ENOENT", "EINVAL"])
def test_a_refused_value_fails_and_reverts_everything(node: Fake, error: str) -> None:
    key = "net.ipv4.tcp_congestion_control"
    node.put("/proc/sys/" + sysctl_key_to_path(key), "cubic\n")
    node.refuse[key] = error
    result = tune(node, [setting("net.ipv4.tcp_fin_timeout", 30), setting(key, "brr")])
    assert "[KT-110]" in result["msg"]
    assert node.value("net.ipv4.tcp_fin_timeout") == "60"
    assert not os.path.exists(node.at("/etc"))


def test_a_clamped_value_is_seen(node: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fake, "write", lambda self, key, value: "")
    result = tune(node, [setting("net.ipv4.tcp_fin_timeout", 30)])
    assert "[KT-110]" in result["msg"]
    assert "'60'" in result["msg"]


def test_a_later_file_is_named_before_anything_is_written(node: Fake) -> None:
    node.put("/etc/sysctl.d/99-admin.conf", "net/ipv4/tcp_fin_timeout=60\n")
    result = tune(node, [setting("net.ipv4.tcp_fin_timeout", 30), setting("net.core.rmem_max", 1)])
    assert "[KT-112]" in result["msg"]
    assert "/etc/sysctl.d/99-admin.conf" in result["msg"]
    assert node.value("net.core.rmem_max") == "212992"


@pytest.mark.parametrize("path", ["/etc/sysctl.conf", "/usr/lib/sysctl.d/99-x.conf"])
def test_every_place_of_sysctl_d_counts(node: Fake, path: str) -> None:
    node.put(path, "-net.ipv4.tcp_fin_timeout = 20\n")
    assert path in tune(node, [setting("net.ipv4.tcp_fin_timeout", 30)])["msg"]


def test_a_file_hidden_by_the_same_name_is_ignored(node: Fake) -> None:
    node.put("/usr/lib/sysctl.d/99-x.conf", "net.ipv4.tcp_fin_timeout = 20\n")
    node.put("/etc/sysctl.d/99-x.conf", "")
    assert tune(node, [setting("net.ipv4.tcp_fin_timeout", 30)])["changed"]


def test_an_equal_or_larger_value_elsewhere_is_no_fault(node: Fake) -> None:
    node.put("/etc/sysctl.d/10-x.conf", "net.ipv4.tcp_fin_timeout = 20\n")
    node.put("/etc/sysctl.d/99-x.conf", "net.core.rmem_max = 33554432\n")
    settings = [
        setting("net.ipv4.tcp_fin_timeout", 30),
        setting("net.core.rmem_max", 16777216, "floor"),
    ]
    assert "msg" not in tune(node, settings)


def test_a_missing_key_is_a_fault_except_in_containers(node: Fake) -> None:
    wanted = [setting("net.core.nonsense", 1)]
    assert "[KT-113]" in tune(node, wanted)["msg"]
    node.put("/run/systemd/container", "podman\n")
    result = tune(node, wanted)
    assert [note["code"] for note in result["notes"]] == ["KT-201"]
    assert result["sysctls"] == {}
    assert "# net.core.nonsense = 1" in (node.text("/etc/sysctl.d/60-fullmesh.conf") or "")
    assert "[KT-113]" in tune(node, [setting("net.core.nonsense", 1, must=True)])["msg"]


def test_a_key_that_a_kernel_may_lack_is_neither(node: Fake) -> None:
    result = tune(node, [setting("net.ipv6.neigh.default.gc_thresh3", 1, if_present=True)])
    assert result["notes"] == []


def test_a_denied_write_in_a_container_is_a_note(node: Fake) -> None:
    node.put("/run/systemd/container", "podman\n")
    node.refuse["net.core.rmem_max"] = "EACCES"
    result = tune(node, [setting("net.core.rmem_max", 16777216, "floor")])
    assert [note["code"] for note in result["notes"]] == ["KT-201"]


def test_limits_for_users_root_and_services(node: Fake) -> None:
    tune(node, [])
    pam = node.text("/etc/security/limits.d/60-fullmesh.conf") or ""
    assert "\nroot soft nofile 65536\n" in pam
    assert "\n* hard memlock unlimited\n" in pam
    manager = node.text("/etc/systemd/system.conf.d/60-fullmesh.conf") or ""
    assert manager.endswith("[Manager]\nDefaultLimitMEMLOCK=infinity\n")
    assert tune(node, [])["changed"] is False
    mode = os.stat(node.at("/etc/security/limits.d/60-fullmesh.conf")).st_mode
    assert stat.S_IMODE(mode) == 0o644


def test_a_hard_limit_is_never_lowered(node: Fake) -> None:
    node.put("/etc/security/limits.d/60-fullmesh.conf", "root hard nofile 524288\n")
    tune(node, [])
    pam = node.text("/etc/security/limits.d/60-fullmesh.conf") or ""
    assert "\nroot hard nofile 524288\n" in pam
    assert "\nroot soft nofile 65536\n" in pam


def test_a_limit_that_would_block_every_login_is_refused(node: Fake) -> None:
    node.put("/proc/sys/fs/nr_open", "10000\n")
    assert "[KT-111]" in tune(node, [])["msg"]


@pytest.mark.parametrize(("container", "word"), [(True, "KT-202"), (False, "KT-115")])
def test_a_limit_that_cannot_be_granted_is_omitted(
    node: Fake, monkeypatch: pytest.MonkeyPatch, container: bool, word: str
) -> None:
    monkeypatch.setattr(kernel_tune, "can_set_limit", lambda which, soft, hard: hard != -1)
    if container:
        node.put("/run/systemd/container", "podman\n")
    monkeypatch.setattr(kernel_tune, "is_test_root", lambda node: False)
    result = tune(node, [])
    if container:
        assert [note["code"] for note in result["notes"]] == [word]
        assert "memlock" not in (node.text("/etc/security/limits.d/60-fullmesh.conf") or "")
    else:
        assert word in result["msg"]


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.tcp_sack", "net/ipv4/tcp_sack"),
        ("net/ipv4/conf/eth0.1/rp_filter", "net/ipv4/conf/eth0.1/rp_filter"),
        ("net.ipv4.conf.eth0/1.rp_filter", "net/ipv4/conf/eth0.1/rp_filter"),
    ],
)
def test_both_spellings_of_a_key_are_one(key: str, path: str) -> None:
    assert sysctl_key_to_path(key) == path


def test_the_drop_in_can_be_read_back() -> None:
    text = "# asked for: 1\nnet.a = 2\n; net.b = 3\n-net.c=4 5\nnonsense\n"
    assert sysctl.parse_sysctl_file(text) == {
        "net/a": {"value": "2", "asked": "1"},
        "net/c": {"value": "4 5", "asked": None},
    }
