"""The torchrun wrapper, rendered and run with a simulated torchrun."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from ladder_samples import plan

from fullmesh.model.participants import build_job_members
from fullmesh.model.types import ClusterPlan
from fullmesh.roles import launchers

TEMPLATES = Path(__file__).resolve().parents[2] / "roles/launchers/templates"
ENV = """MASTER_ADDR=10.78.0.11
MASTER_PORT=29500
NNODES=2
NODE_RANK=1
NPROC_PER_NODE=4
FULLMESH_ADDRESS=10.78.0.12
FULLMESH_RENDEZVOUS=10.78.0.11:29400
NCCL_DEBUG=WARN
"""
C10D = ["--rdzv-backend=c10d", "--rdzv-endpoint=10.78.0.11:29400"]
SIZES = ["--nnodes=2", "--nproc-per-node=4", "--local-addr=10.78.0.12"]


def render_wrapper(tmp_path: Path, watch: int) -> Path:
    environment = Environment(  # noqa: S701 (a shell script, not a page)
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined
    )
    environment.filters["comment"] = lambda text: f"# {text}"
    text = environment.get_template("fullmesh-torchrun.j2").render(
        ansible_managed="managed",
        __launchers_env=tmp_path / "env",
        launchers_venv=tmp_path,
        launchers_rendezvous="c10d",
        launchers_join_timeout_seconds=300,
        launchers_watch_seconds=watch,
        __launchers_watch=tmp_path / "fullmesh-watch",
        __launchers_bin=tmp_path,
        __launchers_lib=tmp_path / "lib",
        __launchers_hook="/opt/fullmesh/hook",
        launchers_etcd="10.78.0.11:2379",
    )
    torchrun = tmp_path / "bin/torchrun"
    torchrun.parent.mkdir()
    torchrun.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "debug $NCCL_DEBUG"\n')
    torchrun.chmod(0o755)
    (tmp_path / "env").write_text(ENV)
    path = tmp_path / "fullmesh-torchrun"
    path.write_text(text + "\n")
    watcher = tmp_path / "fullmesh-watch"
    watcher.write_text('#!/bin/sh\necho watched "$@"\n')
    watcher.chmod(0o755)
    return path


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    return render_wrapper(tmp_path, 0)


def call(
    wrapper: Path, *arguments: str, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    full = {"PATH": os.environ["PATH"], "TMPDIR": str(wrapper.parent)} | env
    return subprocess.run(
        ["/bin/sh", str(wrapper), *arguments],
        capture_output=True,
        text=True,
        env=full,
        check=False,
        cwd=cwd,
    )


def test_c10d_gets_the_host_of_the_store(wrapper: Path) -> None:
    lines = call(wrapper, "--id", "job1", "train.py", "two words", "").stdout.splitlines()
    store_options = "--rdzv-conf=is_host=0,join_timeout=300"
    assert lines == [
        *C10D,
        "--rdzv-id=job1",
        store_options,
        *SIZES,
        "train.py",
        "two words",
        "",
        "debug WARN",
    ]


def test_the_master_hosts_the_store(wrapper: Path) -> None:
    done = call(wrapper, "train.py", FULLMESH_ADDRESS="10.78.0.11", FULLMESH_JOIN_TIMEOUT="9")
    assert "--rdzv-conf=is_host=1,join_timeout=9" in done.stdout


def test_the_static_rendezvous_has_ranks_and_one_fixed_port(wrapper: Path) -> None:
    lines = call(wrapper, "--static", "--max-restarts=0", "train.py").stdout.splitlines()
    where = ["--node-rank=1", "--master-addr=10.78.0.11", "--master-port=29500"]
    assert lines == [*where, *SIZES, "--max-restarts=0", "train.py", "debug WARN"]


def test_exported_variables_win(wrapper: Path) -> None:
    done = call(wrapper, "train.py", NCCL_DEBUG="INFO", FULLMESH_JOB="from systemd")
    assert "debug INFO" in done.stdout
    assert "--rdzv-id=from systemd" in done.stdout


@pytest.mark.parametrize(
    ("code", "arguments", "env"),
    [
        ("LA-102", ["train.py"], {"FULLMESH_ENV": "/nowhere/env"}),
        ("LA-104", [], {}),
        ("LA-104", ["--static"], {}),
        ("LA-104", ["--id"], {}),
        ("LA-104", ["--etcd", "train.py"], {}),
        ("LA-105", ["train.py"], {"FULLMESH_RENDEZVOUS_MODE": "zookeeper"}),
        ("LA-104", ["--watch"], {}),
        ("LA-106", ["--watch", "soon", "train.py"], {}),
        ("LA-106", ["train.py"], {"FULLMESH_WATCH_KILL_AFTER": "-1"}),
        ("LA-125", ["train.py"], {"TMPDIR": "/dev/null"}),
    ],
)
def test_an_impossible_call_exits_with_2_and_a_code(
    wrapper: Path, code: str, arguments: list[str], env: dict[str, str]
) -> None:
    done = call(wrapper, *arguments, **env)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"[{code}]" in done.stderr.splitlines()[-1]


def test_a_check_that_fails_starts_no_rank(wrapper: Path, tmp_path: Path) -> None:
    (tmp_path / "fullmesh-check").write_text("#!/bin/sh\necho verdict; exit $status\n")
    (tmp_path / "fullmesh-check").chmod(0o755)
    done = call(wrapper, "train.py", FULLMESH_CHECK="1", status="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("verdict\n[LA-124]")
    done = call(wrapper, "train.py", FULLMESH_CHECK="1", status="0")
    assert (done.returncode, done.stderr) == (0, "verdict\n")
    assert "train.py" in done.stdout


def test_an_environment_file_with_windows_line_ends_is_refused(
    wrapper: Path, tmp_path: Path
) -> None:
    file = tmp_path / "windows"
    file.write_bytes(b"NNODES=2\r\n")
    done = call(wrapper, "train.py", FULLMESH_ENV=str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"[LA-102] {file} has Windows line endings")


def stand_in(wrapper: Path, text: str) -> None:
    python = wrapper.parent / "bin/python"
    python.write_text(f"#!/bin/sh\n{text}\n")
    python.chmod(0o755)


def test_etcd_is_queried_first_and_gets_the_rendezvous(wrapper: Path) -> None:
    stand_in(wrapper, f'echo "$@" > {wrapper.parent}/asked')
    lines = call(wrapper, "--etcd", "--id", "j", "train.py").stdout.splitlines()
    where = ["--rdzv-backend=etcd-v2", "--rdzv-endpoint=10.78.0.11:2379", "--rdzv-id=j"]
    assert lines == [*where, "--rdzv-conf=join_timeout=300", *SIZES, "train.py", "debug WARN"]
    asked = (wrapper.parent / "asked").read_text().split()
    assert asked[-2:] == ["etcd", "10.78.0.11:2379"]


def test_a_refused_etcd_starts_nothing(wrapper: Path) -> None:
    stand_in(wrapper, "exit 2")
    done = call(wrapper, "--etcd", "--id", "j", "train.py", FULLMESH_ETCD="10.78.0.12:2379")
    assert (done.returncode, done.stdout) == (2, "")


def test_the_older_command_also_gets_the_plan(wrapper: Path) -> None:
    stand_in(wrapper, 'printf "%s\\n" "$@"')
    lines = call(wrapper, "--launch", "--use-env", "train.py").stdout.splitlines()
    where = ["--node-rank=1", "--master-addr=10.78.0.11", "--master-port=29500"]
    assert lines[3:] == [*where, *SIZES, "--use-env", "train.py"]


def test_the_older_command_imports_nothing_from_the_working_folder(
    wrapper: Path, tmp_path: Path
) -> None:
    (tmp_path / "bin/python").symlink_to(sys.executable)
    foreign = tmp_path / "foreign"
    for folder, say in ((tmp_path / "real/torch/distributed", "torch's"), (foreign, "foreign")):
        folder.mkdir(parents=True)
        (folder / "launch.py").write_text(f"def main(): print({say!r})\n")
        (folder / "torch.py").write_text(f"print({say!r})\n")
    done = call(wrapper, "--launch", "train.py", cwd=foreign, PYTHONPATH=str(tmp_path / "real"))
    assert done.stdout == "torch's\n"


@pytest.mark.parametrize(
    "kind", ["nothing", "own", "a link", "a file", "open to all", "open to a group"]
)
def test_the_compilers_cache_is_the_callers_own(wrapper: Path, tmp_path: Path, kind: str) -> None:
    torchrun = tmp_path / "bin/torchrun"
    torchrun.write_text("#!/bin/sh\necho $TORCHINDUCTOR_CACHE_DIR\n")
    cache = tmp_path / f"torchinductor_{os.geteuid()}"
    modes = {"own": 0o755, "open to all": 0o777, "open to a group": 0o775}
    if kind in modes:
        cache.mkdir()
        cache.chmod(modes[kind])
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir()
        cache.symlink_to(tmp_path / "elsewhere")
    elif kind == "a file":
        cache.touch()
    used = Path(call(wrapper, "train.py", TMPDIR=str(tmp_path)).stdout.strip())
    assert (used == cache) is (kind in ("nothing", "own"))
    assert used.parent == tmp_path
    assert used.stat().st_mode & 0o077 == (0o055 if kind == "own" else 0)
    assert call(wrapper, "train.py", TORCHINDUCTOR_CACHE_DIR="/mine").stdout == "/mine\n"


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        (["--max-restarts=3", "train.py"], {}, "1"),
        (["--max-restarts", "3", "train.py"], {}, "1"),
        (["--max-restarts=3", "train.py"], {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "0"}, "0"),
        (["train.py"], {}, ""),
    ],
)
def test_restarts_get_a_store_of_their_own_each(
    wrapper: Path, arguments: list[str], env: dict[str, str], said: str
) -> None:
    torchrun = wrapper.parent / "bin/torchrun"
    torchrun.write_text("#!/bin/sh\necho $TORCH_DISABLE_SHARE_RDZV_TCP_STORE\n")
    assert call(wrapper, *arguments, **env).stdout.strip() == said


def test_a_check_starts_no_job_and_gets_the_callers_arguments(
    tmp_path: Path, wrapper: Path
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/fullmesh_start.py").write_text("import sys; print(*sys.argv[1:]); sys.exit(1)")
    done = call(wrapper, "--check")
    assert (done.returncode, done.stdout) == (1, f"{tmp_path}/bin/python {tmp_path}/env\n")


def test_a_dry_run_prints_the_command_and_starts_nothing(tmp_path: Path, wrapper: Path) -> None:
    done = call(wrapper, "--static", "--dry-run", "train.py", "two words")
    words = done.stdout.splitlines()
    assert words[0] == f"{tmp_path}/bin/torchrun"
    assert words[-2:] == ["train.py", "two words"]
    assert [one for one in SIZES if one not in words] == []
    assert not list(tmp_path.glob("torchinductor_*"))
    done = call(wrapper, "--dry-run", "train.py", FULLMESH_CHECK="1")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_rank_runs_without_torchrun_in_the_environment_of_jobs(
    tmp_path: Path, wrapper: Path
) -> None:
    python = tmp_path / "bin/python"
    python.write_text('#!/bin/sh\necho "$MASTER_ADDR $RANK" "$@"\n')
    python.chmod(0o755)
    done = call(wrapper, "--rank", "-u", "train.py", "two words", RANK="3", FULLMESH_CHECK="1")
    address = next(one for one in (tmp_path / "env").read_text().split() if "MASTER_ADDR" in one)
    assert done.stdout == f"{address.partition('=')[2]} 3 -u train.py two words\n"


def test_a_node_without_torchrun_is_reported(wrapper: Path) -> None:
    (wrapper.parent / "bin/torchrun").unlink()
    done = call(wrapper, "train.py")
    assert (done.returncode, done.stderr[:8]) == (2, "[LA-103]")


@pytest.mark.parametrize(
    "bad",
    [
        ("root; reboot", 300, 30),
        ("root", 0, 30),
        ("root", 300, "soon"),
        ("root", -1, 30),
        ("root", 300, 30, "never"),
    ],
)
def test_settings_that_cannot_work_are_refused(bad: tuple[str, object, object]) -> None:
    assert [fault.code for fault in launchers.find_launcher_faults(*bad)] == ["LA-101"]


def test_settings_that_can_work_are_not() -> None:
    assert launchers.find_launcher_faults("train-user", 300, "30") == []
    assert launchers.find_launcher_faults("train-user", 300, "30", 0) == []
    assert launchers.find_launcher_faults("", 300, 30) == []


@pytest.mark.parametrize("user", ["", "train", "root"])
def test_jobs_run_only_as_the_named_account(user: str) -> None:
    """The unit in the role's form. Without an account, it starts nothing and names the missing setting."""
    environment = Environment(autoescape=False)  # noqa: S701 (a unit of systemd, not a page)
    environment.filters["comment"] = str
    names = yaml.safe_load((TEMPLATES.parent / "vars/main.yml").read_text())
    ready = environment.from_string(names["__launchers_ready"]).render(
        launchers_job_user=user, __launchers_refusal=names["__launchers_refusal"].strip()
    )
    text = environment.from_string((TEMPLATES / "fullmesh-job@.service.j2").read_text()).render(
        launchers_job_user=user, __launchers_ready=ready
    )
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    assert found["User"] == (user or "nobody")
    # jobs of root read and write files of other accounts
    assert ("CapabilityBoundingSet" in found) == (user != "root")
    done = subprocess.run(
        shlex.split(found["ExecStartPre"]), capture_output=True, text=True, check=False
    )
    assert (done.returncode, "[LA-116]" in done.stderr) == ((0, False) if user else (2, True))


