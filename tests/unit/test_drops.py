"""Why the kernel throws packets away: recorded traces, a real tracefs where there is one, what is attached to cards."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.probe import drops
from ansible.module_utils.fullmesh.survey import hooks

from fullmesh.causes.firewall import kernel_drops

RECORDED = (
    Path(__file__).parent / "recorded/drops"
)  # kernel 6.18, one connection each between two namespaces
BEFORE_REASONS = "  swapper-0 [001] ..s. 1.0: kfree_skb: skbaddr=0000 protocol=2048 location=tcp_v4_rcv+0x91/0x13f0"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("nft-in", {"reason": "NETFILTER_DROP", "place": "nft_do_chain", "count": 2}),
        ("nft-out", {"reason": "NETFILTER_DROP", "place": "nft_do_chain", "count": 2}),
        ("neighbour", {"reason": "OTHERHOST", "place": "ip_rcv_core", "count": 2}),
        ("queue", {"reason": "QDISC_DROP", "place": "__dev_queue_xmit", "count": 3}),
        ("no-socket", {"reason": "NO_SOCKET", "place": "tcp_v4_rcv", "count": 2}),
        ("no-route", {"reason": "NEIGH_FAILED", "place": "neigh_invalidate", "count": 2}),
    ],
)
def test_kernel_drops_are_counted_by_reason(fault: str, expected: drops.PacketDrop) -> None:
    assert expected in drops.parse_drops((RECORDED / f"{fault}.txt").read_text())


def test_a_trace_without_reasons_gives_nothing() -> None:
    assert drops.parse_drops(BEFORE_REASONS) == []
    assert drops.parse_drops("") == []


def test_every_reason_that_rules_know_is_one_of_the_kernels() -> None:
    """Of the event's format in 6.18."""
    known = set((RECORDED / "reasons.txt").read_text().split())
    assert kernel_drops.MEANS.keys() <= known


def test_a_kernel_without_drop_reasons_is_skipped(tmp_path: Path) -> None:
    event = tmp_path / drops.EVENT
    event.mkdir(parents=True)
    (event / "format").write_text("field:unsigned short protocol;")
    (tmp_path / "instances").mkdir()
    watched = drops.DropTracer((str(tmp_path),))
    assert watched.end() is None
    assert not list((tmp_path / "instances").iterdir())


def test_without_tracefs_nothing_is_reported(tmp_path: Path) -> None:
    assert drops.DropTracer((str(tmp_path / "none"),)).end() is None


@pytest.fixture
def tracefs(tmp_path: Path) -> Iterator[Path]:
    """Mount the kernel's own tracefs for the test. The mount adds nothing to it."""
    if os.geteuid() or "tracefs" not in Path("/proc/filesystems").read_text():
        pytest.skip("needs root and a kernel with tracefs")
    place = tmp_path / "tracing"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tracefs", "none", str(place)], check=False)
    if done.returncode:
        pytest.skip("tracefs cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_the_kernel_is_traced_in_a_temporary_instance(tracefs: Path) -> None:
    if not drops.has_drop_reasons(str(tracefs)):
        pytest.skip("this kernel's event has no reason")
    instances = tracefs / "instances"
    abandoned = (
        instances / f"{drops.PREFIX}4194305"
    )  # above the largest pid, so its process is gone
    abandoned.mkdir()
    others = set(instances.iterdir()) - {abandoned}
    watched = drops.DropTracer((str(tracefs),))
    assert set(instances.iterdir()) - others == {instances / f"{drops.PREFIX}{os.getpid()}"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as shut, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # never listens
        shut.sendto(b"x", listener.getsockname())
    said = watched.end()
    assert said is not None
    assert any(one["reason"] == "NO_SOCKET" and "udp" in one["place"] for one in said)
    assert set(instances.iterdir()) == others
    assert watched.end() is None


XDP = {
    "ifname": "vB",
    "xdp": {
        "mode": 1,
        "prog": {"id": 30873, "name": "", "tag": "a69a269005bbbd9f", "jited": 1},
        "attached": [{"mode": 1, "prog": {"id": 30873, "name": "", "tag": "a69a269005bbbd9f"}}],
    },
}


def test_programs_on_nics_and_control_groups_are_read() -> None:
    """As iproute2 6.1 and bpftool 7.1 printed it; the filters as tc-bpf(8) and tc-flower(8) have them."""
    what = "a program without a name (id 30873)"
    assert list(hooks.parse_xdp_hooks([XDP])) == [{"at": "xdp", "card": "vB", "what": what}]
    filters = [
        {"protocol": "all", "pref": 49152, "kind": "bpf", "chain": 0},
        {
            "kind": "bpf",
            "options": {"handle": "0x1", "bpf_name": "drop.o:[tc]", "direct-action": True},
        },
        {
            "kind": "flower",
            "options": {"actions": [{"kind": "gact", "control_action": {"type": "drop"}}]},
        },
    ]
    assert [one["what"] for one in hooks.parse_tc_hooks(filters, "eth1", "ingress")] == [
        "filter bpf: drop.o:[tc]",
        "filter flower: drop",
    ]
    net = [
        {
            "xdp": [{"devname": "vB", "ifindex": 2, "mode": "driver", "id": 30873}],
            "tc": [{"devname": "vB", "ifindex": 2, "kind": "tcx/ingress", "name": "wall", "id": 7}],
            "flow_dissector": [],
        }
    ]
    assert list(hooks.parse_tcx_hooks(net, "vB")) == [
        {"at": "tc ingress", "card": "vB", "what": "wall (id 7)"}
    ]
    tree = [
        {
            "cgroup": "/sys/fs/cgroup/system.slice/job.service",
            "programs": [
                {"id": 1, "attach_type": "cgroup_inet_egress", "name": "sd_fw_egress"},
                {"id": 2, "attach_type": "cgroup_device", "name": "sd_devices"},
                {"id": 3, "attach_type": "cgroup_inet_egress", "name": "wall"},
                {"id": 4, "attach_type": "cgroup_inet4_connect", "name": "proxy"},
            ],
        }
    ]
    assert [one["what"].split(" at ")[0] for one in hooks.parse_cgroup_hooks(tree)] == [
        "wall (id 3)",
        "proxy (id 4)",
    ]


@pytest.mark.parametrize(
    "said", [None, {}, [1], [{"xdp": 3, "programs": {}, "options": 1, "tc": 2}]]
)
def test_tools_with_unknown_output_find_nothing(said: object) -> None:
    assert not list(hooks.parse_xdp_hooks(said))
    assert not list(hooks.parse_tc_hooks(said, "eth1", "egress"))
    assert not list(hooks.parse_tcx_hooks(said, "eth1"))
    assert not list(hooks.parse_cgroup_hooks(said))


def test_a_missing_tool_finds_nothing() -> None:
    assert hooks.query_json_tool("no-such-tool-anywhere") == []
