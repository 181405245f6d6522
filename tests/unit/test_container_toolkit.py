"""NVIDIA's container toolkit: settings, versions, the description of the GPUs, docker's settings, notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh import cdi, docker_runtime
from ansible.module_utils.fullmesh.packages import sources, toolkit
from ansible.module_utils.fullmesh.state.observe import NodeSystem
from ansible.module_utils.fullmesh.state.undo import remember_state
from test_nvidia_driver import node as node_of_the_driver

from fullmesh.filters import container_toolkit
from fullmesh.roles import container_toolkit as roles_container_toolkit
from fullmesh.settings import ROOT

NAMES = [
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
]
OPTIONS = {
    "container_toolkit_version": "",
    "container_toolkit_repository_url": "",
    "container_toolkit_repository_key": "",
}
URL = "https://nvidia.github.io/libnvidia-container/stable/deb/amd64"
AROUND = {"theirs": "", "section": "", "off": [], "in_the_way": []}
SEEN = {
    "installed": {},
    "satisfied": False,
    "version": "1.20.0-1",
    "ours": False,
    "repository": AROUND,
}
# /proc/driver/nvidia/version, as the open and the closed modules print it
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-AM02-24-3)"
    "  Tue Sep 23 09:55:41 UTC 2025\nGCC version:  gcc version 13.3.0\n"
)
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.03  Fri Oct 25 22:43:06 UTC 2024\n"
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"container_toolkit_version": "1.20.0"}, []),
        ({"container_toolkit_version": "1.20.0-1"}, []),
        ({"container_toolkit_version": "newest"}, ["CT-101"]),
        ({"container_toolkit_version": "1.11.0"}, ["CT-101"]),
        ({"container_toolkit_repository_url": "mirror"}, ["CT-101"]),
        ({"container_toolkit_repository_key": "key.asc"}, ["CT-101"]),
        ({"container_toolkit_repository_key": "none"}, []),
        ({"container_toolkit_repository_key": "/srv/key.asc"}, []),
        (
            {"container_toolkit_version": "x", "container_toolkit_repository_url": "y"},
            ["CT-101", "CT-101"],
        ),
    ],
)
def test_settings_that_cannot_work(change: dict[str, str], said: list[str]) -> None:
    found = roles_container_toolkit.find_toolkit_faults({**OPTIONS, **change}, "")
    assert [fault.code for fault in found] == said


def test_a_bundle_does_not_have_the_toolkit() -> None:
    (fault,) = roles_container_toolkit.find_toolkit_faults(OPTIONS, "/srv/bundle.tar")
    assert fault.code == "CT-101"


@pytest.mark.parametrize(
    ("system", "machine", "url"),
    [
        ("RedHat", "x86_64", "https://nvidia.github.io/libnvidia-container/stable/rpm/x86_64"),
        ("Debian", "amd64", URL),
    ],
)
def test_the_packages_come_from_nvidia_unless_a_mirror_is_given(
    system: str, machine: str, url: str
) -> None:
    platform = yaml.safe_load((ROOT / f"roles/container_toolkit/vars/{system}.yml").read_text())
    vendors = platform["__container_toolkit_vendor_url"]
    place = roles_container_toolkit.choose_toolkit_source(
        "", "", vendors, "https://x/gpgkey", machine
    )
    assert place == {"url": url, "key": "https://x/gpgkey"}
    mine = roles_container_toolkit.choose_toolkit_source(
        "file:///srv/x/", "/srv/k", vendors, "https://x", "m"
    )
    assert mine == {"url": "file:///srv/x", "key": "file:///srv/k"}
    assert not roles_container_toolkit.choose_toolkit_source("", "none", vendors, "https://x", "m")[
        "key"
    ]


def test_a_node_without_a_gpu_is_refused() -> None:
    gpu = node_of_the_driver()
    gpu = {**gpu, "pci": {**gpu["pci"], "gpus": []}}
    (said,) = container_toolkit.container_toolkit_may(gpu)
    assert said.startswith("[CT-104] No NVIDIA GPU")
    card = {"bus": "0000:1b:00.0", "device": "0x2330", "driver": "nvidia"}
    assert not container_toolkit.container_toolkit_may(
        {**gpu, "pci": {**gpu["pci"], "gpus": [card]}}
    )


def test_all_packages_get_one_version_the_newest_that_is_final() -> None:
    has = {name: ["1.17.8-1", "1.9.0-1", "1.20.0-1", "1.21.0~rc.1-1"] for name in NAMES}
    has["libnvidia-container1"] = ["1.17.8-1", "1.9.0-1", "1.20.0-1", "1.20.1-1"]
    assert toolkit.choose_toolkit_version(has, "", URL) == "1.20.0-1"
    assert toolkit.choose_toolkit_version(has, "1.17.8", URL) == "1.17.8-1"
    with pytest.raises(toolkit.ToolkitError, match=r"\[CT-103\].*1\.20\.1, only 1\.9\.0-1, 1\.17"):
        toolkit.choose_toolkit_version(has, "1.20.1", URL)


def build_request(version: str = "") -> Any:
    return {
        "names": NAMES,
        "manager": "apt",
        "url": URL,
        "version": version,
        "cuda": "",
        "source": "/etc/apt/sources.list.d/fullmesh-container-toolkit.sources",
    }


def answer_commands(installed: dict[str, str], available: str = "") -> Any:
    """dpkg-query and apt as Debian's answer."""

    def run(argv: list[str]) -> tuple[int, str, str]:
        if argv[0] == "dpkg-query":
            rows = [
                f"{name}\t{version}\tinstalled\tinstall\t{name}"
                for name, version in installed.items()
            ]
            return 0, "\n".join(rows), ""
        if argv[0] == "apt-get" and not available:
            said = f"E: Failed to fetch {URL}/InRelease  Could not resolve\nE: Some index files failed to download."
            return 100, "", said
        rows = [f"{name} | {available} | {URL}  Packages" for name in NAMES]
        return 0, "\n".join(rows) if argv[0] == "apt-cache" else "", ""

    return run


