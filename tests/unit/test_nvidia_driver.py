"""The NVIDIA driver: read the output of real machines, and decide what a node needs.

Samples and their sources: tests/unit/recorded/gpu/*.xml (each names its own); ``topo -m`` of four H100 (NVIDIA/nccl
issue 1617) and of two RTX 5090, with tabs (noonghunna/club-3090 issue 1229); ``nvlink -s`` of a V100 with two links
down (Azure/azhpc-diagnostics issue 73) and of a GB200 (NVIDIA/k8s-test-infra issue 371); Xids: NVSentinel issue 155.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.module_utils.fullmesh.facts import gpu
from ansible.module_utils.fullmesh.tools import nvidia_smi
from ansible.utils.vars import merge_hash

from fullmesh.contract import convert_value
from fullmesh.filters import nvidia_driver
from fullmesh.observed.family import PackageFamily
from fullmesh.observed.gpu import GpuFacts, SmiReport
from fullmesh.roles import nvidia_driver as roles_nvidia_driver
from fullmesh.settings import ROOT

RECORDED = Path(__file__).parent / "recorded/gpu"
XIDS = """\
[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0
               NVRM: (PCI ID: 10de:26b5) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).
[ 1850.000000] NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus
[ 1851.000000] NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus
"""
OPTIONS: dict[str, Any] = {
    "nvidia_driver_branch": "580",
    "nvidia_driver_kind": "precompiled",
    "nvidia_driver_open": True,
    "nvidia_driver_fabric_manager": "auto",
    "nvidia_driver_packages": [],
    "nvidia_driver_persistence": True,
    "nvidia_driver_key_enrolled": False,
    "nvidia_driver_hold": True,
}
FAMILY: PackageFamily = {
    "versions": {},
    "locks": {},
    "streams": {},
    "install": [],
    "remove": [],
    "needed": [],
    "kept": [],
}
UBUNTU, DEBIAN, EL9, EL10 = "Ubuntu", "Debian", "RedHat_9", "RedHat_10"


def read_recording(name: str) -> SmiReport:
    return convert_value(SmiReport, nvidia_smi.parse_smi((RECORDED / f"{name}.xml").read_text()))


def load_offers(system: str) -> roles_nvidia_driver.DriverOffers:
    text = (ROOT / f"roles/nvidia_driver/vars/{system}.yml").read_text()
    return convert_value(
        roles_nvidia_driver.DriverOffers, yaml.safe_load(text)["__nvidia_driver_offers"]
    )


def node(**change: Any) -> GpuFacts:
    """Return a bare machine with one GPU that nouveau uses."""
    bare = {
        "kernel": "6.8.0-45-generic",
        "container": False,
        "pci": {
            "gpus": [{"bus": "0000:01:00.0", "device": "0x20b2", "driver": "nouveau"}],
            "switches": 0,
        },
        "smi": {"driver": "", "cuda": "", "cards": [], "processes": [], "failed": False},
        "loaded": "",
        "nouveau": True,
        "secure_boot": False,
        "xids": [],
        "tools": {"compiler": "/usr/bin/gcc", "headers": True},
    }
    return convert_value(GpuFacts, {**bare, **change})


def plan_driver(
    system: str = UBUNTU, packages: dict[str, str] | None = None, **change: Any
) -> roles_nvidia_driver.DriverPlan:
    settings = {key: value for key, value in change.items() if key in OPTIONS}
    seen = node(**{key: value for key, value in change.items() if key not in OPTIONS})
    there = load_offers(system)
    asked = roles_nvidia_driver.read_driver_settings({**OPTIONS, **settings}, there)
    return roles_nvidia_driver.plan_driver(
        asked, there, seen, packages or {"nvidia-driver": ""}, FAMILY
    )


# name -> driver, model, lanes used and available, ECC, persistence, computing processes
MACHINES: dict[str, tuple[Any, ...]] = {
    "a100-sxm4-v12": (
        "535.54.03",
        "NVIDIA A100-SXM4-80GB",
        "16x",
        "16x",
        "Enabled",
        "Disabled",
        [],
    ),
    "a10g": ("515.105.01", "NVIDIA A10G", "8x", "16x", "Enabled", "Disabled", []),
    "tesla-t4": ("515.105.01", "Tesla T4", "8x", "16x", "Enabled", "Disabled", ["python"]),
    "h200": (
        "580.159.04",
        "NVIDIA H200",
        "16x",
        "16x",
        "Enabled",
        "Enabled",
        ["/home/user/venv/bin/python3"],
    ),
    "rtx-3080-v12": ("536.40", "NVIDIA GeForce RTX 3080", "16x", "16x", "", "", []),
    "gtx-1070-ti": ("", "GeForce GTX 1070 Ti", "16x", "", "", "", []),
}


@pytest.mark.parametrize(("name", "wanted"), MACHINES.items(), ids=list(MACHINES))
def test_facts_of_real_machines_are_read(name: str, wanted: tuple[Any, ...]) -> None:
    found = read_recording(name)
    (card,) = found["cards"]
    fields = ("name", "width", "width_most", "ecc_mode", "persistence")
    jobs = [process["name"] for process in found["processes"]]
    assert (found["driver"], *(card[field] for field in fields), jobs) == wanted
    assert card["ecc_volatile"] == 0
    assert card["uuid"].startswith("GPU-")
    assert card["memory"].endswith("MiB")


def test_all_recorded_machines_are_read() -> None:
    assert len(list(RECORDED.glob("*.xml"))) == 8
    for path in RECORDED.glob("*.xml"):
        assert nvidia_smi.parse_smi(path.read_text())["cards"]


def test_a_busy_gpu_at_its_power_limit_is_not_slowed() -> None:
    assert "reason_sw_power_cap>Active" in (RECORDED / "h200.xml").read_text()
    assert read_recording("h200")["cards"][0]["slowed"] == []


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ("<dram_uncorrectable>3</dram_uncorrectable>", 3),
        ("<sram_uncorrectable>1</sram_uncorrectable><dram_uncorrectable>2</dram_uncorrectable>", 3),
        ("<sram_uncorrectable_parity>1</sram_uncorrectable_parity>", 1),
        ("<double_bit><total>4</total></double_bit>", 4),
        ("<dram_uncorrectable>N/A</dram_uncorrectable>", 0),
    ],
)
def test_errors_are_counted_under_any_driver_name(fields: str, errors: int) -> None:
    text = f"<l><gpu><ecc_errors><volatile>{fields}</volatile></ecc_errors></gpu></l>"
    assert nvidia_smi.parse_smi(text)["cards"][0]["ecc_volatile"] == errors


def test_xids_are_read_from_numbers_and_text() -> None:
    assert [(x["bus"], x["xid"], x["times"]) for x in gpu.parse_xids(XIDS)] == [
        ("", 79, 1),
        ("0000:44:00", 79, 2),
    ]


def test_the_bus_shows_gpus_without_a_driver(tmp_path: Path) -> None:
    for name, vendor, kind in (
        ("0000:01:00.0", "0x10de", "0x030200"),
        ("0000:02:00.0", "0x10de", "0x068000"),
        ("0000:03:00.0", "0x10de", "0x040300"),
        ("0000:04:00.0", "0x1af4", "0x030000"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
        (tmp_path / name / "class").write_text(kind + "\n")
        (tmp_path / name / "device").write_text("0x20b2\n")
    assert gpu.list_nvidia_devices(str(tmp_path)) == {
        "gpus": [{"bus": "0000:01:00.0", "device": "0x20b2", "driver": ""}],
        "switches": 1,
    }


@pytest.mark.parametrize(
    ("held", "said"), [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False), (b"", None), (None, None)]
)
def test_secure_boot_is_the_fifth_byte(
    tmp_path: Path, held: bytes | None, said: bool | None
) -> None:
    path = tmp_path / "SecureBoot"
    if held is not None:
        path.write_bytes(held)
    assert gpu.read_secure_boot(str(path)) is said


@pytest.mark.parametrize(
    ("system", "kind", "is_open", "names"),
    [
        (
            UBUNTU,
            "precompiled",
            True,
            ["linux-modules-nvidia-580-server-open-generic", "nvidia-driver-580-server-open"],
        ),
        (UBUNTU, "dkms", False, ["nvidia-dkms-580-server", "nvidia-driver-580-server"]),
        (EL9, "precompiled", False, ["@nvidia-driver:580"]),
        (EL9, "dkms", True, ["@nvidia-driver:580-open"]),
        (EL10, "dkms", True, ["nvidia-open-580*"]),
    ],
)
def test_the_packages_of_a_branch(system: str, kind: str, is_open: bool, names: list[str]) -> None:
    found = plan_driver(system, nvidia_driver_kind=kind, nvidia_driver_open=is_open)
    assert (found["faults"], found["install"]) == ([], names)
    assert found["build"] == [] if kind == "precompiled" else len(found["build"]) > 2
    assert found["reboot"] == "nouveau holds the GPUs"


@pytest.mark.parametrize(
    ("system", "change", "codes"),
    [
        (UBUNTU, {}, []),
        (UBUNTU, {"nvidia_driver_branch": ""}, ["ND-101"]),
        (UBUNTU, {"nvidia_driver_branch": "580.95"}, ["ND-101"]),
        (EL9, {}, ["ND-102"]),
        (EL9, {"nvidia_driver_packages": ["kmod-mine"]}, []),
        (EL10, {"nvidia_driver_branch": "x"}, ["ND-101", "ND-102"]),
        (DEBIAN, {}, ["ND-102"]),
        (DEBIAN, {"nvidia_driver_kind": "auto"}, ["ND-102"]),
        (DEBIAN, {"nvidia_driver_packages": ["nvidia-driver"]}, []),
    ],
)
def test_settings_that_cannot_work_are_refused(
    system: str, change: dict[str, Any], codes: list[str]
) -> None:
    found = roles_nvidia_driver.find_driver_faults(
        roles_nvidia_driver.read_driver_settings({**OPTIONS, **change}, load_offers(system)),
        load_offers(system),
    )
    assert [fault.code for fault in found] == codes


def test_a_system_without_packages_names_the_setting_for_them() -> None:
    asked = roles_nvidia_driver.read_driver_settings(OPTIONS, load_offers(DEBIAN))
    (fault,) = roles_nvidia_driver.find_driver_faults(asked, load_offers(DEBIAN))
    assert fault.step == "Name the packages in nvidia_driver_packages"


@pytest.mark.parametrize(
    ("name", "is_driver"),
    [
        ("nvidia-driver", True),
        ("nvidia-kernel-dkms", True),
        ("libnvidia-ml1", True),
        ("libcuda1", True),
        ("firmware-nvidia-gsp", True),
        ("nvidia-container-toolkit", False),
        ("libnvidia-container1", False),
        ("libnvidia-container-tools", False),
        ("nvidia-cuda-toolkit", False),
    ],
)
def test_the_family_on_debian_is_the_driver_alone(name: str, is_driver: bool) -> None:
    family = load_offers(DEBIAN)["family"]
    assert any(re.fullmatch(pattern, name) for pattern in family) is is_driver


@pytest.mark.parametrize(
    ("system", "is_open", "kind"),
    [
        (UBUNTU, True, "precompiled"),
        (UBUNTU, False, "precompiled"),
        (EL9, True, "dkms"),
        (EL9, False, "precompiled"),
        (EL10, True, "dkms"),
        (EL10, False, "dkms"),
    ],
)
def test_auto_is_a_kind_that_the_system_has(system: str, is_open: bool, kind: str) -> None:
    options = {**OPTIONS, "nvidia_driver_kind": "auto", "nvidia_driver_open": is_open}
    asked = roles_nvidia_driver.read_driver_settings(options, load_offers(system))
    assert asked.kind == kind
    assert roles_nvidia_driver.find_driver_faults(asked, load_offers(system)) == []


def test_the_installed_alternative_is_named() -> None:
    (fault,) = roles_nvidia_driver.find_driver_faults(
        roles_nvidia_driver.read_driver_settings(OPTIONS, load_offers(EL9)), load_offers(EL9)
    )
    assert "precompiled, nvidia_driver_open: false" in fault.step
    assert "dkms, nvidia_driver_open: true" in fault.step


GPU = {"bus": "1", "device": "0x20b2", "driver": ""}
WAITING = {"name": "H100", "uuid": "GPU-1", "memory": "81559 MiB", "fabric": "In Progress"}
JOB = {
    "driver": "535.1",
    "cuda": "",
    "cards": [],
    "failed": False,
    "processes": [{"pid": 7, "name": "python"}],
}


@pytest.mark.parametrize(
    ("system", "change", "code"),
    [
        (UBUNTU, {"container": True}, "ND-108"),
        (UBUNTU, {"pci": {"gpus": [], "switches": 0}}, "ND-107"),
        (UBUNTU, {"secure_boot": True, "nvidia_driver_kind": "dkms"}, "ND-104"),
        (EL9, {"secure_boot": True, "nvidia_driver_open": False}, "ND-104"),
        (UBUNTU, {"smi": JOB}, "ND-105"),
    ],
)
def test_a_driver_that_must_not_change_is_kept(
    system: str, change: dict[str, Any], code: str
) -> None:
    (fault,) = plan_driver(system, **change)["faults"]
    assert fault.startswith(f"[{code}]")


def test_signed_or_enrolled_modules_pass_secure_boot() -> None:
    assert plan_driver(secure_boot=True)["faults"] == []
    assert (
        plan_driver(secure_boot=True, nvidia_driver_kind="dkms", nvidia_driver_key_enrolled=True)[
            "faults"
        ]
        == []
    )
    assert plan_driver(secure_boot=None, nvidia_driver_kind="dkms")["faults"] == []


def test_the_real_job_on_a_t4_is_not_disturbed() -> None:
    (fault,) = plan_driver(smi={**read_recording("tesla-t4"), "failed": False})["faults"]
    assert "python (pid 5762) uses the GPUs" in fault


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        (
            UBUNTU,
            {
                "linux-modules-nvidia-580-server-open-generic": "6.8.0-45.45",
                "nvidia-driver-580-server-open": "580.95.05-0ubuntu0.24.04.1",
            },
        ),
        (EL9, {"nvidia-driver": "580.95.05-1.el9"}),
        (EL9, {"nvidia-driver": "3:580.95.05-1.el9"}),
    ],
)
def test_an_installed_driver_is_unchanged_even_under_a_job(
    system: str, packages: dict[str, str]
) -> None:
    found = plan_driver(system, packages, smi=JOB, loaded="580.95.05", nouveau=False)
    assert (found["faults"], found["install"], found["build"], found["reboot"]) == ([], [], [], "")


def test_another_branch_is_replaced_and_needs_a_reboot() -> None:
    found = plan_driver(
        EL9,
        {"nvidia-driver": "570.1-1.el9"},
        loaded="570.1",
        nouveau=False,
        nvidia_driver_open=False,
    )
    assert found["install"] == ["@nvidia-driver:580"]
    assert found["reboot"] == "the loaded driver is 570.1"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, False),
        ({"pci": {"gpus": [GPU], "switches": 6}}, True),
        ({"smi": {**JOB, "cards": [WAITING], "processes": []}}, True),
        ({"nvidia_driver_fabric_manager": "always"}, True),
        (
            {
                "pci": {"gpus": [GPU], "switches": 6},
                "nvidia_driver_fabric_manager": "never",
            },
            False,
        ),
    ],
)
def test_the_fabric_manager_runs_if_there_are_switches(
    change: dict[str, Any], wanted: bool
) -> None:
    found = plan_driver(**change)
    assert ("nvidia-fabricmanager.service" in found["services"]) is wanted
    assert found["fabric_packages"] == (["nvidia-fabricmanager-580"] if wanted else [])
    assert "nvidia-persistenced.service" in found["services"]


def test_unattended_upgrades_skip_driver_and_its_kernel() -> None:
    """unattended-upgrades matches each name of the list at the beginning of a package's name (its README)."""
    packages = [
        *(
            "nvidia-driver-580-server-open",
            "libnvidia-compute-580-server",
            "nvidia-fabricmanager-580",
        ),
        "linux-modules-nvidia-580-server-open-generic",
    ]
    kernel = ["linux-image-generic", "linux-generic", "linux-modules-6.8.0-50-generic"]
    ready = plan_driver()["hold"]
    built = plan_driver(nvidia_driver_kind="dkms")["hold"]

    def kept(hold: list[str], name: str) -> bool:
        return any(re.match(one, name) for one in hold)

    assert all(kept(ready, name) for name in (*packages, *kernel))
    assert all(kept(built, name) for name in packages)
    assert not any(kept(built, name) for name in kernel)
    assert not any(kept(hold, "openssl") for hold in (ready, built))
    assert plan_driver(nvidia_driver_hold=False)["hold"] == plan_driver(EL9)["hold"] == []


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ({"compiler": "", "headers": True}, "a compiler to build"),
        ({"compiler": "/usr/bin/gcc", "headers": False}, "the headers of kernel 6.8.0-45-generic"),
        ({"compiler": "", "headers": False}, "a compiler and the headers"),
    ],
)
def test_missing_tools_of_dkms_are_named(tools: dict[str, Any], words: str) -> None:
    asked = roles_nvidia_driver.read_driver_settings(
        {**OPTIONS, "nvidia_driver_kind": "dkms"}, load_offers(UBUNTU)
    )
    (fault,) = roles_nvidia_driver.find_build_faults(asked, node(tools=tools))
    assert (fault.code, words in fault.text) == ("ND-106", True)
    assert (
        roles_nvidia_driver.find_build_faults(
            roles_nvidia_driver.read_driver_settings(OPTIONS, load_offers(UBUNTU)),
            node(tools=tools),
        )
        == []
    )


