"""The environment of a node: what is in it, and that shells read the file as systemd does."""

from __future__ import annotations

import ipaddress
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.facts import node
from fact_samples import facts
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.faults import InvalidInputError
from fullmesh.model.plan import derive_plan
from fullmesh.roles import cluster_env
from fullmesh.settings import ROOT

PLAN: dict[str, Any] = {
    "family": "ipv4",
    "world_size": 4,
    "nnodes": 2,
    "master": {"node": "el1", "address": "10.78.0.11", "port": 29500},
    "rendezvous": {"endpoint": "10.78.0.11:29400", "port": 29400},
    "peers": ["10.78.0.11", "10.78.0.12"],
    "hosts": [
        {"address": "10.78.0.11", "names": ["el1"]},
        {"address": "10.78.0.12", "names": ["ubuntu1"]},
    ],
}
NODE: dict[str, Any] = {
    "name": "ubuntu1",
    "node_rank": 1,
    "address": "10.78.0.12",
    "local_ranks": 2,
    "interface": "eth1",
    "links": [{"interface": "eth1"}, {"interface": "eth2"}],
}
V6 = PLAN | {
    "family": "ipv6",
    "master": {"node": "el1", "address": "fd78::11", "port": 29500},
    "rendezvous": {"endpoint": "[fd78::11]:29400", "port": 29400},
}


def test_all_values_of_a_job_come_from_the_plan() -> None:
    assert cluster_env.build_environment(PLAN, NODE, facts()) == {
        "MASTER_ADDR": "10.78.0.11",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "4",
        "NNODES": "2",
        "NODE_RANK": "1",
        "NPROC_PER_NODE": "2",
        "GLOO_SOCKET_IFNAME": "eth1",
        "TORCHCOMM_GLOO_INTERFACE": "eth1",
        "NCCL_SOCKET_IFNAME": "=eth1,eth2",
        "NCCL_SOCKET_FAMILY": "AF_INET",
        "FULLMESH_ADDRESS": "10.78.0.12",
        "FULLMESH_RENDEZVOUS": "10.78.0.11:29400",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "NCCL_IB_DISABLE": "1",
    }


def test_an_infiniband_adapter_is_left_to_nccl() -> None:
    assert "NCCL_IB_DISABLE" not in cluster_env.build_environment(
        PLAN, NODE, facts(hcas=["mlx5_0"])
    )


V4_GID = "0000:0000:0000:0000:0000:ffff:0a4e:000c"
LOCAL_GID = "fe80:0000:0000:0000:0e42:a1ff:fe12:3456"
V6_GID = "fd78:0000:0000:0000:0000:0000:0000:0012"
NONE_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
ROCE = [
    (LOCAL_GID, "IB/RoCE v1"),
    (LOCAL_GID, "RoCE v2"),
    (V4_GID, "IB/RoCE v1"),
    (V4_GID, "RoCE v2"),
    (V6_GID, "RoCE v2"),
    (NONE_GID, ""),
]


