"""Installation of the torch environment with tiny wheels: an incomplete one is never used."""

from __future__ import annotations

import contextlib
import ensurepip
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import torch_env, wheelhouse

TORCH = "class version:\n    cuda = None\n__version__ = '{}'\n"
DISTRIBUTED = "is_available = is_gloo_available = lambda: True\nis_nccl_available = lambda: False\n"


@pytest.fixture(autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a machine whose administrator pins torch for all users. The lock still wins."""
    folder = tmp_path_factory.mktemp("xdg")
    cap = folder / "pip/constraints.txt"
    cap.parent.mkdir()
    cap.write_text("torch<0.5\n")
    (folder / "pip/pip.conf").write_text(f"[global]\nconstraint = {cap}\n")
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(folder))


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wheel(folder: Path, version: str, says: str = "", needs: str = "") -> Path:
    """Make a wheel named torch that imports and prints a version."""
    path = folder / f"torch-{version}-py3-none-any.whl"
    info = f"torch-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch/__init__.py", TORCH.format(says or version))
        archive.writestr("torch/distributed/__init__.py", DISTRIBUTED)
        archive.writestr(
            f"{info}/METADATA", metadata + (f"Requires-Dist: {needs}\n" if needs else "")
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def pip_wheel() -> Path:
    """Return the wheel that came with this Python. Debian has it elsewhere (PEP 453, WHEEL_PKG_DIR)."""
    folder = sysconfig.get_config_var("WHEEL_PKG_DIR")
    places = [Path(ensurepip.__file__).parent / "_bundled", *([Path(folder)] if folder else [])]
    return next(found for place in places for found in sorted(place.glob("pip-*.whl")))


def lock(*wheels: Path) -> str:
    names = [path.name.split("-")[:2] for path in wheels]
    return "".join(f"{n}=={v} --hash=sha256:{sha(p)}\n" for (n, v), p in zip(names, wheels))


def order(root: Path, version: str, **change: Any) -> dict[str, Any]:
    """Return the role's request, with the bundle already transferred."""
    source = root / "source"
    source.mkdir(exist_ok=True)
    made = [wheel(source, version, change.pop("says", ""), change.pop("needs", "")), pip_wheel()]
    bundle = root / "wheels/bundle.tar"
    bundle.parent.mkdir(exist_ok=True)
    with tarfile.open(bundle, "w") as tar:
        for path in made:
            tar.add(path, arcname=path.name)
    asked = {
        "path": str(root / "venv"),
        "store": str(root / "venvs"),
        "wheels": str(root / "wheels"),
        "python": sys.executable,
        "requirements": lock(*made),
        "torch_version": version,
        "accelerator": "cpu",
        "bundle": str(bundle),
        "expected": {path.name: sha(path) for path in made},
        "keep_wheels": False,
        "seconds": 120,
    }
    return asked | change


def state(root: Path) -> tuple[str, list[str], bool]:
    link = os.readlink(root / "venv") if (root / "venv").is_symlink() else ""
    store = root / "venvs"
    return link, sorted(os.listdir(store)) if store.exists() else [], (root / "wheels").exists()


def test_it_is_built_aside_tested_and_switched_once(tmp_path: Path) -> None:
    first = order(tmp_path, "1.0")
    assert torch_env.ensure_torch_venv(first, True)["changed"]
    assert state(tmp_path)[:2] == ("", [])
    result = torch_env.ensure_torch_venv(first, False)
    assert result["versions"]["torch"] == "1.0"
    assert state(tmp_path) == (result["folder"], [os.path.basename(result["folder"])], False)
    again = torch_env.observe_torch_venv(first)
    assert (again["needed"], again["linked"]) == (False, True)
    assert not torch_env.ensure_torch_venv(first, False)["changed"]

    second = torch_env.ensure_torch_venv(order(tmp_path, "2.0"), False)
    assert len(state(tmp_path)[1]) == 2
    back = torch_env.ensure_torch_venv(first, False)
    assert (back["changed"], back["needed"], state(tmp_path)[0]) == (True, False, result["folder"])
    torch_env.ensure_torch_venv(order(tmp_path, "3.0", keep_wheels=True), False)
    assert os.path.basename(second["folder"]) not in state(tmp_path)[1]
    assert len(torch_env.hash_kept_wheels(str(tmp_path / "wheels"))) == 2


def test_packages_built_against_torch_are_tested_too(tmp_path: Path) -> None:
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text(
        "#!/bin/sh\ncase $3 in *torchaudio*) echo 'OSError: libtorchaudio.so: undefined symbol'; exit 1;; esac\n"
    )
    python.chmod(0o755)
    torch_env.check_companion_imports(str(tmp_path), "torch==1.0\ntorchvision==0.1\n", 10)
    torch_env.check_companion_imports(str(tmp_path), "torch==1.0\n", 10)
    with pytest.raises(
        torch_env.VenvError, match=r"\[TR-109\] torchaudio cannot be .*undefined symbol"
    ):
        torch_env.check_companion_imports(
            str(tmp_path), "torch==1.0\ntorchvision==0.1\ntorchaudio==0.2\n", 10
        )


def test_torch_is_tested_in_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_env.tempfile, "tempdir", str(tmp_path))
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    said = {"torch": "$TMPDIR $(stat -c %a $TMPDIR)", "python": "", "cuda": "", "rocm": ""}
    said |= {"gloo": "", "nccl": "", "nccl_library": ""}
    python.write_text(f"#!/bin/sh\ncat <<END\n{json.dumps(said)}\nEND\n")
    python.chmod(0o755)
    place, mode = torch_env.check_torch_import(str(tmp_path), "", 10)["torch"].split()
    assert Path(place).parent == tmp_path
    assert mode == "700"
    assert not Path(place).exists()


