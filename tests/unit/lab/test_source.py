"""Where images come from, what reports say about it, and the table of real images."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from devtools.lab import build, source
from devtools.lab.build import Builder
from devtools.lab.errors import LabError
from devtools.lab.paths import Paths
from devtools.lab.plan import FAMILIES, REAL
from devtools.lab.podman import Podman
from devtools.parts import list_part_words
from fullmesh.roles import torch_locks, torch_runtime
from fullmesh.roles.preflight import SUPPORTED

ROOT = Path(__file__).parents[3]
IMAGE_JOB = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["image"]
CPU_LOCK = torch_locks.FILES / "torch-2.13.0-cpu.txt"


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(source.VARIABLE, raising=False)


def role_variables(image: str) -> str:
    """The name of the file with a role's settings for a real image."""
    system, _, version = REAL[image].system.partition(".")[0].rpartition(" ")
    return f"{'RedHat' if REAL[image].family == 'el' else system}_{version}"


def test_the_default_is_lookalikes() -> None:
    found = source.choose_image_source()
    assert (found.kind, found.families) == ("lookalike", FAMILIES)
    assert "Look-alike" in found.note
    assert "private copies" in found.note


@pytest.mark.parametrize(
    ("value", "families", "images"),
    [
        ("registry", ("el", "ubuntu"), ("stream9", "ubuntu24.04")),
        ("rocky9", ("el",), ("rocky9",)),
        ("ubuntu22.04, alma10", ("ubuntu", "el"), ("ubuntu22.04", "alma10")),
    ],
)
def test_the_variable_names_real_images(
    monkeypatch: pytest.MonkeyPatch, value: str, families: tuple[str, ...], images: tuple[str, ...]
) -> None:
    monkeypatch.setenv(source.VARIABLE, value)
    found = source.choose_image_source()
    assert (found.kind, found.families) == ("registry", families)
    assert tuple(found.images[family] for family in families) == images
    for image in images:
        assert REAL[image].reference in found.note


def test_requested_families_keep_the_named_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(source.VARIABLE, "rocky9")
    found = source.choose_image_source(("el", "ubuntu"))
    assert found.families == ("el", "ubuntu")
    assert (found.images["el"], found.images["ubuntu"]) == ("rocky9", "ubuntu24.04")


@pytest.mark.parametrize("value", ["magic", "rocky9,", "rocky9,alma9", "registry,rocky9"])
def test_unknown_choice(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(source.VARIABLE, value)
    with pytest.raises(LabError, match=rf"LB-109.*{value}.*alma10"):
        source.choose_image_source()


def test_a_registry_has_no_debian_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(source.VARIABLE, "registry")
    with pytest.raises(LabError, match=r"LB-109.*el, debian12"):
        source.choose_image_source(("el", "debian12"))
    assert source.choose_image_source(("debian12",)).kind == "debian"


def test_every_supported_system_has_an_image() -> None:
    """Except RHEL, whose images need a subscription for packages, and Debian, which the lab builds itself."""
    names = {"CentOS": "CentOS Stream", "Rocky": "Rocky Linux"}
    wanted = {
        f"{names.get(name, name)} {version}"
        for name, versions in SUPPORTED.items()
        if name not in ("RedHat", "Debian")
        for version in versions
    }
    assert {image.system.partition(".")[0] for image in REAL.values()} == wanted


@pytest.mark.parametrize("name", REAL)
def test_a_containerfile_builds_the_image(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing else is built: its nodes get packages from the distribution's archives."""
    monkeypatch.setattr(Podman, "has_image", lambda _self, _image: False)
    monkeypatch.setattr(Podman, "must", lambda _self, *_words: "[]")
    steps: list[list[str]] = []
    monkeypatch.setattr(build, "step", lambda _what, argv, _log, _seconds: steps.append(argv))
    image = REAL[name]
    builder = Builder(paths, Podman(paths), "registry", [image.family], {image.family: name})
    assert (builder.missing(), builder.folders()) == ([name], {})
    builder.ensure()
    ((*argv, file, context),) = steps
    assert f"BASE={image.reference}" in argv
    assert f"PACKAGES={' '.join(image.packages)}" in argv
    assert builder.image(name) in argv
    assert re.fullmatch(r"[a-z.]+\.io/[a-z]+/[a-z]+:[a-z0-9.-]+", image.reference)
    text = (ROOT / "lab" / Path(file).relative_to(context)).read_text()
    assert ("ARG BASE\nFROM $BASE\nARG PACKAGES\n" in text, " $PACKAGES " in text) == (True, True)
    for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / "lab" / word).exists() for word in line.split())


def test_images_of_one_family_have_their_own_names(paths: Paths) -> None:
    builder = Builder(paths, Podman(paths), "registry")
    lookalikes = Builder(paths, Podman(paths), "lookalike")
    names = [builder.image(name) for name in REAL]
    assert len({builder.digests[name] for name in REAL}) == len(set(names)) == len(REAL)
    assert not set(names) & {lookalikes.image(name) for name in ("el9", "ubuntu24.04")}


def test_the_workflow_runs_every_image() -> None:
    assert IMAGE_JOB["strategy"]["matrix"]["image"] == list(REAL)
    assert IMAGE_JOB["env"] == {source.VARIABLE: "${{ matrix.image }}"}
    commands = " ".join(step.get("run", "") for step in IMAGE_JOB["steps"])
    parts = re.findall(r"molecule-\w+", commands)
    assert parts
    assert set(parts) <= set(list_part_words())
    assert commands.count("./fullmesh") == commands.count(f"--preserve-env=CI,{source.VARIABLE} ")


def test_the_demo_runs_where_torch_can_be_installed() -> None:
    targets = torch_runtime.parse_lock_targets(CPU_LOCK.read_text())
    assert targets
    for name, image in REAL.items():
        file = ROOT / f"roles/torch_runtime/vars/{role_variables(name)}.yml"
        python = yaml.safe_load(file.read_text())["__torch_runtime_os_python"]
        assert (python.removeprefix("/usr/bin/python") in targets.pythons) == image.torch, name
    (demo,) = [step for step in IMAGE_JOB["steps"] if "demo" in step.get("run", "")]
    left_out = [name for name, image in REAL.items() if not image.torch]
    assert demo["if"] == " && ".join(f"matrix.image != '{name}'" for name in left_out)


@pytest.mark.parametrize("name", REAL)
def test_nccl_is_left_out_only_if_its_key_is_unknown(name: str) -> None:
    file = ROOT / f"roles/nccl/vars/{role_variables(name)}.yml"
    file = file if file.exists() else ROOT / "roles/nccl/vars/Ubuntu.yml"
    known = yaml.safe_load(file.read_text())["__nccl_vendor_fingerprints"]
    assert REAL[name].variables.get("nccl_manage", True) is bool(known)
