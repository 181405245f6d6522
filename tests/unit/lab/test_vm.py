"""The lab's virtual machines, without starting one."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import threading
import zipfile
import zipimport
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from loaded import load_module

from devtools.lab.errors import LabError, StepError
from devtools.lab.paths import Paths
from devtools.lab.vm import build, lifecycle, plan, qmp, store
from devtools.lab.vm.machine import Vm, free_port
from devtools.lab.vm.plan import Machine
from fullmesh.settings import ROOT

EL = Machine("el1", "el", 0, {"10.79.0.15": 2201, "10.79.0.77": 2202})
UBUNTU = Machine("ubuntu1", "ubuntu", 1, {"10.79.1.15": 2203, "10.79.1.77": 2204})


def list_option_values(argv: list[str], name: str) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == name]


def test_machine_has_no_outside_network(tmp_path: Path) -> None:
    argv = plan.command(EL, tmp_path, tmp_path / "repo.img", tmp_path, tmp_path / "run")
    user, cluster = list_option_values(argv, "-netdev")
    assert "restrict=on" in user.split(",")
    forwards = [word for word in user.split(",") if word.startswith("hostfwd=")]
    assert forwards == [
        "hostfwd=tcp:127.0.0.1:2201-10.79.0.15:22",
        "hostfwd=tcp:127.0.0.1:2202-10.79.0.77:22",
    ]
    assert "local.type=unix" in cluster
    assert "remote.type=unix" in cluster
    assert "-nodefaults" in argv  # without it, QEMU adds a NIC


def test_machines_share_the_cluster_network(tmp_path: Path) -> None:
    one, other = plan.cluster_network(EL, tmp_path), plan.cluster_network(UBUNTU, tmp_path)
    assert one.split(",")[3].partition("=")[2] == other.split(",")[5].partition("=")[2]
    assert other.split(",")[3].partition("=")[2] == one.split(",")[5].partition("=")[2]


def test_selinux_is_on_in_one_family_only(tmp_path: Path) -> None:
    boot = {
        machine.family: list_option_values(
            plan.command(machine, tmp_path, tmp_path, tmp_path, tmp_path), "-append"
        )[0].split()
        for machine in (EL, UBUNTU)
    }
    assert "selinux=1" in boot["el"]
    assert "selinux=0" in boot["ubuntu"]


def test_the_inventory_is_readable_by_the_plan(tmp_path: Path) -> None:
    found = yaml.safe_load(plan.inventory([EL, UBUNTU], tmp_path / "ssh_config"))
    hosts = found["all"]["children"]["torch_nodes"]["hosts"]
    assert hosts["ubuntu1"] == {
        "ansible_host": "10.79.1.15",
        "fullmesh_address": "10.80.0.12/24",
        "fullmesh_interface": "eth1",
    }
    assert found["all"]["vars"]["fullmesh_controllers"] == ["10.79.0.2", "10.79.1.2"]


@pytest.mark.parametrize("text", ["", "el,el", "suse", "el,suse"])
def test_unknown_families_are_rejected(text: str) -> None:
    with pytest.raises(LabError, match="LB-113"):
        plan.check_families(text)


@pytest.fixture
def saved_machines(paths: Paths) -> store.VmStore:
    one = store.VmStore(paths, "vm")
    one.save([EL, UBUNTU])
    return one


def test_recorded_data_is_read_back(saved_machines: store.VmStore) -> None:
    assert saved_machines.load() == [EL, UBUNTU]
    assert saved_machines.machine("ubuntu1") == UBUNTU
    assert store.names(saved_machines.paths) == ["vm"]


def test_ssh_config_uses_the_machines_address_and_key(saved_machines: store.VmStore) -> None:
    """Query ssh itself instead of reading the file's text."""
    argv = ["ssh", "-G", "-F", str(saved_machines.config), "10.79.1.77"]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    ssh_settings = dict(line.split(" ", 1) for line in text.splitlines())
    assert (ssh_settings["hostname"], ssh_settings["port"], ssh_settings["user"]) == (
        "127.0.0.1",
        "2204",
        "root",
    )
    assert ssh_settings["hostkeyalias"] == "10.79.1.77"
    assert ssh_settings["stricthostkeychecking"] in ("true", "yes")
    assert ssh_settings["userknownhostsfile"] == str(saved_machines.known_hosts)
    known = [
        line.split()[0].split(",") for line in saved_machines.known_hosts.read_text().splitlines()
    ]
    assert known == [["el1", *EL.ports], ["ubuntu1", *UBUNTU.ports]]


