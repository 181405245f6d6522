"""The checks of `fullmesh-check`: every finding is made by its fault."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import fullmesh_check
import fullmesh_check_links as check_links
import fullmesh_check_node as check_node
import fullmesh_fingerprint as fingerprint
import pytest
from fullmesh_check_node import HealthFinding

from fullmesh.settings import ROOT
from fullmesh.verify import xids

PROGRAMS = ROOT / "node_programs"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs namespaces of its own")


def codes(found: Iterable[HealthFinding]) -> list[str]:
    return [one.code for one in found]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node of files, and programs that can be replaced."""
    for name in ("PCI", "NET", "RDMA"):
        monkeypatch.setattr(check_node, name, str(tmp_path / name))
    for name in ("MODULE", "NODES", "MANIFEST", "ENVIRONMENT"):
        monkeypatch.setattr(check_node, name, str(tmp_path / name))
    monkeypatch.setattr(check_node, "LIBRARIES", (str(tmp_path / "lib*.so.*.*"),))
    monkeypatch.setattr(check_node, "KERNEL_LOG", str(tmp_path / "KMSG"))
    monkeypatch.setattr(check_node, "PATH", f"{tmp_path}:{check_node.PATH}")
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write_files(folder: Path, **files: str) -> None:
    """Write files, with their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def program(node: Path, name: str, script: str) -> None:
    """Replace a program of the node."""
    (node / name).write_text(f"#!/bin/sh\n{script}\n")
    (node / name).chmod(0o755)


def plan(node: Path, ranks: int = 1, **more: Any) -> None:
    """Write the plan, in which this machine is the first node."""
    nodes = [
        {"name": os.uname().nodename, "address": "127.0.0.1", "names": [], "local_ranks": ranks},
        *more.pop("peers", []),
    ]
    write_files(node, NODES=json.dumps({"nodes": nodes, **more}))


def gpu(node: Path, number: int = 1, config: bytes = b"\xde\x10\x30\x23", **more: str) -> None:
    """Put a GPU on the bus, behind a port of its own."""
    here = node / f"devices/port{number}/0000:0{number}:00.0"
    files = {"vendor": "0x10de", "class": "0x030200", "current_link_width": "16"}
    write_files(here, **{**files, "max_link_width": "16", **more})
    write_files(here.parent, max_link_width="16")
    (here / "config").write_bytes(config)
    (node / "PCI").mkdir(exist_ok=True)
    (node / "PCI" / here.name).symlink_to(here)


# --- GPUs ---------------------------------------------------------------------------------------------


def test_a_node_without_a_gpu_has_nothing_to_check(node: Path) -> None:
    for check in (check_node.check_gpus, check_node.check_smi):
        assert fullmesh_check.run_check(check)["state"] == "skipped"


def smi(*gpus: str, rows: str = "00000000:01:00.0, 0, 0\\n00000000:02:00.0, [N/A], [N/A]") -> str:
    """A FAKE that knows the fields of each table, as `nvidia-smi --help-query-gpu` lists them."""
    table = "\\n".join(gpus)
    return f"""case "$1" in