def port(base: Path, device: str, layer: str, interface: str = "", **about: Any) -> None:
    """One port as the kernel shows it (Documentation/ABI/stable/sysfs-class-infiniband)."""
    here, driver = base / device / "ports/1", about.get("driver", "mlx5_core")
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (here / folder).mkdir(parents=True)
    (base / device / "device").mkdir()
    (base / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    (base / device / "device/driver").symlink_to(base / "drivers" / driver)
    (here / "link_layer").write_text(layer + "\n")
    (here / "state").write_text(about.get("state", "4: ACTIVE") + "\n")
    for index, (gid, kind) in enumerate(about.get("gids", ROCE)):
        (here / f"gids/{index}").write_text(gid + "\n")
        if kind:
            (here / f"gid_attrs/types/{index}").write_text(kind + "\n")
            (here / f"gid_attrs/ndevs/{index}").write_text(interface + "\n")


def survey_fabric(base: Path, plan: dict[str, Any] = PLAN) -> dict[str, str]:
    """The fabric's variables on a machine with these ports."""
    names = sorted(one.name for one in base.iterdir() if one.name != "drivers")
    ports = [
        one for name in names for one in node.list_rdma_ports(str(base)) if one["device"] == name
    ]
    env = cluster_env.build_environment(plan, NODE, facts(hcas=names, rdma=ports))
    return {name: value for name, value in env.items() if name.startswith("NCCL_IB_")}


def test_roce_on_the_clusters_interfaces(tmp_path: Path) -> None:
    """Two of the cluster's cards, one that carries storage, and one without a cable."""
    port(tmp_path, "mlx5_0", "Ethernet", "eth1")
    port(tmp_path, "mlx5_1", "Ethernet", "eth2")
    port(tmp_path, "mlx5_2", "Ethernet", "storage0")
    port(tmp_path, "mlx5_3", "Ethernet", "eth2", state="1: DOWN")
    assert survey_fabric(tmp_path) == {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}


def test_the_gid_index_is_left_to_nccl(tmp_path: Path) -> None:
    """A pin breaks when the table changes. NCCL searches for IPv4 unless the family is set."""
    port(tmp_path, "mlx5_0", "Ethernet", "eth1")
    assert survey_fabric(tmp_path) == {"NCCL_IB_HCA": "=mlx5_0:1"}
    assert survey_fabric(tmp_path, V6) == {
        "NCCL_IB_HCA": "=mlx5_0:1",
        "NCCL_IB_ADDR_FAMILY": "AF_INET6",
    }


def test_two_dgx_sparks_use_both_halves_of_a_port(tmp_path: Path) -> None:
    """The page's inventory: an address for each half, in subnets of their own, and nothing pinned."""
    text = (ROOT / "docs/tutorials/dgx-sparks.md").read_text()
    (found,) = re.findall(r"```yaml\n(torch_nodes:.*?)```", text, re.DOTALL)
    group = yaml.safe_load(found)["torch_nodes"]
    planned = derive_plan({name: {**group["vars"], **own} for name, own in group["hosts"].items()})
    node_plan = planned["nodes"]["spark1"]
    networks = {ipaddress.ip_interface(one["addresses"][0]).network for one in node_plan["links"]}
    assert len(networks) == len(node_plan["links"]) == 2
    assert {one["mtu"] for one in node_plan["links"]} == {9000}
    assert "NCCL_" not in yaml.safe_dump(group)
    interfaces = [one["interface"] for one in node_plan["links"]]
    devices = ["rocep1s0f1", "roceP2p1s0f1"]
    for device, interface in zip(devices, interfaces, strict=True):
        port(tmp_path, device, "Ethernet", interface)
    port(tmp_path, "rocep1s0f0", "Ethernet", "enp1s0f0np0", state="1: DOWN")
    ports = [one for one in node.list_rdma_ports(str(tmp_path)) if one["device"] in devices]
    env = cluster_env.build_environment(planned, node_plan, facts(hcas=devices, rdma=ports))
    assert env["NCCL_SOCKET_IFNAME"] == f"={','.join(interfaces)}"
    assert env["NCCL_IB_HCA"] in ("=rocep1s0f1:1,roceP2p1s0f1:1", "=roceP2p1s0f1:1,rocep1s0f1:1")
    assert "NCCL_IB_GID_INDEX" not in env


def test_infiniband_before_an_ethernet_port_for_storage(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", "InfiniBand", gids=[(LOCAL_GID, "IB/RoCE v1")])
    port(tmp_path, "mlx5_1", "Ethernet", "eth1")
    assert survey_fabric(tmp_path) == survey_fabric(tmp_path, V6) == {"NCCL_IB_HCA": "=mlx5_0:1"}


def test_rails_that_are_no_link_of_the_plan(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", "Ethernet", "rail0")
    port(tmp_path, "mlx5_1", "Ethernet", "rail1")
    assert survey_fabric(tmp_path) == {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}


def test_efa_and_dead_ports_get_no_variable(tmp_path: Path) -> None:
    """EFA's device is below /sys/class/infiniband as well, and is none for NCCL's own verbs code."""
    port(tmp_path, "rdmap0s6", "Unspecified", driver="efa", gids=[(LOCAL_GID, "IB/RoCE v1")])
    port(tmp_path, "mlx5_0", "Ethernet", "eth1", state="1: DOWN")
    assert survey_fabric(tmp_path) == {}


@pytest.mark.parametrize(("speed", "more"), [(0, 0), (25_000, 0), (100_000, 2), (200_000, 2)])
def test_fast_links_get_more_sockets(speed: int, more: int) -> None:
    fast = {"eth1": speed, "lo": 400_000}
    cards = [{**card, "speed": fast.get(card["name"], 0)} for card in facts()["interfaces"]]
    env = cluster_env.build_environment(PLAN, NODE, facts(interfaces=cards))
    found = [env[name] for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD") if name in env]
    assert found == ["4"] * more
    assert env["NCCL_IB_DISABLE"] == "1"


def test_ipv6_is_one_family_everywhere() -> None:
    env = cluster_env.build_environment(V6, NODE | {"address": "fd78::12"}, facts())
    assert env["NCCL_SOCKET_FAMILY"] == "AF_INET6"
    assert env["FULLMESH_RENDEZVOUS"] == "[fd78::11]:29400"


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [
        ({}, None),
        ({"no_proxy": "corp.example"}, None),
        (
            {"https_proxy": "http://p:3128"},
            "localhost,127.0.0.1,::1,10.78.0.11,10.78.0.12,el1,ubuntu1",
        ),
        (
            {"HTTP_PROXY": "http://p:3128", "NO_PROXY": "corp.example, 10.78.0.11"},
            "corp.example,10.78.0.11,localhost,127.0.0.1,::1,10.78.0.12,el1,ubuntu1",
        ),
    ],
)
def test_peers_never_go_through_a_proxy(proxy: dict[str, str], expected: str | None) -> None:
    env = cluster_env.build_environment(PLAN, NODE, facts(proxy=proxy))
    assert env.get("NO_PROXY") == expected
    assert env.get("no_proxy") == expected


def test_links_are_named_once_and_primary_first() -> None:
    links = [{"interface": "eth2"}, {"interface": "eth1"}, {"interface": ""}]
    assert cluster_env.list_node_interfaces(NODE | {"interface": "eth1", "links": links}) == [
        "eth1",
        "eth2",
    ]


def test_a_node_without_interface_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"\[CE-104\] ubuntu1: no interface"):
        cluster_env.build_environment(PLAN, NODE | {"interface": "", "links": []}, facts())


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ({"NCCL-NSOCKS": 1}, "CE-101"),
        ({"1X": 1}, "CE-101"),
        ({"MASTER_ADDR": "10.0.0.1"}, "CE-102"),
        ({"RANK": 0}, "CE-102"),
        ({"X": "it's"}, "CE-103"),
        ({"X": "a\\b"}, "CE-103"),
        ({"X": "two\nlines"}, "CE-103"),
    ],
)
def test_extra_settings_that_cannot_work_are_refused(extra: dict[str, Any], code: str) -> None:
    assert [fault.code for fault in cluster_env.find_cluster_env_faults(NODE, extra)] == [code]