def test_existing_files_are_kept_without_a_download(tmp_path: Path) -> None:
    there = dict.fromkeys(NAMES, "1.17.8-1")
    seen = toolkit.observe_toolkit(answer_commands(there), build_request(), str(tmp_path))
    assert (seen["satisfied"], seen["version"], seen["ours"]) == (True, "1.17.8-1", False)
    # brought by another repository of NVIDIA's: no source of ours is needed
    assert not container_toolkit.container_toolkit_writes_source(seen)


def test_parts_of_two_versions_are_brought_to_one(tmp_path: Path) -> None:
    there = {**dict.fromkeys(NAMES, "1.20.0-1"), "libnvidia-container1": "1.17.8-1"}
    seen = toolkit.observe_toolkit(
        answer_commands(there, "1.20.0-1"), build_request(), str(tmp_path)
    )
    assert (seen["satisfied"], seen["version"]) == (False, "1.20.0-1")
    assert container_toolkit.container_toolkit_writes_source(seen)


def test_a_repository_that_is_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        toolkit.ToolkitError, match=r"\[CT-102\].*Could not resolve\. Check container_"
    ):
        toolkit.observe_toolkit(answer_commands({}), build_request("1.20.0"), str(tmp_path))


def test_nvidias_list_is_found_next_to_our_own(tmp_path: Path) -> None:
    """It has apt's name of the machine in it (NVIDIA's installation guide)."""
    place = tmp_path / "etc/apt/sources.list.d"
    place.mkdir(parents=True)
    theirs = place / "nvidia-container-toolkit.list"
    theirs.write_text(
        "deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] "
        "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n"
        "#deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] "
        "https://nvidia.github.io/libnvidia-container/experimental/deb/$(ARCH) /\n"
    )
    (found,) = sources.find_package_sources(URL, str(tmp_path), "x86_64")
    assert (found["path"], found["enabled"]) == (str(theirs), True)
    assert sources.find_package_sources(URL, str(tmp_path), "aarch64") == []
    (place / "ours.sources").write_text(f"Types: deb\nURIs: {URL}\nSuites: /\n")
    (beside,) = sources.find_duplicate_sources(str(place / "ours.sources"), str(tmp_path), "x86_64")
    assert beside["path"] == str(theirs)


