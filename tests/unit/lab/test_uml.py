"""Nodes with their own kernel: links, root file systems and processes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from devtools.lab import uml
from devtools.lab.errors import LabError
from devtools.lab.paths import Paths
from devtools.lab.plan import nodes
from devtools.lab.state import Lab, Store


def make_lab(index: int = 254) -> Lab:
    found = nodes("m-links", index, ("el", "ubuntu"), 2, False)
    return Lab("m-links", index, False, "lookalike", "", ["el", "ubuntu"], found)


def parse_ports(text: str) -> tuple[int, int]:
    found = re.search(r"srcport=(\d+),dstport=(\d+)", text)
    assert found
    return int(found.group(1)), int(found.group(2))


def test_each_cable_connects_two_nodes() -> None:
    ports = set()
    for index in (1, 254):
        for cable in uml.CABLES:
            here, there = (
                parse_ports(uml.build_cable_argument(make_lab(index), number, cable))
                for number in (0, 1)
            )
            assert here == (there[1], there[0])
            assert not ports & {*here}
            ports |= {*here}
    assert max(ports) < 65536


def test_host_device_names_fit() -> None:
    assert len(uml.tap(make_lab(), 1)) <= 15
    assert uml.tap(make_lab(), 0) != uml.tap(make_lab(), 1)


def test_kernel_arguments_have_root_nics_and_name() -> None:
    argv = uml.kernel_argv(Path("/k"), make_lab(), 1, Path("/r"))
    assert {"rootflags=/r", "umid=fm-254-1", "rw"} <= set(argv)
    assert [word.split(":")[0] for word in argv if word.startswith("vec")] == [
        "vec0",
        "vec1",
        "vec2",
    ]


def test_library_is_preloaded_on_cpus_with_amx(tmp_path: Path) -> None:
    paths = Paths(tmp_path, Path("/checkout"))
    assert uml.preloaded(paths, tmp_path, "flags\t\t: fpu avx512f\nbugs: amx_tile\n") == {}
    (tmp_path / "xstate.so").touch()  # built once
    found = uml.preloaded(paths, tmp_path, "model name: x\nflags\t\t: fpu amx_tile avx512f\n")
    assert found == {"LD_PRELOAD": f"{tmp_path}/xstate.so"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder_of_root = tmp_path / "root"
    wanted_units = folder_of_root / "etc/systemd/system/sysinit.target.wants"
    for folder in (
        wanted_units,
        folder_of_root / "etc/systemd/system.conf.d",
        folder_of_root / "etc/modprobe.d",
    ):
        folder.mkdir(parents=True)
    (folder_of_root / "usr/local/sbin").mkdir(parents=True)
    (folder_of_root / "etc/systemd/system.conf.d/10-lab.conf").write_text("x")
    (wanted_units / "lab-procsys.service").symlink_to("/etc/systemd/system/lab-procsys.service")
    return folder_of_root


def test_root_is_prepared_with_address_and_modules(root: Path, tmp_path: Path) -> None:
    (tmp_path / "k/usr/lib/uml/modules/6.1.0").mkdir(parents=True)
    uml.prepare_root(tmp_path / "k", make_lab(7), 1, root)
    script = (root / "usr/local/sbin/lab-cards").read_text()
    assert "ip addr add 10.77.7.12/24 dev eth0" in script
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    wanted_units = root / "etc/systemd/system/sysinit.target.wants"
    assert [path.name for path in wanted_units.iterdir()] == ["lab-cards.service"]
    assert (wanted_units / "lab-cards.service").resolve().is_file()
    assert not (root / "etc/systemd/system.conf.d/10-lab.conf").exists()
    assert (root / "usr/lib/modules/6.1.0").is_dir()


def test_foreign_process_is_not_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uml.host, "capture", lambda argv: subprocess.CompletedProcess(argv, 0))
    store = Store(Paths(tmp_path, tmp_path), "m-links")
    folder = uml.folder_of(store, make_lab().nodes[0])
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "30"], start_new_session=True) as other:
        (folder / "pid").write_text(f"{other.pid}\n")
        uml.stop(store, make_lab())
        assert other.poll() is None
        assert not (folder / "pid").exists()
        other.kill()


def test_without_a_lab_nothing_boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uml, "find", lambda: Paths(tmp_path, tmp_path))
    with pytest.raises(LabError, match=r"LB-107.*fullmesh lab up --name none"):
        uml.up("none")