def test_a_rank_in_the_settings_is_left_to_the_launcher() -> None:
    [fault] = cluster_env.find_cluster_env_faults(NODE, {"LOCAL_RANK": 1})
    assert fault.step == "Remove it. The launcher sets it for each process"


def test_every_fault_is_named_at_once() -> None:
    node = NODE | {"interface": "", "links": []}
    found = cluster_env.find_cluster_env_faults(node, {"1X": 1, "NNODES": 3, "OK": "fine"})
    assert [fault.code for fault in found] == ["CE-104", "CE-101", "CE-102"]
    assert {fault.code for fault in found} <= set(cluster_env.CODES)


VALUES = st.text(
    alphabet=st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_categories=["Cc", "Cs"]),
    max_size=40,
)


@given(VALUES)
def test_a_shell_reads_back_the_intended_values(value: str) -> None:
    try:
        line = cluster_env.render_env_lines({"VALUE": value})[0]
    except ValueError:
        assert "'" in value or "\\" in value
        return
    script = f'set -a\n{line}\nset +a\nprintf %s. "$VALUE"'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == value + "."


def test_the_whole_file_can_be_sourced(tmp_path: Path) -> None:
    env = cluster_env.build_environment(V6, NODE, facts(proxy={"http_proxy": "x"})) | {
        "X": "a b $HOME #c"
    }
    file = tmp_path / "env"
    file.write_text("\n".join(cluster_env.render_env_lines(env)) + "\n")
    script = f'. {file}; printf \'%s|%s\' "$FULLMESH_RENDEZVOUS" "$X"'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout == "[fd78::11]:29400|a b $HOME #c"
