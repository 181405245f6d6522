"""Which wheels, for which nodes, and whether they fit."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from torch_samples import make_node, wheels

from fullmesh.filters import torch_runtime
from fullmesh.observed.wheel_locks import filter_lock_lines
from fullmesh.roles import torch_runtime as roles_torch_runtime

FILES = Path(__file__).resolve().parents[2] / "roles/torch_runtime/files"
LOCKS = sorted(FILES.glob("**/*.txt"))
SHA = hashlib.sha256(b"x").hexdigest()
PIN = f"torch==2.13.0+cpu --hash=sha256:{SHA}"


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_committed_lock_is_whole_and_named_after_its_torch(path: Path) -> None:
    text = path.read_text()
    assert roles_torch_runtime.find_lock_faults(path.name, text) == []
    version = roles_torch_runtime.parse_lock_pins(text)["torch"]
    if "+" in version:
        assert path.stem == f"torch-{version.replace('+', '-')}"
    else:  # PyPI's build has no local version: its CUDA is that of the runtime it brings
        (runtime,) = (
            version
            for name, version in roles_torch_runtime.parse_lock_pins(text).items()
            if name.startswith("nvidia-cuda-runtime")
        )
        assert path.stem == f"torch-{version}-cuda{'.'.join(runtime.split('.')[:2])}"


@pytest.mark.parametrize(
    "line",
    [
        "torch",
        f"torch --hash=sha256:{SHA}",
        "torch==2.13.0",
        f"torch>=2.13.0 --hash=sha256:{SHA}",
        f"torch==2.* --hash=sha256:{SHA}",
        "torch==2.13.0 --hash=md5:abc",
        f"torch==2.13.0 --hash=sha256:{SHA[:-1]}",
        "-r other.txt",
        "--index-url https://example.org",
        f"https://example.org/torch.whl --hash=sha256:{SHA}",
    ],
)
def test_a_line_that_is_not_pinned_is_refused(line: str) -> None:
    found = roles_torch_runtime.find_lock_faults("own.txt", f"{PIN}\n{line}\n")
    assert [fault.code for fault in found] == ["TR-102"]


def test_an_empty_lock_is_refused() -> None:
    assert [
        fault.code for fault in roles_torch_runtime.find_lock_faults("own.txt", "# nothing\n\n")
    ] == ["TR-102"]


def test_comments_continuations_and_markers_are_understood() -> None:
    two = f"--hash=sha256:{SHA} \\\n  --hash=sha256:{SHA}"
    text = f"# a\nNum_Py==2.4.6 ; python_version > '3' \\\n  {two}\n{PIN}  # b\n"
    assert roles_torch_runtime.find_lock_faults("own.txt", text) == []
    assert roles_torch_runtime.parse_lock_pins(text) == {"num-py": "2.4.6", "torch": "2.13.0+cpu"}


def test_a_version_without_a_lock_lists_the_existing_ones() -> None:
    (fault,) = roles_torch_runtime.find_torch_faults(str(FILES), "1.0.0", "cu999", "")
    assert fault.code == "TR-101"
    assert "2.13.0-cpu" in fault.step
    (fault,) = roles_torch_runtime.find_torch_faults(
        str(FILES), "2.13.0", "cpu", "/nowhere/own.txt"
    )
    assert "/nowhere/own.txt does not exist" in fault.text
    assert roles_torch_runtime.find_torch_faults(str(FILES), "2.13.0", "cpu", "") == []


def test_platform_names_run_on_that_glibc_and_no_older_one() -> None:
    names = roles_torch_runtime.list_platform_tags("x86_64", [2, 28])
    assert names[0] == "manylinux_2_28_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64"} <= set(names)
    assert "manylinux_2_29_x86_64" not in names
    arm = roles_torch_runtime.list_platform_tags("aarch64", [2, 34])
    assert "manylinux2014_aarch64" in arm
    assert "manylinux2010_aarch64" not in arm


LOCK = roles_torch_runtime.WheelSettings(lock="lock", index="")


def test_a_cluster_downloads_each_thing_once() -> None:
    one, other = "a" * 64, "b" * 64
    nodes = [(LOCK, make_node(have=[one, other])), (LOCK, make_node(glibc=[2, 39], have=[other]))]
    (target,) = roles_torch_runtime.list_wheel_targets(nodes)
    assert target["glibc"] == [2, 34]
    assert target["have"] == [other]
    assert target["platforms"][0] == "manylinux_2_34_x86_64"


def test_each_difference_is_a_target_of_its_own() -> None:
    nodes = [
        (LOCK, make_node()),
        (LOCK, make_node(python="3.12")),
        (LOCK, make_node(machine="aarch64")),
        (roles_torch_runtime.WheelSettings(lock="other", index=""), make_node()),
        (LOCK, make_node(needed=False)),
        (LOCK, make_node(python="", fault="[TR-103] …")),
    ]
    assert len(roles_torch_runtime.list_wheel_targets(nodes)) == 4
    keys = {
        roles_torch_runtime.derive_target_key(wanted["lock"], node["python"], node["machine"])
        for wanted, node in nodes[:4]
    }
    assert len(keys) == 4


def test_each_lock_is_asked_for_at_its_own_index() -> None:
    indexes = {"cpu": "https://a/cpu", "cuda": "https://a/cu130"}
    nodes = [
        (roles_torch_runtime.WheelSettings(lock=lock, index=index), make_node())
        for lock, index in indexes.items()
    ]
    assert {
        one["lock"]: one["index"] for one in roles_torch_runtime.list_wheel_targets(nodes)
    } == indexes


def test_a_glibc_number_without_bounds_is_not_counted_down_from() -> None:
    assert len(roles_torch_runtime.list_platform_tags("x86_64", [2, 10**18])) < 1000
    assert roles_torch_runtime.list_platform_tags("x86_64", []) == ["linux_x86_64"]


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 34), st.integers(0, 1 << 36))
def test_room_is_refused_exactly_when_it_is_short(free: int, bundle: int, unpacked: int) -> None:
    needed = wheels(bundle_bytes=bundle, installed_bytes=unpacked)
    found = roles_torch_runtime.find_space_faults("el1", make_node(free_bytes=free), needed)
    assert bool(found) == (free < 2 * bundle + unpacked)
    assert all(fault.code == "TR-105" and "el1" in fault.text for fault in found)


@pytest.mark.parametrize(
    ("wanted", "kind", "number", "folder"),
    [
        ("cpu", "cpu", "", "cpu"),
        ("cuda", "cuda", "", "cu130"),
        ("cuda13.0", "cuda", "13.0", "cu130"),
        ("cu128", "cuda", "12.8", "cu128"),
        ("rocm6.4", "rocm", "6.4", "rocm6.4"),
    ],
)
def test_an_accelerator_names_lock_and_index(
    wanted: str, kind: str, number: str, folder: str
) -> None:
    assert roles_torch_runtime.parse_accelerator(wanted) == (kind, number)
    assert (
        roles_torch_runtime.choose_package_index(str(FILES), "2.13.0", wanted, "")
        == f"{roles_torch_runtime.PYTORCH}/{folder}"
    )
    assert roles_torch_runtime.choose_package_index(
        str(FILES), "2.13.0", wanted, "https://mirror.example/x"
    ).endswith("/x")
    assert roles_torch_runtime.choose_package_index(str(FILES), "2.13.0", wanted, "none") == ""


def test_cuda_alone_means_the_newest_lock(tmp_path: Path) -> None:
    for number in ("12.8", "13.0", "9.2"):
        (tmp_path / f"torch-2.13.0-cuda{number}.txt").write_text(PIN)
    assert roles_torch_runtime.choose_lock_file(str(tmp_path), "2.13.0", "cuda", "").endswith(
        "cuda13.0.txt"
    )
    assert (
        roles_torch_runtime.choose_lock_file(str(tmp_path), "2.13.0", "cuda", "/own.txt")
        == "/own.txt"
    )
    assert roles_torch_runtime.choose_package_index(str(FILES), "2.13.0", "rocm", "") == ""
    (fault,) = roles_torch_runtime.find_torch_faults(str(FILES), "2.13.0", "rocm6.4", "")
    assert fault.code == "TR-101"
    assert "torch_runtime_requirements" in fault.step


@pytest.mark.parametrize("wanted", ["gpu", "cuda13", "cu13", "cpu1.0", "CUDA", ""])
def test_an_unknown_accelerator_is_refused(wanted: str) -> None:
    (fault,) = roles_torch_runtime.find_torch_faults(str(FILES), "2.13.0", wanted, "")
    assert fault.code == "TR-112"
    assert repr(wanted) in fault.text


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_committed_lock_states_its_target(path: Path) -> None:
    text = path.read_text()
    held = roles_torch_runtime.parse_lock_targets(text)
    assert held
    assert (
        str(held)
        == {
            "torch-2.13.0-cpu": "CPython 3.11, 3.12 on x86_64",
            "torch-2.15.0-cuda13.2": "CPython 3.11, 3.12, 3.13, 3.14 on x86_64, aarch64",
            "torch-2.14.1-cuda13.0": "CPython 3.10, 3.11, 3.12, 3.13, 3.14 on x86_64, aarch64",
            "torch-2.13.0-cuda13.0": "CPython 3.10, 3.11, 3.12, 3.13, 3.14 on x86_64, aarch64",
            "torch-2.10.0-cuda12.8": "CPython 3.10, 3.11, 3.12, 3.13, 3.14 on x86_64",
            "torch-2.7.1-cuda12.6": "CPython 3.10, 3.11, 3.12, 3.13 on x86_64",
        }[path.stem]
    )
    for python, machine in itertools.product(held.pythons, held.machines):
        names = [line.partition("==")[0] for line in filter_lock_lines(text, python, machine)]
        assert {"torch", "numpy", "pip"} <= set(names)
        assert len(names) == len(set(names))  # one version of each


def platform_pythons() -> dict[str, str]:
    """Which Python each platform file of the role builds on."""
    found = {}
    for path in (FILES.parent / "vars").glob("*_*.yml"):
        found[path.stem] = str(yaml.safe_load(path.read_text())["__torch_runtime_os_python"])
    return found


@pytest.mark.parametrize(("system", "interpreter"), platform_pythons().items())
@pytest.mark.parametrize("accelerator", ["cpu", "cuda"])
def test_a_system_whose_python_has_no_lock_is_refused(
    system: str, interpreter: str, accelerator: str
) -> None:
    """By the Python alone: the lock for CUDA has wheels for 3.10 to 3.14, the one for CPUs for 3.11 and 3.12."""
    lock = roles_torch_runtime.choose_lock_file(str(FILES), "2.13.0", accelerator, "")
    found = roles_torch_runtime.find_python_faults("n1", interpreter, "", "x86_64", lock)
    refused = accelerator == "cpu" and system in ("Ubuntu_22", "Ubuntu_26", "Debian_13")
    assert [fault.code for fault in found] == (["TR-114"] if refused else [])
    for fault in found:
        assert (
            f"n1: torch would run on Python {interpreter[15:]} ({interpreter}) on x86_64"
            in fault.text
        )
        assert "supports CPython 3.11, 3.12 on x86_64" in fault.text
        assert "torch_runtime_python" in fault.step


@pytest.mark.parametrize(
    ("interpreter", "seen", "machine", "refused"),
    [
        ("/usr/bin/python3.11", "", "x86_64", False),
        ("/usr/bin/python3.11", "3.10", "x86_64", False),
        ("/opt/py/bin/python3", "3.12", "x86_64", False),
        ("/opt/py/bin/python3", "3.10", "x86_64", True),
        ("/opt/py/bin/python3", "", "x86_64", False),
        ("/opt/py/bin/python3", "", "aarch64", True),
        ("/usr/bin/python3.12", "", "aarch64", True),
    ],
)
def test_the_python_that_is_used_counts(
    interpreter: str, seen: str, machine: str, refused: bool
) -> None:
    lock = roles_torch_runtime.choose_lock_file(str(FILES), "2.13.0", "cpu", "")
    found = roles_torch_runtime.find_python_faults("n1", interpreter, seen, machine, lock)
    assert [fault.code for fault in found] == (["TR-114"] if refused else [])


def test_a_custom_lock_counts_without_a_header(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text(f"# serves: CPython 3.10 on x86_64, aarch64\n{PIN}\n")
    assert (
        roles_torch_runtime.find_python_faults("n1", "/usr/bin/python3.10", "", "aarch64", str(own))
        == []
    )
    (fault,) = roles_torch_runtime.find_python_faults(
        "n1", "/usr/bin/python3.12", "", "x86_64", str(own)
    )
    assert "own.txt supports CPython 3.10 on x86_64, aarch64" in fault.text
    own.write_text(f"{PIN}\n")
    assert roles_torch_runtime.parse_lock_targets(own.read_text()) is None
    assert (
        roles_torch_runtime.find_python_faults("n1", "/usr/bin/python3.9", "", "riscv64", str(own))
        == []
    )
    assert (
        roles_torch_runtime.find_python_faults(
            "n1", "/usr/bin/python3.9", "", "x86_64", str(tmp_path / "none")
        )
        == []
    )


@pytest.mark.parametrize(
    "path", sorted((FILES / roles_torch_runtime.DOMAIN).glob("*.txt")), ids=lambda path: path.stem
)
def test_domain_libraries_are_beside_the_same_torch(path: Path) -> None:
    held, alone = path.read_text(), (FILES / path.name).read_text()
    more, base = (
        roles_torch_runtime.parse_lock_pins(held),
        roles_torch_runtime.parse_lock_pins(alone),
    )
    assert roles_torch_runtime.parse_lock_targets(held) == roles_torch_runtime.parse_lock_targets(
        alone
    )
    assert set(roles_torch_runtime.COMPANIONS) <= more.keys()
    assert set(roles_torch_runtime.COMPANIONS) & base.keys() == set()
    assert {name: more[name] for name in base if "torch" in name or "nvidia" in name} == {
        name: version for name, version in base.items() if "torch" in name or "nvidia" in name
    }
    # torchaudio has torch's number, and its last release serves every later torch
    assert more["torchaudio"] in (base["torch"], "2.11.0")


def test_every_lock_for_cuda_has_one_with_domain_libraries() -> None:
    with_cuda = {path.name for path in FILES.glob("*cuda*.txt")}
    assert with_cuda == {path.name for path in (FILES / roles_torch_runtime.DOMAIN).glob("*.txt")}


def test_domain_libraries_without_a_lock_are_refused_with_the_command() -> None:
    files = torch_runtime.torch_runtime_files(True)
    (fault,) = roles_torch_runtime.find_torch_faults(files, "2.13.0", "cpu", "")
    assert fault.code == "TR-101"
    assert "2.13.0-cuda13.0" in fault.step
    assert "torch-lock --with torchvision --with torchaudio" in fault.step


def test_the_locks_are_where_the_filters_search() -> None:
    assert (Path(torch_runtime.torch_runtime_files(False)) / "torch-2.13.0-cpu.txt").is_file()