@pytest.mark.parametrize("mode", ["--c10d", "--static"])
def test_a_job_is_watched_by_default(tmp_path: Path, mode: str) -> None:
    path = render_wrapper(tmp_path, 60)
    said = call(path, mode, "train.py", "two words").stdout
    assert said.startswith(
        f"watched --within 60 --kill-after 0 --stalled 60 -- {tmp_path}/bin/torchrun "
    )
    assert said.endswith("train.py two words\n")
    settings = {"FULLMESH_WATCH_KILL_AFTER": "9", "FULLMESH_WATCH_STALLED": "0"}
    said = call(path, mode, "--watch", "5", "train.py", **settings).stdout
    assert said.startswith("watched --within 5 --kill-after 9 --stalled 0 -- ")
    for done in (
        call(path, "--watch", "0", "train.py"),
        call(path, "train.py", FULLMESH_WATCH="0"),
    ):
        assert "watched" not in done.stdout
        assert "train.py" in done.stdout


def test_ranks_can_be_queried_by_default(tmp_path: Path) -> None:
    """The hook comes first in PYTHONPATH, without an empty entry, which would mean the caller's folder."""
    path = render_wrapper(tmp_path, 0)
    (tmp_path / "bin/torchrun").write_text('#!/bin/sh\necho "$PYTHONPATH"\n')
    assert call(path, "train.py").stdout == "/opt/fullmesh/hook\n"
    assert call(path, "train.py", PYTHONPATH="/mine").stdout == "/opt/fullmesh/hook:/mine\n"
    assert call(path, "train.py", PYTHONPATH="/mine", FULLMESH_HANG="0").stdout == "/mine\n"