--query-gpu=*remapped_rows*) echo 'Field "remapped_rows.failure" is not a valid field to query.'; exit 2;;
--query-gpu=*) printf '{table}\\n';;
--query-remapped-rows=*) printf '{rows}\\n';;
esac"""


def test_healthy_gpus_give_nothing(node: Path) -> None:
    gpu(node, 1)
    gpu(node, 2)
    write_files(node, MODULE="550.54.15\n", **{"libnvidia-ml.so.550.54.15": ""})
    plan(node, ranks=2)
    assert codes(check_node.check_gpus()) == []
    program(node, "nvidia-smi", smi("0, 00000000:01:00.0, 0", "1, 00000000:02:00.0, [N/A]"))
    assert codes(check_node.check_smi()) == []
    assert codes(check_node.check_remapping()) == []


GPU_FAULTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a GPU that fell off the bus": ("HC-102", lambda node: gpu(node, 2, config=b"\xff" * 64)),
    "another driver is installed": ("HC-104", lambda node: write_files(node, MODULE="535.183.01")),
    "fewer lanes": ("HC-105", lambda node: gpu(node, 2, current_link_width="8")),
}


@pytest.mark.parametrize("name", GPU_FAULTS)
def test_a_fault_of_a_gpu(name: str, node: Path) -> None:
    code, fault = GPU_FAULTS[name]
    gpu(node)
    write_files(node, MODULE="550.54.15", **{"libnvidia-ml.so.550.54.15": ""})
    fault(node)
    assert codes(check_node.check_gpus()) == [code]


def earlier_gpus(node: Path, gpus: object) -> None:
    """Write a manifest of a run that saw these GPUs."""
    write_files(node, MANIFEST=json.dumps({"gpus": gpus, "state": {}}))


def test_a_gpu_that_has_gone_since_the_last_run(node: Path) -> None:
    plan(node, ranks=2)
    gpu(node, 1)
    earlier_gpus(node, ["0000:01:00.0", "0000:02:00.0"])
    (found,) = check_node.check_gpus()
    assert found.code == "HC-101"
    assert found.text == "1 of 2 GPUs are on the PCI bus, without 0000:02:00.0"
    plan(node, ranks=1)  # the job needs no other
    assert codes(check_node.check_gpus()) == []


def test_the_last_gpu_has_gone_with_its_driver(node: Path) -> None:
    plan(node, ranks=1)
    earlier_gpus(node, ["0000:01:00.0"])
    assert codes(check_node.check_gpus()) == ["HC-101"]


@pytest.mark.parametrize("gpus", [["0000:01:00.0"], ["0000:09:00.0"], [], None, 7, [7, {}]])
def test_more_ranks_than_gpus_are_no_fault(gpus: object, node: Path) -> None:
    """MIG, several ranks on one GPU, ranks on CPUs, or a bus that the firmware has numbered again."""
    plan(node, ranks=8)
    gpu(node, 1)
    earlier_gpus(node, gpus)
    assert codes(check_node.check_gpus()) == []


def test_a_slot_with_fewer_lanes_than_the_gpu_is_no_fault(node: Path) -> None:
    gpu(node, current_link_width="8")
    write_files(node / "devices/port1", max_link_width="8")
    assert codes(check_node.check_gpus()) == []


def test_switches_need_the_fabric_manager(node: Path) -> None:
    gpu(node)
    write_files(node / "PCI/0000:09:00.0", vendor="0x10de", **{"class": "0x068000"})
    for state, wanted in (("active", []), ("failed", ["HC-106"]), ("inactive", ["HC-106"])):
        program(node, "systemctl", f"echo {state}")
        assert codes(check_node.check_gpus()) == wanted


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        (smi("0, 00000000:01:00.0, 3"), ["HC-103"]),
        (smi("0, 00000000:01:00.0, 0", "1, 00000000:02:00.0, 0"), []),
        ("echo 'Unable to determine the device handle for GPU 0000:3B:00.0'; exit 255", ["HC-102"]),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", ["HC-104"]),
        ("echo 'Field \"remapped_rows.failure\" is not a valid field to query.'; exit 2", None),
        ("exec sleep 60", None),
    ],
)
def test_the_drivers_answer(script: str, wanted: list[str] | None, node: Path) -> None:
    write_files(node, MODULE="550.54.15")
    program(node, "nvidia-smi", script)
    found = fullmesh_check.run_check(check_node.check_smi)
    if wanted is None:
        assert found["state"] == ("unknown" if "sleep" in script else "skipped")
    else:
        assert [one["code"] for one in found["findings"]] == wanted


def test_a_gpu_that_the_driver_does_not_show(node: Path) -> None:
    gpu(node, 1)
    gpu(node, 2)
    write_files(node, MODULE="550.54.15")
    program(node, "nvidia-smi", smi("0, 00000000:01:00.0, 0"))
    plan(node, ranks=2)
    (found,) = check_node.check_smi()
    assert found.code == "HC-102"
    assert found.text == "the driver shows 1 of 2 GPUs, without 0000:02:00.0"
    plan(node, ranks=1)  # the job needs no other
    assert codes(check_node.check_smi()) == []


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ("00000000:01:00.0, 1, 0", "GPU 0000:01:00.0: a row remapping of its memory failed"),
        ("00000000:3B:00.0, No, Yes", "GPU 0000:3b:00.0: a row remapping of its memory is pending"),
        ("00000000:01:00.0, 0, 0\\n00000000:02:00.0, [N/A], [N/A]", ""),
        ("damaged", ""),
    ],
)
def test_memory_rows_that_are_remapped(rows: str, wanted: str, node: Path) -> None:
    write_files(node, MODULE="550.54.15")
    program(node, "nvidia-smi", smi("0, 00000000:01:00.0, 0", rows=rows))
    found = list(check_node.check_remapping())
    assert [(one.code, one.text) for one in found] == ([("HC-103", wanted)] if wanted else [])


@pytest.mark.parametrize(
    "script", ["echo 'ERROR: Option --query is not recognized.'; exit 1", "echo lost; exit 15"]
)
def test_an_nvidia_smi_without_a_table_of_rows(script: str, node: Path) -> None:
    write_files(node, MODULE="550.54.15")
    program(node, "nvidia-smi", script)
    assert fullmesh_check.run_check(check_node.check_remapping)["state"] == "skipped"


# --- the kernel log -----------------------------------------------------------------------------------


def kernel_log(node: Path, *lines: str, seconds: float = 60.0) -> None:
    """Write messages of the kernel, and let the node be no container."""
    when = int(1e6 * (time.monotonic() - seconds))
    write_files(node, KMSG="".join(f"4,{at},{when},-;{text}\n" for at, text in enumerate(lines)))
    write_files(node, MODULE="550.54.15")
    program(node, "systemd-detect-virt", "echo none; exit 1")


def test_the_numbers_of_xids_are_those_of_the_verification() -> None:
    """154 names the action that other numbers need."""
    stopping = {number for number, meaning in xids.MEANINGS.items() if meaning.stops}
    assert stopping - {xids.ASKS} == check_node.STOPPING_XIDS


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", ["HC-108"]),
        ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", ["HC-108"]),
        ("NVRM: Xid (PCI:0000:3b:00): 31, pid=812, name=python, MMU Fault", []),
        ("NVRM: Xid (PCI:0000:3b:00): 790, x", []),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 44", ["HC-108"]),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32", []),
        ("eth1: Link is Down", []),
    ],
)
def test_errors_that_the_driver_reported(line: str, wanted: list[str], node: Path) -> None:
    kernel_log(node, "usb 1-1: new device", line, "\xff")
    found = list(check_node.check_xids())
    assert [one.code for one in found] == wanted
    assert all(one.text == f"the driver reported 1 min ago: {line}" for one in found)
    kernel_log(node, line, seconds=2 * check_node.XID_SECONDS)
    assert codes(check_node.check_xids()) == []


def test_an_error_that_repeats_is_one_finding(node: Path) -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    kernel_log(node, *[line] * 50, *(line.replace("3b", f"{at:02x}") for at in range(50)))
    assert len(codes(check_node.check_xids())) == check_node.MOST_REPORTS


@pytest.mark.parametrize("why", ["container", "no driver", "no right"])
def test_a_kernel_log_that_is_not_read(why: str, node: Path) -> None:
    kernel_log(node, "NVRM: Xid (PCI:0000:3b:00): 79, x")
    if why == "container":
        program(node, "systemd-detect-virt", "echo docker")
    elif why == "no driver":
        (node / "MODULE").unlink()
    else:
        (node / "KMSG").unlink()
    assert fullmesh_check.run_check(check_node.check_xids)["state"] == "skipped"


def test_the_real_kernel_log_has_an_end() -> None:
    """Its read does not wait for the next message."""
    with contextlib.suppress(check_node.NoCheckError):
        list(check_node.list_driver_reports())


# --- the interface ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"carrier": "1", "operstate": "up", "duplex": "full"}, []),
        ({"carrier": "0", "operstate": "up"}, ["HC-111"]),
        ({"carrier": "", "operstate": "down"}, ["HC-111"]),
        ({"carrier": "1", "operstate": "up", "duplex": "half"}, ["HC-113"]),
    ],
)
def test_the_interface_of_the_cluster_address(
    files: dict[str, str], wanted: list[str], node: Path
) -> None:
    plan(node)
    write_files(node / "NET/lo", **files)
    assert codes(check_node.check_interfaces()) == wanted


def test_a_cluster_address_that_is_gone(node: Path) -> None:
    own = {"name": os.uname().nodename, "address": "192.0.2.7", "names": []}
    write_files(node, NODES=json.dumps({"nodes": [own]}))
    assert codes(check_node.check_interfaces()) == ["HC-112"]
    for text in ("", "{", "[]", '{"nodes": 7}', '{"nodes": [{"name": "other"}]}'):
        write_files(node, NODES=text)
        assert fullmesh_check.run_check(check_node.check_interfaces)["state"] == "skipped"


def test_a_node_knows_itself_without_its_address(node: Path) -> None:
    """Its host name is another one, and its interface has lost the address."""
    nodes = [{"name": f"n{at}", "address": f"192.0.2.{at}", "names": []} for at in (6, 7)]
    write_files(
        node, NODES=json.dumps({"nodes": nodes}), ENVIRONMENT="X=1\nFULLMESH_ADDRESS=192.0.2.7\n"
    )
    (found,) = check_node.check_interfaces()
    assert (found.code, found.text) == ("HC-112", "no interface has the cluster address 192.0.2.7")
    assert [one.name for one in check_links.list_peers("")] == ["n6"]


@pytest.mark.parametrize(
    ("interface", "wanted"),
    [
        ("eth7", "HC-111"),
        ("eth8", "HC-112"),
        ("none", "HC-112"),
        ("../eth7", "HC-111"),
        (7, "HC-112"),
    ],
)
def test_an_interface_without_a_link_loses_its_address(
    interface: object, wanted: str, node: Path
) -> None:
    """The link is the cause."""
    write_files(
        node, NODES=json.dumps({"nodes": [{"name": os.uname().nodename, "address": "192.0.2.7"}]})
    )
    owned = [{"interface": "eth9", "address": "192.0.2.9/24"}]
    owned.append({"interface": interface, "address": "192.0.2.7/24"})  # type: ignore[dict-item]
    write_files(node, MANIFEST=json.dumps({"owned": {"addresses": owned}}))
    write_files(node / "NET/eth7", carrier="", operstate="down")
    write_files(node / "NET/eth8", carrier="1", operstate="up")
    assert codes(check_node.check_interfaces()) == [wanted]


@pytest.mark.parametrize("script", ["exit 1", "echo damaged", "exit 127"])
def test_without_an_answer_of_ip_no_address_is_called_missing(script: str, node: Path) -> None:
    plan(node)
    program(node, "ip", script)
    for check in (check_node.check_interfaces, partial(check_links.check_connections, "", 0)):
        assert fullmesh_check.run_check(check)["state"] in ("unknown", "skipped")


def test_rdma_on_another_interface_is_not_the_jobs(node: Path) -> None:
    plan(node)
    for name, held, state in (("mlx5_0", "lo", "4: ACTIVE"), ("mlx5_1", "eth7", "1: DOWN")):
        write_files(node / f"RDMA/{name}/ports/1", state=state)
        (node / f"RDMA/{name}/device/net/{held}").mkdir(parents=True)
    assert codes(check_node.check_interfaces()) == []
    write_files(node / "RDMA/mlx5_0/ports/1", state="2: INIT")
    assert codes(check_node.check_interfaces()) == ["HC-114"]


# --- limits, clock, disks -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("/proc/none", "", []),
        ("/proc/sys/fs/file-nr", "9900 0 10000", ["HC-121"]),
        ("/proc/sys/kernel/threads-max", "100", ["HC-121"]),
        ("/proc/sys/kernel/pid_max", "100", ["HC-121"]),
        ("/proc/meminfo", "MemTotal: 99 kB\nMemAvailable: 90000 kB", ["HC-122"]),
        ("/proc/meminfo", "damaged", []),
        ("/proc/sys/fs/file-nr", "", []),
    ],
)
def test_limits_of_the_kernel(
    path: str, text: str, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        "/proc/sys/fs/file-nr": "1000 0 10000",
        "/proc/loadavg": "0.1 0.1 0.1 2/99 7",
        "/proc/sys/kernel/threads-max": "1000",
        "/proc/sys/kernel/pid_max": "1000",
        "/proc/meminfo": "MemAvailable: 9000000 kB",
        path: text,
    }
    monkeypatch.setattr(check_node, "read_text", told.__getitem__)
    assert codes(check_node.check_limits()) == wanted


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("A9FEA97B,169.254.169.123,4,1.7,0.000012,0,0,0,0,0,0,0,0,Normal", []),
        ("A9FEA97B,169.254.169.123,4,1.7,-3600.5,0,0,0,0,0,0,0,0,Normal", ["HC-132"]),
        ("7F7F0101,,0,0,0.0,0,0,0,0,0,0,0,0,Not synchronised", ["HC-131"]),
    ],
)
def test_the_clock_by_chrony(answer: str, wanted: list[str], node: Path) -> None:
    program(node, "chronyc", f"echo '{answer}'")
    assert codes(check_node.check_clock()) == wanted


def test_the_clock_by_the_kernel(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(node, "chronyc", "echo '506 Cannot talk to daemon'; exit 1")
    monkeypatch.setattr(check_node, "TIME_SERVICES", frozenset())
    assert fullmesh_check.run_check(check_node.check_clock)["state"] == "skipped"
    monkeypatch.setattr(
        check_node, "TIME_SERVICES", frozenset([Path("/proc/self/comm").read_text().strip()])
    )
    synchronized = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256)) != 5
    assert codes(check_node.check_clock()) == ([] if synchronized else ["HC-131"])
    monkeypatch.setattr(check_node, "TIME_ERROR", 0 if synchronized else 5)
    assert codes(check_node.check_clock()) == ["HC-131"]


@as_root
def test_the_time_service_of_a_container_is_not_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_node, "TIME_SERVICES", frozenset(["fmclock"]))
    named = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'fmclock'); print(1, flush=True); "
    own = [sys.executable, "-S", "-c", named + "time.sleep(600)"]
    contained = ["unshare", "--pid", "--fork", "--kill-child"]
    for command, found in ((own, True), ([*contained, *own], False)):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            assert check_node.has_time_service() == found
            process.kill()


IN_NAMESPACE = f"""
import sys; sys.path.insert(0, {str(PROGRAMS)!r})
import fullmesh_check_node as node
node.FOLDERS = (sys.argv[1],)
print(*(one.code for one in node.check_disks()))
"""


@as_root
@pytest.mark.parametrize(
    ("options", "fill", "wanted"),
    [
        ("size=4m", "true", ""),
        ("size=4m", "head -c 8m /dev/zero > {}/big || true", "HC-141"),
        (
            "size=4m,nr_inodes=50",
            "for i in $(seq 60); do touch {}/$i 2>/dev/null || true; done",
            "HC-141",
        ),
        ("size=4m", "mount -o remount,ro {}", "HC-142"),
    ],
)
def test_file_systems(options: str, fill: str, wanted: str, tmp_path: Path) -> None:
    """Real ones, in a mount namespace."""
    script = f"mount -t tmpfs -o {options} none {tmp_path} && {fill.format(tmp_path)}; "
    call = f'exec {sys.executable} -c "$0" {tmp_path}'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script + call, IN_NAMESPACE],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == wanted


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EACCES])
def test_a_mount_whose_server_answers_with_an_error(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(folder: str) -> None:
        raise OSError(number, os.strerror(number), folder)

    monkeypatch.setattr(os, "statvfs", fails)
    wanted = [] if number == errno.EACCES else ["HC-143"]
    assert codes(check_node.check_mount("/data", "mount /data (nfs4, n1:/data)")) == wanted


# --- drift --------------------------------------------------------------------------------------------


@as_root
def test_drift_from_the_manifest(node: Path) -> None:
    assert fullmesh_check.run_check(check_node.check_drift)["state"] == "skipped"
    write_files(node, file="as configured")
    program(node, "systemctl", "echo active")
    state = {
        "file": {str(node / "file"): fingerprint.fingerprint_path(str(node / "file"))},
        "sysctl": {"kernel.ostype": "Linux"},
        "address": {"lo 127.0.0.1/8": True},
        "service": {"chronyd": {"active": True, "enabled": True}},
        "package": {"chrony": "4.3"},
    }
    write_files(node, MANIFEST=json.dumps({"state": state}))
    assert codes(check_node.check_drift()) == []
    faults: dict[str, dict[str, Any]] = {
        "file": {str(node / "file"): "absent"},
        "sysctl": {"kernel.ostype": "Plan 9"},
        "address": {"lo 192.0.2.1/24": True},
        "service": {"chronyd": {"active": False, "enabled": True}},
    }
    for kind, held in faults.items():
        write_files(node, MANIFEST=json.dumps({"state": {**state, kind: held}}))
        (found,) = check_node.check_drift()
        assert found.code == "HC-151"
        assert f"{kind} {next(iter(held))}" in found.text
    for text in ("{", "[]", "7", '{"state": 7}', '{"state": {"file": 7}}'):
        write_files(node, MANIFEST=text)
        assert fullmesh_check.run_check(check_node.check_drift)["state"] == "unknown"


# --- links --------------------------------------------------------------------------------------------


def test_slurms_lists_of_hosts() -> None:
    cases = {
        "n1": ["n1"],
        "n[1-3]": ["n1", "n2", "n3"],
        "n[08-10,12],m1": ["n08", "n09", "n10", "n12", "m1"],
        "r[1-2]n[1-2].c": ["r1n1.c", "r1n2.c", "r2n1.c", "r2n2.c"],
        "": [],
        "n[": ["n"],
    }
    assert {text: check_links.expand_host_list(text) for text in cases} == cases
    assert len(check_links.expand_host_list("n[1-99999999]")) == check_links.MOST_PEERS


def test_the_peers_are_of_the_file_the_job_or_the_plan(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        fullmesh_check.run_check(lambda: check_links.check_connections("", time.monotonic() + 1))[
            "state"
        ]
        == "skipped"
    )
    peers = [
        {"name": f"n{at}", "address": f"198.51.100.{at}", "names": [f"host{at}"]} for at in (2, 3)
    ]
    plan(node, peers=peers)
    assert [one.address for one in check_links.list_peers("")] == ["198.51.100.2", "198.51.100.3"]
    monkeypatch.setenv("SLURM_JOB_NODELIST", f"{os.uname().nodename},host3")
    assert [one.address for one in check_links.list_peers("")] == ["198.51.100.3"]
    write_files(node, hosts="# mine\nn2 slots=8\n\n198.51.100.9\n")
    found = check_links.list_peers(str(node / "hosts"))
    assert [one.address for one in found] == ["198.51.100.2", "198.51.100.9"]
    assert (
        fullmesh_check.run_check(partial(check_links.check_connections, str(node / "none"), 0))[
            "state"
        ]
        == "unknown"
    )


NETWORK = """
set -e
ip link set lo up; ip link add wa type veth peer name wb
unshare --net sleep 60 >/dev/null & peer=$!; trap "kill $peer" EXIT
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link set wb netns $peer; ip address add 10.9.9.1/24 dev wa; ip link set wa up
in_peer() { nsenter --net=/proc/$peer/ns/net "$@"; }
in_peer ip link set lo up; in_peer ip address add 10.9.9.2/24 dev wb; in_peer ip link set wb up
FAULT
"$@"
"""
CHECK = f"""
import json, sys, time; sys.path.insert(0, {str(PROGRAMS)!r})
import fullmesh_check_node as node, fullmesh_check_links as links
node.NODES = sys.argv[1]
import fullmesh_check as check
for seconds in (3, 6, 12, 24):  # on a busy machine, 3 s can be too few to say anything
    end = time.monotonic() + seconds
    done = check.run_checks(check.list_checks(["links"], "", end - 0.2), end)
    if all(said["state"] != "unknown" for said in done.values()):
        break