@pytest.mark.parametrize(
    ("around", "ours", "satisfied", "writes"),
    [
        (AROUND, False, False, True),
        (AROUND, True, True, True),
        (AROUND, False, True, False),
        ({**AROUND, "theirs": "/etc/apt/sources.list.d/x.list"}, True, True, False),
    ],
)
def test_our_source_is_written_only_without_a_foreign_one(
    around: Any, ours: bool, satisfied: bool, writes: bool
) -> None:
    seen = {**SEEN, "repository": around, "ours": ours, "satisfied": satisfied}
    assert container_toolkit.container_toolkit_writes_source(seen) == writes


def test_messages_of_the_package_manager_are_quoted() -> None:
    failed = {
        "msg": "failed",
        "stderr": "W: x\nE: Unable to correct problems, you have held broken packages.",
    }
    said = container_toolkit.container_toolkit_not_installed(failed, SEEN, URL)
    assert said.startswith("[CT-106] version 1.20.0-1 of https://nvidia")
    assert "held broken packages. Check: the repository's key" in said
    way = {**SEEN, "repository": {**AROUND, "in_the_way": ["/etc/apt/preferences pins x"]}}
    assert "Allow that version" in container_toolkit.container_toolkit_not_installed(
        failed, way, URL
    )


def node(root: Path, version: str = OPEN, units: bool = True) -> None:
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text(version)
    if units:
        (root / "usr/lib/systemd/system").mkdir(parents=True)
        for one in cdi.UNITS:
            (root / "usr/lib/systemd/system" / one).write_text("")


def render_spec(driver: str) -> str:
    return f"cdiVersion: 0.5.0\nkind: nvidia.com/gpu\nmounts: [/usr/lib64/libcuda.so.{driver}]\n"


@pytest.mark.parametrize(
    ("text", "version"), [(OPEN, "580.95.05"), (CLOSED, "535.216.03"), ("", "")]
)
def test_the_loaded_driver_is_read(tmp_path: Path, text: str, version: str) -> None:
    node(tmp_path, text)
    assert cdi.read_loaded_driver(str(tmp_path)) == version


def test_the_toolkits_unit_describes_the_gpus(tmp_path: Path) -> None:
    node(tmp_path)
    calls = []

    def run(argv: list[str]) -> tuple[int, str, str]:
        calls.append(argv)
        (tmp_path / "run/cdi").mkdir(parents=True)
        (tmp_path / "run/cdi/nvidia.yaml").write_text(render_spec("580.95.05"))
        return 0, "", ""

    assert cdi.ensure_cdi_spec(run, True, str(tmp_path))["changed"]
    assert not calls
    made = cdi.ensure_cdi_spec(run, False, str(tmp_path))
    assert (made["changed"], made["devices"]["path"]) == (
        True,
        str(tmp_path / "run/cdi/nvidia.yaml"),
    )
    assert calls == [["systemctl", "restart", "nvidia-cdi-refresh.service"]]
    assert not cdi.ensure_cdi_spec(run, False, str(tmp_path))["changed"]
    assert len(calls) == 1


