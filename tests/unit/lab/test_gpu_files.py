"""Read the files of simulated GPUs with the modules that read real ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.facts import gpu
from ansible.module_utils.fullmesh.survey import job, pci_paths

from devtools.lab import gpu_files, gpus

# These steps need a node: mounts, system folders, services.
NODE_STEPS = (
    "mount ",
    "ldconfig",
    "/dev/nvidia",
    "/sys/",
    "/usr/bin/",
    "systemctl",
    "/run/systemd",
    "done",
)


def write_gpu_files(folder: Path, scenario: str, *settings: str) -> Path:
    """Run the script's steps with *folder* as its place, without the steps that need a node."""
    steps = gpu_files.steps(gpu_files.box(gpus.values(gpus.play(scenario, settings))))
    steps_to_run = [step for step in steps if not any(word in step for word in NODE_STEPS)]
    text = "\n".join(steps_to_run).replace(gpu_files.PLACE, str(folder))
    subprocess.run(["sh"], input=text, text=True, check=True, capture_output=True)
    return folder


def test_the_script_has_valid_syntax() -> None:
    lines = gpus.play("h100x8", ["machine=1", "rdma=8", "sxid=23001, Fatal, Link 12 Always Fatal"])
    shell = gpu_files.script(gpu_files.box(gpus.values(lines)))
    assert subprocess.run(["sh", "-n"], input=shell, text=True, check=False).returncode == 0


def test_the_bus_lists_gpus_and_switches(tmp_path: Path) -> None:
    found = gpu.list_nvidia_devices(str(write_gpu_files(tmp_path, "h100x8") / "pci"))
    assert [one["bus"] for one in found["gpus"]] == [f"0000:{bus}:00.0" for bus in gpus.BUSES]
    assert {one["driver"] for one in found["gpus"]} == {"nvidia"}
    assert found["switches"] == 4


@pytest.mark.parametrize(("control", "redirecting"), [("0", 0), ("0x11", 0), ("0x1d", 1)])
def test_acs_is_on_if_the_scenario_says_so(tmp_path: Path, control: str, redirecting: int) -> None:
    place = write_gpu_files(
        tmp_path, "h100x2", "rdma=2", f"acs={control}", "iommu=DMA-FQ", "1.numa=3"
    )
    paths = pci_paths.survey_pci_paths(str(place / "pci"), str(place / "class/infiniband"))
    assert [one["kind"] for one in paths] == ["gpu", "gpu", "rdma", "rdma"]
    assert {len(one["redirecting"]) for one in paths} == {redirecting}
    assert {one["iommu"] for one in paths} == {"DMA-FQ"}
    assert [one["numa"] for one in paths] == [0, 3, 0, 3]


def test_rdma_nics_have_an_active_port(tmp_path: Path) -> None:
    place = write_gpu_files(tmp_path, "h100x2", "rdma=2")
    found = job.survey_rdma(str(place / "class/infiniband"))
    assert [(one["device"], one["state"], one["vendor"]) for one in found] == [
        ("mlx5_0", "ACTIVE", "0x15b3"),
        ("mlx5_1", "ACTIVE", "0x15b3"),
    ]


@pytest.mark.parametrize(("line", "mode"), [("open=1", "dma_buf"), ("open=0", "")])
def test_the_driver_version_shows_open_kernel_modules(tmp_path: Path, line: str, mode: str) -> None:
    version = write_gpu_files(tmp_path, "h100x2", line) / "driver/nvidia/version"
    assert pci_paths.find_gpu_direct_mode(str(version), str(tmp_path / "modules"), "6.8.0") == mode


def test_the_kernel_log_contains_the_scenario_lines(tmp_path: Path) -> None:
    settings = [
        "machine=1",
        "1.xid=79, pid=4711, GPU has fallen off the bus.",
        "sxid=23001, Fatal, x",
    ]
    text = (write_gpu_files(tmp_path, "h100x2", *settings) / "kmsg").read_text()
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    found = job.parse_kernel_log(text.splitlines(), uptime)
    assert [(one["kind"], one["text"]) for one in found] == [
        ("gpu", "NVRM: Xid (PCI:0000:43:00): 79, pid=4711, GPU has fallen off the bus."),
        ("gpu", "nvidia-nvswitch0: SXid (PCI:0000:c8:00.0): 23001, Fatal, x"),
    ]
    assert all(one["age"] < 60 for one in found)


def test_fabric_manager_prints_its_version() -> None:
    values = gpus.values(gpus.play("h100x8", ["fm_version=580.82.07"]))
    lines = list(gpu_files.manager(gpu_files.box(values)))
    assert gpu.VERSION.search(lines[0])
    assert lines[-1] == "systemctl start nvidia-fabricmanager.service"
    stopped = gpu_files.box({**values, "fm": "inactive"})
    assert "systemctl start" not in "\n".join(gpu_files.manager(stopped))
    assert list(gpu_files.manager(gpu_files.box({**values, "fm": "absent"}))) == []