def test_gpu_facts_of_this_machine_are_readable_by_the_role() -> None:
    assert convert_value(GpuFacts, gpu.observe_gpus())


def list_fake_machines() -> list[dict[str, Any]]:
    """List the machines that molecule's fake of gpu_facts has."""
    scenario = ROOT / "molecule/nvidia_driver"
    machines = yaml.safe_load((scenario / "vars/gpu.yml").read_text())
    plays = yaml.safe_load((scenario / "verify.yml").read_text())
    tasks = [task for play in plays for task in play.get("tasks", [])]
    cases = [case["gpu"] for task in tasks for case in task.get("loop", []) if "gpu" in case]
    changes = [{}, machines["nvidia_test_works"], *cases]
    return [merge_hash(machines["nvidia_test_bare"], change) for change in changes]


def test_the_fake_of_molecule_matches_gpu_facts() -> None:
    """A field that the fake lacked once ended the scenario when the role read its answer."""
    machines = list_fake_machines()
    assert [one["smi"]["driver"] for one in machines] == ["", "580.95.05", "535.1"]
    assert all(convert_value(GpuFacts, one) for one in machines)


@pytest.mark.parametrize(
    ("change", "path"),
    [({"pci": {"gpus": []}}, "$.pci"), ({"smi": "none"}, "$.smi"), ({"new": 1}, "$.new")],
)
def test_an_answer_of_another_form_is_refused_with_its_path(
    change: dict[str, Any], path: str
) -> None:
    with pytest.raises(
        AnsibleFilterError,
        match=re.escape(f"gpu_facts has a different format than expected: {path}"),
    ):
        nvidia_driver.nvidia_driver_plan(
            OPTIONS, load_offers(UBUNTU), {**node(), **change}, {}, FAMILY
        )


@pytest.mark.parametrize(
    "path", sorted((ROOT / "roles/nvidia_driver/vars").glob("*_*.yml")), ids=lambda p: p.stem
)
def test_every_platforms_table_is_read(path: Path) -> None:
    assert load_offers(path.stem)["persistence"].endswith(".service")