print(json.dumps([[one["code"], one["text"]] for said in done.values() for one in said["findings"]]))
"""


class FakeErrorSocket:
    """A raw socket with ICMP packets."""

    def __init__(self, family: int, *packets: bytes) -> None:
        self.family, self.packets = family, [*packets]

    def recv(self, size: int) -> bytes:
        if not self.packets:
            raise BlockingIOError
        return self.packets.pop(0)[:size]


# RFC 792 and 4443: an error quotes the beginning of the packet that caused it. Addresses: of this node, of the peer.
QUOTED4 = b"\x45" + bytes(11) + bytes([10, 9, 9, 1, 10, 9, 9, 2]) + b"\xb0\x00\x00\x07" + bytes(4)
HEADER4 = b"\x45" + bytes(19)
ERROR4 = HEADER4 + b"\x03\x03" + bytes(6) + QUOTED4
QUOTED6 = b"\x60" + bytes(22) + b"\x01" + bytes(15) + b"\x02" + b"\xb0\x00\x00\x07" + bytes(4)
ERROR6 = b"\x01\x04" + bytes(6) + QUOTED6


@pytest.mark.parametrize(
    ("family", "packets", "wanted"),
    [
        (socket.AF_INET, [ERROR4], {"10.9.9.2"}),
        (socket.AF_INET, [b"", b"\x4f", HEADER4, ERROR4[:29], ERROR4], {"10.9.9.2"}),
        (socket.AF_INET, [ERROR4.replace(b"\x00\x07", b"\x00\x08")], set()),
        (socket.AF_INET, [HEADER4 + b"\x08" + ERROR4[21:]], set()),
        (socket.AF_INET6, [b"", ERROR6[:20], ERROR6], {"::2"}),
        (socket.AF_INET6, [b"\x81" + ERROR6[1:]], set()),
    ],
    ids=["v4", "damaged", "other port", "echo", "v6", "echo of v6"],
)
def test_a_rejected_connection_is_not_a_port_without_a_listener(
    family: int, packets: list[bytes], wanted: set[str]
) -> None:
    """Both are ECONNREFUSED. `reject` of nft and REJECT of iptables send this error by default."""
    assert check_links.read_rejected([FakeErrorSocket(family, *packets)], 7) == wanted  # type: ignore[list-item]


def test_a_firewall_that_rejects_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port without a listener on this machine, whose refusal an error accompanies."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    end = time.monotonic() + 3
    assert check_links.connect_all(["127.0.0.1"], port, end) == {}
    monkeypatch.setattr(check_links, "read_rejected", lambda *_: {"127.0.0.1"})
    found = check_links.connect_all(["127.0.0.1"], port, end)
    assert found == {"127.0.0.1": "a firewall rejects the connection (ICMP port unreachable)"}


@as_root
@pytest.mark.parametrize(
    ("fault", "wanted", "words"),
    [
        ("true", [], ""),
        ("in_peer ip link set wb down", ["HC-161"], "n2 (10.9.9.2:54095): "),
        ("in_peer ip address del 10.9.9.2/24 dev wb", ["HC-161"], "n2 (10.9.9.2:54095): "),
        ("in_peer ip route add blackhole 10.9.9.1", ["HC-161"], "no answer"),
        ("in_peer ip link set wb mtu 1400", ["HC-162"], "packets of 1500 bytes are lost"),
    ],
    ids=["healthy", "no link", "peer is off", "no way back", "MTU"],
)
def test_real_links(fault: str, wanted: list[str], words: str, tmp_path: Path) -> None:
    """Two network namespaces with a cable."""
    own = {"name": "n1", "address": "10.9.9.1", "names": []}
    peer = {"name": "n2", "address": "10.9.9.2", "names": []}
    ports = {"first": 50000, "last": 54095}
    write_files(tmp_path, plan=json.dumps({"nodes": [own, peer], "data_ports": ports}))
    script = NETWORK.replace("FAULT", fault)
    done = subprocess.run(
        [
            "unshare",
            "--net",
            "sh",
            "-c",
            script,
            "sh",
            sys.executable,
            "-c",
            CHECK,
            tmp_path / "plan",
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    found = json.loads(done.stdout)
    assert [code for code, *_ in found] == wanted, found
    assert words in "".join(text for _, text in found)


def test_more_unreachable_peers_are_counted(monkeypatch: pytest.MonkeyPatch, node: Path) -> None:
    peers = [{"name": f"n{at}", "address": f"127.9.0.{at}", "names": []} for at in range(2, 14)]
    plan(node, peers=peers)
    failed = {one["address"]: "no answer" for one in peers}
    monkeypatch.setattr(check_links, "connect_all", lambda *_: failed)
    found = list(check_links.check_connections("", time.monotonic() + 1))
    assert codes(found) == ["HC-161"] * 9
    assert found[-1].text == "4 more of 12 peers could not be reached"
    lossy: dict[str, set[str]] = {one["address"]: {"small"} for one in peers}
    monkeypatch.setattr(check_links, "echo_all", lambda *_: lossy)
    found = list(check_links.check_packets("", time.monotonic() + 1))
    assert found[-1].text == "4 more of 12 peers lose large packets"
    assert {peer for one in found for peer in one.peers} == {one["name"] for one in peers}


def test_loopback_answers_with_both_sizes() -> None:
    if check_links.open_echo_socket(socket.AF_INET) is None:
        pytest.skip("this account may not send echo requests")
    assert check_links.echo_all(["127.0.0.1"], time.monotonic() + 5) == {
        "127.0.0.1": {"small", "large"}
    }


def test_a_check_without_time_for_answers_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy node can start it at the end of its time."""
    late = time.monotonic() - 1
    assert check_links.connect_all(["127.0.0.1"], 9, late) == {}  # the answer has come
    with socket.socket() as silent, socket.socket(type=socket.SOCK_DGRAM) as echo:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        echo.bind(("127.0.0.1", 0))
        monkeypatch.setattr(check_links, "start_connection", lambda *_: silent)
        with pytest.raises(check_node.NoCheckError, match="too little time"):
            check_links.connect_all(["127.0.0.1"], 9, late)
        with pytest.raises(check_node.NoCheckError, match="too little time"):
            check_links.exchange_echoes(echo, socket.AF_INET, ["127.0.0.1"], late)


def test_a_token_that_ends_like_the_filler_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One packet of 256 had such a token, and then seemed to be lost."""
    numbers = iter(range(9))
    monkeypatch.setattr(os, "urandom", lambda size: bytes([next(numbers)] * (size - 1)) + b"f")
    test_loopback_answers_with_both_sizes()