def test_a_node_uses_its_lines_of_a_lock_for_several_pythons(tmp_path: Path) -> None:
    asked = order(tmp_path, "1.0")
    now = f"{sys.version_info.major}.{sys.version_info.minor}"
    torch, _, rest = asked["requirements"].partition(" ")
    others = f"numpy==9.9 ; python_version == '3.4' --hash=sha256:{'0' * 64}\n"
    asked["requirements"] = f"{others}{torch} ; python_version >= '{now}' {rest}"
    assert torch_env.ensure_torch_venv(asked, False)["versions"]["torch"] == "1.0"


@pytest.fixture
def before(tmp_path: Path) -> tuple[str, list[str], bool]:
    """Make a node with a working environment (building a real one takes seconds)."""
    folder = tmp_path / "venvs/0123456789abcdef"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(sys.executable)
    (folder / torch_env.MARKER).write_text('{"versions": {"torch": "1.0"}}')
    (tmp_path / "venv").symlink_to(folder)
    return state(tmp_path)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"expected": {"torch-2.0-py3-none-any.whl": "0" * 64}}, "TR-107"),
        ({"expected": {"missing-1.0-py3-none-any.whl": "0" * 64}}, "TR-107"),
        ({"needs": "absent>=1"}, "TR-108"),
        ({"says": "2.1"}, "TR-109"),
        ({"accelerator": "cuda13.0"}, "TR-113"),
        ({"says": "2.0'; raise ImportError('broken'); x='"}, "TR-109"),
    ],
)
def test_a_failed_build_changes_nothing(
    tmp_path: Path, before: tuple[str, list[str], bool], change: dict[str, Any], code: str
) -> None:
    with pytest.raises(torch_env.VenvError, match=code):
        torch_env.ensure_torch_venv(order(tmp_path, "2.0", **change), False)
    assert state(tmp_path) == before