def test_the_seed_has_the_machines_own_keys(saved_machines: store.VmStore) -> None:
    argv = ["tar", "-xOf", str(saved_machines.folder / "el1.seed")]
    public = subprocess.run(
        [*argv, "etc/ssh/ssh_host_ed25519_key.pub"], check=True, capture_output=True, text=True
    ).stdout
    known = saved_machines.known_hosts.read_text().splitlines()
    assert public.split()[:2] == known[0].split()[1:]
    assert known[0].split()[2] != known[1].split()[2]
    listed = subprocess.run(
        ["tar", "-tvf", str(saved_machines.folder / "el1.seed")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    modes = {line.split()[-1]: line.split()[0] for line in listed.splitlines()}
    assert modes["etc/ssh/ssh_host_ed25519_key"] == "-rw-------"


def test_unknown_set_of_machines_is_reported(paths: Paths) -> None:
    with pytest.raises(LabError, match=r"LB-130.*'other'.*there: none"):
        store.VmStore(paths, "other").load()


def test_unknown_machine_is_reported(saved_machines: store.VmStore) -> None:
    with pytest.raises(LabError, match=r"LB-106.*'el9'.*el1, ubuntu1"):
        saved_machines.machine("el9")


def test_other_families_than_recorded_are_rejected(
    saved_machines: store.VmStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "build", lambda _paths: None)
    with pytest.raises(LabError, match=r"LB-114.*el,ubuntu"):
        lifecycle.up(saved_machines.paths, "vm", ["el"])


def test_other_architectures_are_rejected() -> None:
    build.require_x86("x86_64")
    with pytest.raises(LabError, match=r"LB-131.*aarch64"):
        build.require_x86("aarch64")


def test_foreign_process_id_is_ignored(saved_machines: store.VmStore) -> None:
    vm = Vm(saved_machines, EL)
    vm.pid_file.parent.mkdir(parents=True, exist_ok=True)
    vm.pid_file.write_text("1\n")
    assert vm.pid() == 0
    vm.stop()  # kills no process


def test_ended_machine_is_reported_with_its_console(saved_machines: store.VmStore) -> None:
    vm = Vm(saved_machines, Machine("el1", "el", 0, {"10.79.0.15": free_port()}))
    vm.console.write_text("Kernel panic - not syncing\n")
    with pytest.raises(StepError, match=r"(?s)el1: QEMU has ended.*Kernel panic"):
        vm.wait(seconds=1)


def simulate_qemu(path: Path, *lines: dict[str, object]) -> None:
    """Simulate a QEMU that sends a greeting, and answers each command with the next line."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        channel, _ = server.accept()
        with channel, channel.makefile("rw") as stream:
            stream.write(json.dumps({"QMP": {}}) + "\n")
            stream.flush()
            for line in lines:
                if "event" not in line:
                    stream.readline()
                stream.write(json.dumps(line) + "\n")
                stream.flush()
        server.close()

    threading.Thread(target=serve, daemon=True).start()


def test_qmp_skips_events(tmp_path: Path) -> None:
    simulate_qemu(
        tmp_path / "q", {"return": {}}, {"event": "RESET"}, {"return": {"status": "running"}}
    )
    assert qmp.execute(tmp_path / "q", "query-status") == {"return": {"status": "running"}}


def test_qmp_error_is_shown(tmp_path: Path) -> None:
    simulate_qemu(tmp_path / "q", {"return": {}}, {"error": {"desc": "The command foo is unknown"}})
    with pytest.raises(StepError, match="refuses foo: The command foo is unknown"):
        qmp.execute(tmp_path / "q", "foo")


def test_qmp_without_qemu_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StepError, match="does not answer"):
        qmp.execute(tmp_path / "nobody", "query-status")


def test_closed_qmp_connection_is_reported(tmp_path: Path) -> None:
    simulate_qemu(tmp_path / "q", {"return": {}})
    with pytest.raises(StepError, match=r"hung up|does not answer"):
        qmp.execute(tmp_path / "q", "system_reset")


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load lab_compiled as in the machines, with a temporary folder and a compiler that counts."""
    # loading the module replaces the interpreter's function, and monkeypatch restores it
    monkeypatch.setattr(zipimport, "_compile_source", zipimport._compile_source)
    module = load_module(ROOT / "lab/vm/root/usr/lib/python3/dist-packages/lab_compiled.py")
    compile_source, compiled_paths = module.COMPILE, []

    def count(pathname: str, source: bytes) -> object:
        compiled_paths.append(pathname)
        return compile_source(pathname, source)

    monkeypatch.setattr(module, "FOLDER", str(tmp_path / "kept"))
    monkeypatch.setattr(module, "COMPILE", count)
    monkeypatch.setattr(module, "asked", compiled_paths, raising=False)
    return module


def import_value(archive: Path) -> int:
    """Return the value of the module ``in_a_zip`` of an archive, loaded as Ansible loads its modules."""
    loader = zipimport.zipimporter(str(archive))
    spec = loader.find_spec("in_a_zip")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return int(module.VALUE)


def write_archive(path: Path, value: int) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("in_a_zip.py", f"VALUE = {value}\n")
    return path


@pytest.mark.skipif(os.getuid() != 0, reason="only root keeps compiled code")
def test_zipped_module_is_compiled_once_per_change(compiled: ModuleType, tmp_path: Path) -> None:
    # each archive of Ansible has another name
    assert import_value(write_archive(tmp_path / "one.zip", 1)) == 1
    assert import_value(write_archive(tmp_path / "two.zip", 1)) == 1
    assert len(compiled.asked) == 1
    assert import_value(write_archive(tmp_path / "three.zip", 2)) == 2
    assert len(compiled.asked) == 2


@pytest.mark.parametrize("content", [b"", b"\xe3", b"not code at all"])
def test_damaged_file_is_compiled_again(compiled: ModuleType, content: bytes) -> None:
    source = b"VALUE = 1\n"
    compiled.kept("/run/a.zip/in_a_zip.py", source)
    (file,) = Path(compiled.FOLDER).iterdir()
    file.write_bytes(content)
    compiled.kept("/run/b.zip/in_a_zip.py", source)
    assert len(compiled.asked) == 2
    assert file.read_bytes() != content


def test_module_is_compiled_without_a_folder(compiled: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where the folder should be")
    assert compiled.kept("/run/a.zip/in_a_zip.py", b"VALUE = 1\n") is not None
