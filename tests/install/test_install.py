"""An installed package, outside of any checkout: what it can do alone it does, and says how to get the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from checkout import copy_checkout

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and nothing of the checkout; its dependencies are those of the tests' own."""
    top = tmp_path_factory.mktemp("installed")
    tree = top / "tree"
    copy_checkout(tree)
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, top / "env"], check=True)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", top, tree], check=True)
    shutil.rmtree(tree)
    (wheel,) = top.glob("*.whl")
    install = ["uv", "pip", "install", "--quiet", "--no-deps", "--python", top / "env/bin/python"]
    subprocess.run([*install, wheel], check=True)
    (packages,) = (top / "env/lib").glob("python3.*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("ansible-playbook", "ansible-inventory"):  # as pip would install them
        program = top / "env/bin" / name
        text = Path(sys.executable).with_name(name).read_text().partition("\n")[2]
        program.write_text(f"#!{top}/env/bin/python\n{text}")
        program.chmod(0o755)
    return top / "env"


def fullmesh(prefix: Path, where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The installed command in another directory, without this checkout on its path."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [prefix / "bin/fullmesh", *words],
        cwd=where,
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_it_runs_from_its_own_place(prefix: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            prefix / "bin/python",
            "-c",
            "import fullmesh.observed.ladder as one; print(one.__file__)",
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(str(prefix))


def test_it_explains_a_code_and_a_log(prefix: Path, tmp_path: Path) -> None:
    done = fullmesh(prefix, tmp_path, "explain", "DG-105")
    assert done.returncode == 0, done.stderr
    assert "DG-105" in done.stdout
    (tmp_path / "job.log").write_text(
        "Timed out after 1801 seconds waiting for clients. 1/2 clients joined.\n"
    )
    done = fullmesh(prefix, tmp_path, "explain-log", "job.log")
    assert done.returncode == 1, done.stderr
    assert "LG-201" in done.stdout


def test_runs_are_read_from_the_current_folder(prefix: Path, tmp_path: Path) -> None:
    done = fullmesh(prefix, tmp_path, "report")
    assert (done.returncode, f"[CL-107] No result at {tmp_path}/runs" in done.stderr) == (2, True)


def test_it_diagnoses_without_a_checkout(prefix: Path, tmp_path: Path) -> None:
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "fullmesh_address": "127.0.0.1/8",
    }
    inventory = {"all": {"children": {"torch_nodes": {"hosts": {"n1": host}}}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory))
    words = ("-i", "hosts.yml", "--json", "--deadline", "150")
    done = fullmesh(prefix, tmp_path, "diagnose", *words)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert "DG-166" in [one["code"] for one in findings], done.stdout + done.stderr
    assert list(tmp_path.glob("runs/*/result.json"))
    report = tmp_path / "runs/latest/report.html"
    report.unlink(missing_ok=True)
    done = fullmesh(prefix, tmp_path, "report", "--html")
    assert "DG-166" in done.stdout, done.stderr
    assert "DG-166" in report.read_text()
    done = fullmesh(prefix, tmp_path, "hang", "-i", "hosts.yml", "--job", "none")
    assert done.returncode == 2, done.stdout
    assert "no rank" in (done.stdout + done.stderr).lower()


@pytest.mark.parametrize("verb", ["apply", "verify", "demo", "lab", "test", "undo"])
def test_a_verb_without_its_checkout_explains_how_to_get_one(
    prefix: Path, tmp_path: Path, verb: str
) -> None:
    done = fullmesh(prefix, tmp_path, verb)
    assert done.returncode == 2
    assert f"[CL-113] {verb} needs a checkout" in done.stderr
    assert f"Fix: clone the project and run ./fullmesh {verb} there" in done.stderr


def test_it_brings_completion_and_the_man_page(prefix: Path, tmp_path: Path) -> None:
    """Where shells and man look for them below a prefix."""
    share = prefix / "share"
    done = fullmesh(prefix, tmp_path, "completion", "bash")
    kept = share / "bash-completion/completions/fullmesh.bash"
    assert (done.returncode, done.stdout) == (0, kept.read_text())
    assert (share / "zsh/site-functions/_fullmesh").read_text().startswith("#compdef fullmesh")
    assert (share / "man/man1/fullmesh.1").read_text().count('.SH "FULLMESH DIAGNOSE"') == 1


def test_it_brings_no_developers_tools(prefix: Path) -> None:
    (packages,) = prefix.glob("lib/python3.*/site-packages")
    assert (packages / "fullmesh").is_dir()
    assert not (packages / "devtools").exists()


def test_its_dependencies_are_those_of_the_project(prefix: Path) -> None:
    (meta,) = prefix.glob("lib/python3.*/site-packages/fullmesh-*.dist-info/METADATA")
    wanted = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    said = {
        line.removeprefix("Requires-Dist: ").replace(" ", "")
        for line in meta.read_text().splitlines()
        if line.startswith("Requires-Dist: ")
    }
    assert said == wanted