def test_the_hook_is_installed_as_an_automatic_import() -> None:
    (made,) = launchers.build_hook_files("/opt/fullmesh/hook")
    assert made["path"] == "/opt/fullmesh/hook/sitecustomize.py"
    compile(made["content"], made["path"], "exec")


def test_the_watch_knows_the_participants() -> None:
    looked: ClusterPlan = {**plan(2), "resolved": {"local_ranks": 1}}
    made = json.loads(launchers.render_nodes_file(looked))
    assert made["nodes"][1] == {
        "name": "ubuntu1",
        "address": "10.78.0.12",
        "addresses": ["10.78.0.12"],
        "first_rank": 1,
        "local_ranks": 1,
        "names": ["ubuntu1"],
    }
    assert made["master"] == {"node": "el1", "address": "10.78.0.11", "port": 29500}
    assert made["data_ports"]["first"] < made["data_ports"]["last"]


def test_ranks_that_were_not_surveyed_are_marked() -> None:
    """./fullmesh watch contacts no node before it starts the job there."""
    assert [one["auto"] for one in build_job_members(plan(2))["nodes"]] == [True, True]


def test_the_watch_only_needs_installed_files(tmp_path: Path) -> None:
    role = yaml.safe_load((TEMPLATES.parent / "vars/main.yml").read_text())
    for entry in launchers.build_library_files(role["__launchers_modules"], str(tmp_path)):
        Path(entry["path"]).write_text(entry["content"])
    script = str(tmp_path / "fullmesh_watch.py")
    command = [
        sys.executable,
        "-I",
        "-c",
        f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r});"
        f" sys.argv = [{script!r}, '--', 'true']; runpy.run_path({script!r}, run_name='__main__')",
    ]
    assert subprocess.run(command, check=False).returncode == 0