def test_an_older_toolkit_is_queried_again_for_a_new_driver(tmp_path: Path) -> None:
    node(tmp_path, units=False)

    def run(argv: list[str]) -> tuple[int, str, str]:
        assert argv == ["nvidia-ctk", "cdi", "generate"]
        return 0, render_spec(cdi.read_loaded_driver(str(tmp_path))), ""

    # left by a newer one, and gone after the next boot
    (tmp_path / "run/cdi").mkdir(parents=True)
    (tmp_path / "run/cdi/nvidia.yaml").write_text(render_spec("580.95.05"))
    place = tmp_path / "etc/cdi/nvidia.yaml"
    assert cdi.ensure_cdi_spec(run, False, str(tmp_path))["diff"]["after"] == render_spec(
        "580.95.05"
    )
    assert not cdi.ensure_cdi_spec(run, False, str(tmp_path))["changed"]
    (tmp_path / "proc/driver/nvidia/version").write_text(CLOSED)
    assert cdi.ensure_cdi_spec(run, False, str(tmp_path))["changed"]
    assert place.read_text() == render_spec("535.216.03")


def test_a_version_is_no_part_of_another() -> None:
    assert cdi.is_spec_for_driver(render_spec("580.95.05"), "580.95.05")
    assert not cdi.is_spec_for_driver(render_spec("580.95.051"), "580.95.05")
    assert not cdi.is_spec_for_driver(render_spec("580.95.05.1"), "580.95.05")
    assert not cdi.is_spec_for_driver("kind: amd.com/gpu 580.95.05", "580.95.05")


def test_without_a_driver_nothing_is_described(tmp_path: Path) -> None:
    node(tmp_path, "")

    def never(argv: list[str]) -> tuple[int, str, str]:
        raise AssertionError(argv)

    made = cdi.ensure_cdi_spec(never, False, str(tmp_path))
    assert not made["changed"]
    (note,) = container_toolkit.container_toolkit_notes(made["devices"], 0)
    assert note["code"] == "CT-109"
    assert "unit then does it" in note["text"]
    old = {**made["devices"], "units": []}
    assert "run again" in container_toolkit.container_toolkit_notes(old, 0)[0]["text"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((1, "", "ERROR failed to initialize NVML: Driver Not Loaded"), "Driver Not Loaded"),
        ((0, "", ""), "has described no GPU of driver 580.95.05"),
    ],
)
def test_a_toolkit_without_a_description_is_refused(
    tmp_path: Path, answer: tuple[int, str, str], said: str
) -> None:
    node(tmp_path)
    with pytest.raises(cdi.CdiError, match=rf"\[CT-107\].*{said}"):
        cdi.ensure_cdi_spec(lambda _: answer, False, str(tmp_path))


# docker's settings ---------------------------------------------------------------------------------------------------

THEIRS = '{\n  "log-driver": "journald",\n  "data-root": "/srv/docker"\n}\n'


class Docker:
    """A node with docker: what it is asked, how many containers run, whether it starts."""

    def __init__(self, root: Path, running: str = "", starts: bool = True) -> None:
        self.root, self.running, self.starts = root, running, starts
        self.calls: list[str] = []
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/dockerd").write_text("")
        self.place = root / "etc/docker/daemon.json"
        self.place.parent.mkdir(parents=True)

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        self.calls.append(" ".join(argv))
        if argv[0] == "docker":
            return 0, self.running, ""
        fails = argv[1] == "restart" and not self.starts
        return (1, "", "Job for docker.service failed.") if fails else (0, "", "")

    def remember(self) -> None:
        others = ("directories", "sysctls", "services", "packages", "interfaces")
        names: Any = {one: [] for one in others}
        remember_state(
            NodeSystem(str(self.root), self.run),
            docker_runtime.ROLE,
            {**names, "files": [docker_runtime.PLACE]},
            False,
        )
        self.calls.clear()

    def change(self, present: bool = True, check: bool = False) -> Any:
        return docker_runtime.configure_docker_runtime(self.run, present, check, str(self.root))