def test_an_interrupted_build_changes_nothing(
    tmp_path: Path, before: tuple[str, list[str], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch_env, "check_torch_import", interrupted)
    with pytest.raises(KeyboardInterrupt):
        torch_env.ensure_torch_venv(order(tmp_path, "2.0"), False)
    assert state(tmp_path) == before


def test_a_killed_build_is_no_environment(tmp_path: Path) -> None:
    asked = order(tmp_path, "1.0")
    folder = Path(torch_env.observe_torch_venv(asked)["folder"])
    (folder / "bin").mkdir(parents=True)  # the state after a power loss: no marker
    assert torch_env.observe_torch_venv(asked)["needed"]
    assert torch_env.ensure_torch_venv(asked, False)["versions"]["torch"] == "1.0"


@pytest.mark.parametrize("kind", ["directory", "foreign link"])
def test_a_foreign_environment_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "venv"
    path.mkdir() if kind == "directory" else path.symlink_to("/usr")
    with pytest.raises(torch_env.VenvError, match="TR-110"):
        torch_env.observe_torch_venv(order(tmp_path, "1.0"))


@pytest.mark.skipif(os.getuid() != 0, reason="for another account, the folder is its own affair")
@pytest.mark.parametrize(
    ("owner", "mode", "deep", "refused"),
    [
        ((0, 0), 0o755, 0, False),
        ((65534, 65534), 0o755, 0, True),
        ((65534, 65534), 0o755, 2, True),
        ((0, 65534), 0o775, 0, True),
        ((0, 0), 0o777, 1, True),
        ((0, 0), 0o1777, 0, True),
        ((0, 0), 0o1777, 1, False),
    ],
)
def test_a_place_that_others_can_change_is_refused(
    tmp_path: Path, owner: tuple[int, int], mode: int, deep: int, refused: bool
) -> None:
    """Root runs the environment's Python, so the owner of a folder above it could run programs as root."""
    shared = tmp_path / "shared"
    place = shared.joinpath(*"ab"[:deep])
    place.mkdir(parents=True)
    os.chown(shared, *owner)
    shared.chmod(mode)
    asked = order(place, "1.0")
    if refused:
        with pytest.raises(
            torch_env.VenvError, match=rf"^\[TR-115\] .* can change {shared}, .*chmod go-w"
        ):
            torch_env.observe_torch_venv(asked)
    else:
        assert torch_env.observe_torch_venv(asked)["needed"]


@contextlib.contextmanager
def another_run(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Lock the store in another process, like a node that continues without its controller."""
    folder.mkdir(exist_ok=True)
    script = f"""
import fcntl, os, time
handle = os.open({str(folder)!r}, os.O_RDONLY)
fcntl.flock(handle, fcntl.LOCK_EX)
print(flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline()
        yield other
        other.kill()


ACTS = {
    "observe": torch_env.observe_torch_venv,
    "build": lambda asked: torch_env.ensure_torch_venv(asked, False),
    "remove": lambda asked: torch_env.remove_torch_venv(asked, False),
}


@pytest.mark.parametrize("act", ACTS)
def test_the_next_run_waits_for_an_earlier_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    asked = order(tmp_path, "1.0")
    waits = []
    with another_run(tmp_path / "venvs") as other:
        monkeypatch.setattr(torch_env.time, "sleep", lambda seconds: waits.append(other.kill()))
        ACTS[act](asked)
    assert waits
    if act == "remove":
        assert state(tmp_path) == ("", [], False)
        assert not torch_env.remove_torch_venv(asked, False)


def test_a_build_keeps_its_lock_if_undo_removes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The undo has the old folder open, and the build must not continue without a lock."""
    store = tmp_path / "venvs"

    def finish_undo(_seconds: float) -> None:
        store.rmdir()
        other.kill()

    with another_run(store) as other:
        monkeypatch.setattr(torch_env.time, "sleep", finish_undo)
        handle = torch_env.lock_folder(str(store), 60, True)
    assert handle is not None
    assert os.path.samestat(os.fstat(handle), os.stat(store))
    os.close(handle)


@pytest.mark.parametrize("act", ACTS)
def test_the_wait_for_an_earlier_build_ends(tmp_path: Path, act: str) -> None:
    asked = {**order(tmp_path, "1.0"), "seconds": 0}
    refused = pytest.raises(torch_env.VenvError, match=r"^\[TR-116\] .* after 0 s\. Check: fuser")
    with another_run(tmp_path / "venvs"), refused:
        ACTS[act](asked)
    assert state(tmp_path)[2]
    assert torch_env.observe_torch_venv({**asked, "seconds": 60})["needed"]


def test_an_unsuitable_python_is_named(tmp_path: Path) -> None:
    seen = torch_env.observe_torch_venv(order(tmp_path, "1.0", python="/nowhere/python3"))
    assert (seen["python"], seen["fault"][:8]) == ("", "[TR-103]")
    bare = tmp_path / "bare"
    bare.write_text(
        '#!/bin/sh\necho \'{"python": "3.12", "machine": "x", "glibc": [2, 39], "missing": ["ensurepip"]}\'\n'
    )
    bare.chmod(0o755)
    assert torch_env.inspect_python(str(bare), own_pip=True)["fault"] == ""
    assert torch_env.inspect_python(str(bare), own_pip=False)["fault"].startswith("[TR-104]")


@pytest.fixture
def download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Make a lock, and an index that is a folder."""
    index = tmp_path / "index"
    index.mkdir()
    path = wheel(index, "1.0")
    (tmp_path / "lock.txt").write_text(lock(path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return {
        "requirements": str(tmp_path / "lock.txt"),
        "key": "set",
        "python": "3.11",
        "platforms": ["manylinux_2_28_x86_64"],
        "cache": str(tmp_path / "cache"),
        "index": "",
        "wheels": "",
        "have": [],
        "seconds": 60,
    }


def test_wheels_are_downloaded_once_and_bundled(download: dict[str, Any]) -> None:
    assert wheelhouse.preview_wheels(download)["changed"]
    first = wheelhouse.provide_wheels(download)
    name = "torch-1.0-py3-none-any.whl"
    with tarfile.open(first["bundle"]) as tar:
        assert tar.getnames() == [name]
    assert first["changed"]
    assert first["installed_bytes"] > 0
    assert not wheelhouse.preview_wheels(download)["changed"]
    assert not wheelhouse.provide_wheels(download)["changed"]
    nothing = wheelhouse.provide_wheels(download | {"have": list(first["wheels"].values())})
    assert (nothing["bundle"], nothing["bundle_bytes"]) == ("", 0)

    (Path(download["cache"]) / "files" / name).write_bytes(b"damaged")
    assert wheelhouse.provide_wheels(download)["changed"]


def test_existing_wheels_need_no_index(
    download: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    folder = Path(download["requirements"]).parent / "index"
    assert wheelhouse.provide_wheels(download | {"wheels": str(folder)})["changed"]


def test_a_download_with_another_hash_is_refused(download: dict[str, Any]) -> None:
    path = Path(download["requirements"])
    path.write_text(f"torch==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(wheelhouse.DownloadError, match="TR-106"):
        wheelhouse.provide_wheels(download)
    assert os.listdir(Path(download["cache"]) / "files") == []


def test_a_cache_in_use_is_waited_for_with_a_deadline(download: dict[str, Any]) -> None:
    cache = Path(download["cache"])
    cache.mkdir()
    with (cache / ".lock").open("w") as held:
        wheelhouse.lock_wheel_cache(held, 1)
        with pytest.raises(wheelhouse.DownloadError, match="Another run"):
            wheelhouse.provide_wheels(download | {"seconds": 0})


@pytest.mark.parametrize(
    ("wanted", "cuda", "rocm", "fits"),
    [
        ("cpu", "13.0", "", True),
        ("cuda", "13.0", "", True),
        ("cuda13.0", "13.0", "", True),
        ("cu130", "13.0", "", True),
        ("cuda13.0", "13.1", "", False),
        ("cuda1.3", "13.0", "", False),
        ("cuda", "", "", False),
        ("cuda", "", "6.4.1", False),
        ("rocm", "", "6.4.1", True),
        ("rocm6.4", "", "6.4.43482-0f2d60242", True),
        ("rocm6.3", "", "6.4.1", False),
    ],
)
def test_a_torch_for_another_accelerator_is_refused(
    wanted: str, cuda: str, rocm: str, fits: bool
) -> None:
    said = {"torch": "2.13.0", "cuda": cuda, "rocm": rocm}
    if fits:
        torch_env.check_accelerator(said, wanted)
    else:
        with pytest.raises(torch_env.VenvError, match=r"TR-113.*torch_runtime_index"):
            torch_env.check_accelerator(said, wanted)