@pytest.mark.parametrize("before", [None, "", THEIRS, '{"runtimes": {"runsc": {"path": "runsc"}}}'])
def test_docker_learns_the_runtime_and_forgets_it_to_the_byte(
    tmp_path: Path, before: str | None
) -> None:
    docker = Docker(tmp_path)
    if before is not None:
        docker.place.write_text(before)
    docker.remember()
    assert docker.change(check=True)["changed"]
    assert (docker.place.read_text() if docker.place.exists() else None) == before
    assert docker.change()["changed"]
    config = json.loads(docker.place.read_text())
    assert config["runtimes"].pop("nvidia") == {"args": [], "path": "nvidia-container-runtime"}
    was = json.loads(before or "{}")
    assert {"runtimes": {}, **was} == config
    assert docker.calls[-1] == "systemctl restart docker.service"
    assert not docker.change()["changed"]
    assert docker.change(present=False)["changed"]
    assert (docker.place.read_text() if docker.place.exists() else None) == before
    assert not docker.change(present=False)["changed"]


def test_entries_that_others_add_meanwhile_stay(tmp_path: Path) -> None:
    docker = Docker(tmp_path)
    docker.place.write_text(THEIRS)
    docker.remember()
    docker.change()
    config = json.loads(docker.place.read_text())
    config["live-restore"] = True
    config["runtimes"]["runsc"] = {"path": "runsc"}
    docker.place.write_text(json.dumps(config))
    docker.change(present=False)
    left = json.loads(docker.place.read_text())
    assert left == {
        **json.loads(THEIRS),
        "live-restore": True,
        "runtimes": {"runsc": {"path": "runsc"}},
    }


def test_an_entry_of_that_name_that_was_there_stays(tmp_path: Path) -> None:
    docker = Docker(tmp_path)
    mine = '{"runtimes": {"nvidia": {"path": "/opt/nvidia-container-runtime"}}}'
    docker.place.write_text(mine)
    docker.remember()
    assert not docker.change()["changed"]
    assert not docker.change(present=False)["changed"]
    assert docker.place.read_text() == mine
    assert not docker.calls


def test_only_entries_of_the_role_are_removed(tmp_path: Path) -> None:
    docker = Docker(tmp_path)
    docker.place.write_text(docker_runtime.add_nvidia_runtime(THEIRS))
    assert not docker.change(present=False)["changed"]


def test_running_containers_continue(tmp_path: Path) -> None:
    docker = Docker(tmp_path, running="3f1c\n77ab\n")
    made = docker.change()
    assert made["waiting"] == 2
    assert "systemctl restart docker.service" not in docker.calls
    there = {"path": "/run/cdi/nvidia.yaml", "driver": "580.95.05", "units": []}
    (note,) = container_toolkit.container_toolkit_notes(there, made["waiting"])
    assert note["code"] == "CT-110"


def test_a_node_without_docker_gets_no_settings_of_it(tmp_path: Path) -> None:
    made = docker_runtime.configure_docker_runtime(
        lambda _: (0, "", ""), True, False, str(tmp_path)
    )
    assert (made["changed"], made["docker"]) == (False, False)
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"runtimes": []}'])
def test_settings_that_docker_could_not_read_are_refused(tmp_path: Path, text: str) -> None:
    docker = Docker(tmp_path)
    docker.place.write_text(text)
    with pytest.raises(
        docker_runtime.DockerError, match=r"\[CT-108\] /etc/docker/daemon\.json cannot"
    ):
        docker.change()
    assert docker.place.read_text() == text


@pytest.mark.parametrize("text", [THEIRS, "", None])
def test_a_docker_that_does_not_start_gets_its_settings_back(
    tmp_path: Path, text: str | None
) -> None:
    docker = Docker(tmp_path, starts=False)
    if text is not None:
        docker.place.write_text(text)
    with pytest.raises(docker_runtime.DockerError, match=r"\[CT-108\] docker does not start"):
        docker.change()
    assert (docker.place.read_text() if docker.place.exists() else None) == text


def test_an_unavailable_key_has_the_code_of_the_role() -> None:
    """The error of write_files starts with the code that the role passes (molecule provokes CT-105)."""
    tasks = yaml.safe_load((ROOT / "roles/container_toolkit/tasks/apply.yml").read_text())
    (code,) = [one["write_files"]["code"] for one in tasks if "write_files" in one]
    assert code in roles_container_toolkit.CODES
    assert code == "CT-105"
