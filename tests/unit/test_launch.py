"""Ranks get their values from the plan with every launcher, and bad calls are refused before any wait."""

from __future__ import annotations

import http.server
import os
import pwd
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import fullmesh_launch as launch
import pytest
from fact_samples import facts
from ladder_samples import plan

from fullmesh.model.participants import build_job_members
from fullmesh.roles import cluster_env, launchers
from fullmesh.settings import ROOT

PLAN = plan(2)
CACHE = "TORCHINDUCTOR_CACHE_DIR"
ENV = """# a comment
MASTER_ADDR=10.78.0.11
WORLD_SIZE=8
NODE_RANK=0
NPROC_PER_NODE=4
GLOO_SOCKET_IFNAME=eth1
NCCL_SOCKET_IFNAME==eth1
FULLMESH_ADDRESS=10.78.0.12
NCCL_DEBUG=WARN
ODD='two words #x'
"""


def make_nodes_file(*ranks: int) -> dict[str, Any]:
    """Return nodes.json of the two nodes with this number of ranks each."""
    made = build_job_members(PLAN)
    first = 0
    for node, count in zip(made["nodes"], ranks or (4, 4), strict=True):
        node.update({"local_ranks": count, "first_rank": first})
        first += count
    return made


def test_variables_that_differ_between_nodes_are_not_exported() -> None:
    """Two nodes without a common value: each variable that the role writes on only one, or with another value."""
    first, second = PLAN["nodes"].values()
    proxy = {"http_proxy": "http://proxy.example:3128"}
    gid = {"gid": "::ffff:10.78.0.11", "type": "RoCE v2", "index": 3, "interface": "eth1"}
    port = {"device": "mlx5_0", "port": 1, "active": True, "driver": "mlx5", "layer": "Ethernet"}
    roce = facts(hcas=["mlx5_0"], rdma=[{**port, "gids": [gid]}], proxy=proxy)
    nics = facts()["interfaces"]
    fast = facts(interfaces=[*nics, {**nics[0], "name": "ib0", "speed": 100000}])
    other = {**second, "interface": "ib0", "links": [], "local_ranks": 8}
    plan = {**PLAN, "family": "ipv6"}
    one = cluster_env.build_environment(plan, first, roce)
    two = cluster_env.build_environment(plan, other, fast)
    differing = {name for name in {**one, **two} if one.get(name) != two.get(name)}
    assert {"NCCL_IB_HCA", "NCCL_IB_ADDR_FAMILY", "NCCL_SOCKET_NTHREADS"} <= differing
    # an index into one node's GID table has no meaning on another node
    assert differing | {"NCCL_IB_GID_INDEX"} == launch.NODES_OWN


def test_nodes_json_has_names_and_networks() -> None:
    made = build_job_members(PLAN)
    assert made["networks"] == ["10.78.0.0/24"]
    assert [node["names"] for node in made["nodes"]] == [["el1"], ["ubuntu1"]]


def test_the_hostfile_has_a_slot_for_each_rank() -> None:
    assert launchers.render_hostfile(PLAN).splitlines()[1:] == [
        "10.78.0.11 slots=1",
        "10.78.0.12 slots=1",
    ]


def test_the_small_commands_pass_every_argument_on(tmp_path: Path) -> None:
    files = launchers.build_command_files(str(tmp_path), "/lib", str(tmp_path / "venv"))
    names = {Path(one["path"]).name for one in files}
    assert names == {
        *("fullmesh-mpirun", "fullmesh-orted", "fullmesh-rank", "fullmesh-sbatch"),
        *("fullmesh-srun", "fullmesh-launch", "fullmesh-ssh", "fullmesh-hang"),
        *("fullmesh-jax", "fullmesh-ray", "fullmesh-accelerate", "fullmesh-deepspeed"),
        *(
            "fullmesh-docker",
            "fullmesh-podman",
            "fullmesh-check",
            "fullmesh-sglang",
            "fullmesh-vllm",
        ),
    }
    assert all('"$@"' in one["content"] and one["mode"] == "0755" for one in files)


@pytest.mark.parametrize("name", ["mpirun", "srun", "sbatch", "ray", "accelerate", "podman"])
@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_launcher_starts_only_on_a_node_that_passes_its_check(
    tmp_path: Path, name: str, status: int
) -> None:
    files = launchers.build_command_files(str(tmp_path), str(tmp_path), str(tmp_path / "venv"))
    (text,) = [one["content"] for one in files if one["path"].endswith(f"/fullmesh-{name}")]
    (tmp_path / "fullmesh-check").write_text(f'#!/bin/sh\necho verdict "$@"; exit {status}\n')
    (tmp_path / "fullmesh-check").chmod(0o755)
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").write_text("#!/bin/sh\necho started\n")
    (tmp_path / "venv/bin/python").chmod(0o755)

    def run(**env: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["/bin/sh", "-c", text, "sh"], capture_output=True, text=True, check=False, env=env
        )
        return done.returncode, done.stdout, done.stderr

    assert run() == (0, "started\n", "")
    code, out, errors = run(FULLMESH_CHECK="1")
    assert errors.startswith("verdict node links\n")
    assert (code, out) == ((2, "") if status else (0, "started\n"))
    assert ("[LA-124]" in errors) == bool(status)


def test_no_command_imports_from_the_callers_environment(tmp_path: Path) -> None:
    """Root runs them in a shell that may have another user's PYTHONPATH (su, sudo -E)."""
    bad = tmp_path / "bad"
    bad.mkdir()
    for name in ("sitecustomize", "usercustomize", "argparse", "json"):
        (bad / f"{name}.py").write_text("raise SystemExit('planted')\n")
    programs = str(ROOT / "node_programs")
    files = {
        Path(one["path"]).name: one["content"]
        for one in launchers.build_command_files(
            "/bin-of-fullmesh", programs, str(tmp_path / "venv")
        )
    }
    for name in ("fullmesh-torchrun", "fullmesh-watch"):
        text = (ROOT / f"roles/launchers/templates/{name}.j2").read_text()
        text = text.replace("{{ launchers_venv }}", str(tmp_path / "venv"))
        lines = text.replace("{{ __launchers_lib }}", programs).splitlines()
        calls = [line.strip() for line in lines if f"{programs}/" in line]
        files[name] = "\n".join(call.replace("|| exit $?", "") for call in calls)
    runs = {name: text for name, text in files.items() if programs in text}
    assert set(files) - set(runs) == {"fullmesh-launch", "fullmesh-ssh"}
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(sys.executable)
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(bad), "PYTHONHOME": "", "HOME": str(bad)}
    for name, text in runs.items():
        done = subprocess.run(
            ["/bin/sh", "-c", text, "sh"],
            env=env,
            cwd=bad,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert "planted" not in said, name
        assert said, name
        assert "Traceback" not in said, name


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "env").write_text(ENV)
    monkeypatch.setattr(launch, "FOLDER", str(tmp_path))
    monkeypatch.setattr(launch, "read_nodes_file", make_nodes_file)
    monkeypatch.delenv("FULLMESH_ENV", raising=False)
    return tmp_path


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


MODES = {"own": 0o755, "open to all": 0o777, "open to a group": 0o775}


@pytest.mark.parametrize(
    "kind", ["nothing", "own", "a link", "a file", "open to all", "open to a group"]
)
def test_the_compilers_cache_is_the_ranks_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(launch.tempfile, "tempdir", str(tmp_path))
    cache = tmp_path / f"torchinductor_{os.geteuid()}"
    if kind in MODES:
        cache.mkdir()
        cache.chmod(MODES[kind])
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir()
        cache.symlink_to(tmp_path / "elsewhere")
    elif kind == "a file":
        cache.touch()
    used = Path(launch.prepare_compiler_cache())
    assert (used == cache) is (kind in ("nothing", "own"))
    assert used.is_dir()
    assert not used.is_symlink()
    assert used.stat().st_mode & 0o022 == 0


@pytest.mark.usefixtures("node")
def test_a_rank_without_a_temporary_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE, raising=False)
    monkeypatch.setattr(launch.tempfile, "tempdir", None)
    monkeypatch.setattr(launch.tempfile, "_candidate_tempdir_list", lambda: ["/dev/null"])
    monkeypatch.setattr(launch, "build_rank_env", lambda env, _who: dict(env))
    with pytest.raises(launch.LaunchError, match=r"^\[LA-125\] .*: No usable temporary directory"):
        launch.exec_rank(["job"])


@pytest.mark.usefixtures("node")
def test_a_rank_gets_a_cache_unless_its_caller_named_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(launch.os, "execvpe", lambda _p, _a, env: seen.append(env[CACHE]))
    monkeypatch.setattr(launch, "prepare_compiler_cache", lambda: "/own")
    monkeypatch.setattr(launch, "build_rank_env", lambda env, _who: dict(env))
    for named in ("", "/named"):
        monkeypatch.setenv(CACHE, named)
        launch.exec_rank(["job"])
    assert seen == ["/own", "/named"]


@pytest.mark.parametrize("local", [0, 1, 2, 3])
def test_several_nodes_times_several_gpus(node: Path, local: int) -> None:
    env = launch.build_rank_env(
        {"OMPI_COMM_WORLD_LOCAL_RANK": str(local), "OMPI_COMM_WORLD_SIZE": "8"}, make_nodes_file()
    )
    assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"]) == (str(4 + local), "8", str(local))
    assert (env["NODE_RANK"], env["MASTER_ADDR"], env["ODD"]) == ("1", "10.78.0.11", "two words #x")


def test_nodes_with_different_numbers_of_gpus(node: Path) -> None:
    env = launch.build_rank_env(
        {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "5"}, make_nodes_file(3, 2)
    )
    assert (env["RANK"], env["LOCAL_WORLD_SIZE"]) == ("4", "2")


def test_settings_of_a_node_never_come_from_another(node: Path) -> None:
    caller = {"GLOO_SOCKET_IFNAME": "bond0", "NODE_RANK": "0", "NCCL_DEBUG": "INFO"}
    env = launch.build_rank_env(
        {**caller, "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8"},
        make_nodes_file(),
    )
    assert (env["GLOO_SOCKET_IFNAME"], env["NODE_RANK"], env["NCCL_DEBUG"]) == ("eth1", "1", "INFO")


@pytest.mark.parametrize(
    ("env", "code"),
    [
        # the original case: rank 7 of a world of 4
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}, "LA-112"),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "4", "OMPI_COMM_WORLD_SIZE": "8"}, "LA-112"),
        ({}, "LA-112"),
        (
            {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "FULLMESH_NODES": "x"},
            "LA-113",
        ),
        # this node is ubuntu1
        (
            {
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                "OMPI_COMM_WORLD_SIZE": "4",
                "FULLMESH_NODES": "el1",
            },
            "LA-113",
        ),
        ({"FULLMESH_ENV": "/nowhere"}, "LA-102"),
    ],
)
def test_a_process_that_does_not_fit_the_plan_is_refused(
    node: Path, env: dict[str, str], code: str
) -> None:
    with pytest.raises(launch.LaunchError, match=rf"^\[{code}\]"):
        launch.build_rank_env(env, make_nodes_file())


def test_slurm_may_use_some_of_the_nodes(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(node, "scontrol", 'echo "$3"')
    monkeypatch.setenv("PATH", f"{node}/bin:{os.environ['PATH']}")
    env = {"SLURM_LOCALID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "ubuntu1"}
    found = launch.build_rank_env(env, make_nodes_file())
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("2", "4", "10.78.0.12")
    program(node, "scontrol", "echo what >&2; exit 1")
    with pytest.raises(launch.LaunchError, match=r"LA-111.*what"):
        launch.build_rank_env(env, make_nodes_file())


def test_mpirun_gets_the_common_variables_and_the_data_range(node: Path) -> None:
    own = launch.read_node_env(str(node / "env"))
    names = launch.build_export_options(own, {})[1::2]
    assert names == ["MASTER_ADDR", "NCCL_DEBUG", "ODD", "WORLD_SIZE"]
    options = " ".join(
        launch.build_mpi_options(make_nodes_file(), make_nodes_file()["nodes"], whole=True)
    )
    ports = PLAN["data_ports"]
    assert "--mca btl_tcp_if_include 10.78.0.0/24" in options
    assert f"--mca btl_tcp_port_min_v4 {ports['first']}" in options
    assert f"--mca btl_tcp_port_range_v4 {ports['size']}" in options
    assert "-np 8" in options
    some = launch.build_mpi_options(make_nodes_file(), make_nodes_file()["nodes"][1:], whole=False)
    assert some[some.index("--host") + 1] == "10.78.0.12:4"


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"a": (255, "x\nPermission denied (publickey)."), "b": (0, "mpirun 4.1")}, "LA-110"),
        ({"a": (-1, "no answer for 10 s")}, "LA-110"),
        ({"a": (2, "[LA-107] orted is not installed on this node."), "b": (0, "4")}, "LA-107"),
        ({"a": (127, "fullmesh-orted: No such file or directory"), "b": (0, "4")}, "LA-107"),
        ({"a": (0, "mpirun (Open MPI) 4.1.1"), "b": (0, "mpirun (Open MPI) 4.1.6")}, "LA-115"),
    ],
)
def test_calls_that_would_fail_in_mpirun_are_refused(
    answers: dict[str, tuple[int, str]], code: str
) -> None:
    with pytest.raises(launch.LaunchError, match=rf"^\[{code}\].*\ba\b"):
        launch.refuse_unfit_nodes(answers, "Open MPI", launch.OPENMPI, launch.MPI_DIFFERS)


def test_nodes_that_agree_pass() -> None:
    launch.refuse_unfit_nodes({"a": (0, "4.1.4"), "b": (0, "Warning: added\n4.1.4")}, "it", "", "")


@pytest.mark.parametrize("command", ["mpirun", "orted", "srun", "sbatch"])
def test_missing_software_is_named(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setenv("PATH", str(node))
    monkeypatch.setattr(launch, "MPI_PLACES", (str(node),))
    assert launch.main([command, "train.py"]) == 2
    assert capsys.readouterr().err.startswith(f"[LA-107] {command} is not installed")


def test_a_node_without_the_plan_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "FOLDER", str(tmp_path))
    (tmp_path / "nodes.json").write_text("{")
    with pytest.raises(launch.LaunchError, match=r"LA-102.*nodes\.json"):
        launch.read_nodes_file()


def test_a_missing_script_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch.main(["srun", "--nodes=2"]) == 2
    assert "[LA-104]" in capsys.readouterr().err


def test_missing_and_foreign_keys_between_nodes_are_named(node: Path) -> None:
    with pytest.raises(launch.LaunchError, match="LA-110"):
        launch.read_ssh_user()
    (node / "ssh").mkdir()
    (node / "ssh/config").write_text("Host *\n    User train\n")
    assert launch.read_ssh_user() == "train"
    with pytest.raises(launch.LaunchError, match=r"LA-114.*runuser -u train -- .*'two words'"):
        launch.refuse_wrong_account("train", ["x.py", "two words"], "fullmesh-mpirun")
    launch.refuse_wrong_account(pwd.getpwuid(os.geteuid()).pw_name, [], "fullmesh-mpirun")


def test_a_stopped_slurm_is_named(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(node, "scontrol", "echo 'Slurmctld(primary) at a is DOWN'; echo '*****'; exit 1")
    monkeypatch.setenv("PATH", f"{node}/bin:{os.environ['PATH']}")
    with pytest.raises(launch.LaunchError, match=r"LA-111.*at a is DOWN"):
        launch.refuse_silent_slurm()


def test_slurm_gets_the_plans_sizes() -> None:
    assert launch.build_slurm_sizes(make_nodes_file(), []) == ["--ntasks-per-node=4", "--nodes=2"]
    assert launch.build_slurm_sizes(make_nodes_file(), ["--nodes=1"]) == ["--ntasks-per-node=4"]
    with pytest.raises(launch.LaunchError, match=r"LA-112.*2 and 4"):
        launch.build_slurm_sizes(make_nodes_file(4, 2), [])


@pytest.fixture
def etcd_without_v2() -> Iterator[str]:
    """Answer like etcd 3.4 without --enable-v2: its version, and 404 for keys."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/version" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


def test_an_etcd_without_version_2_is_refused(
    monkeypatch: pytest.MonkeyPatch, etcd_without_v2: str
) -> None:
    with pytest.raises(launch.LaunchError, match=r"LA-108.*No etcd is named"):
        launch.refuse_unusable_etcd([""])
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(launch.LaunchError, match=r"LA-107.*python-etcd"):
        launch.refuse_unusable_etcd([etcd_without_v2])
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: name)
    with pytest.raises(launch.LaunchError, match="LA-109"):
        launch.refuse_unusable_etcd([etcd_without_v2])
    with pytest.raises(launch.LaunchError, match=r"LA-108.*does not answer"):
        launch.refuse_unusable_etcd(["127.0.0.1:1"])
    monkeypatch.setattr(launch, "fetch_status", lambda _url: 200)
    launch.refuse_unusable_etcd(["10.78.0.11:2379"])


@pytest.fixture
def lightning(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load Fullmesh's class with a simulation of Lightning's. molecule/launchers runs it with the real one."""
    for name in ("lightning", "lightning.fabric", "lightning.fabric.plugins"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    base = SimpleNamespace(ClusterEnvironment=object)
    monkeypatch.setitem(sys.modules, "lightning.fabric.plugins.environments", base)
    monkeypatch.delitem(sys.modules, "fullmesh_lightning", raising=False)
    import fullmesh_lightning  # noqa: PLC0415  # only now does its import work

    return fullmesh_lightning


def build_last_environment() -> dict[str, str]:
    """Return the environment of the last of two nodes with four GPUs each."""
    env = {"RANK": "7", "LOCAL_RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    return env | {"MASTER_ADDR": "10.78.0.11", "MASTER_PORT": "29500"}


def test_lightning_gets_its_ranks(lightning: ModuleType) -> None:
    env = lightning.FullmeshEnvironment(build_last_environment())
    assert (env.global_rank(), env.node_rank(), env.local_rank(), env.world_size()) == (7, 1, 3, 8)
    assert (env.main_address, env.main_port) == ("10.78.0.11", 29500)
    assert env.creates_processes_externally
    env.validate_settings(num_devices=4, num_nodes=2)
    env.set_world_size(8)
    env.set_global_rank(7)


def test_lightning_refuses_rank_7_of_4(lightning: ModuleType) -> None:
    """``Invalid rank requested : 7/4``: the Trainer has one node, but the launcher started two."""
    env = lightning.FullmeshEnvironment(build_last_environment())
    right = r"\[LA-112\].*rank 7.*devices=4, num_nodes=2"
    with pytest.raises(RuntimeError, match=right):
        env.validate_settings(num_devices=4, num_nodes=1)
    with pytest.raises(RuntimeError, match=right):
        env.set_world_size(4)
    with pytest.raises(RuntimeError, match=right):
        env.set_global_rank(3)
    with pytest.raises(RuntimeError, match=right):
        env.validate_settings(num_devices=8, num_nodes=1)


def test_lightning_works_without_a_launcher(lightning: ModuleType) -> None:
    with pytest.raises(RuntimeError, match=r"LA-112.*fullmesh-torchrun"):
        lightning.FullmeshEnvironment({"WORLD_SIZE": "8"})


def test_a_missing_lightning_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning", "lightning_fabric"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "fullmesh_lightning", raising=False)
    with pytest.raises(ImportError, match="LA-107"):
        import fullmesh_lightning  # noqa: F401, PLC0415  # the import is what is refused


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        *((one, True) for one in ("NCCL_DEBUG", "RCCL_MSCCL_ENABLE", "HCCL_CONNECT_TIMEOUT")),
        *(
            (one, True)
            for one in ("UCC_TLS", "UCX_TLS", "FI_PROVIDER", "HSA_FORCE_FINE_GRAIN_PCIE")
        ),
        *((one, True) for one in ("TORCH_DISTRIBUTED_USE_TORCHCOMMS", "TORCHCOMM_TIMEOUT_SECONDS")),
        *((one, False) for one in ("TORCHCOMM_GLOO_HOSTNAME", "TORCHCOMM_GLOO_INTERFACE")),
        ("TORCHCOMM_RANK", False),
        # values of one node: another node has other interfaces and addresses
        *((one, False) for one in ("HCCL_IF_IP", "HCCL_SOCKET_IFNAME", "UCX_NET_DEVICES")),
        *(
            (one, False)
            for one in ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NODE_RANK", "HOME", "PATH")
        ),
    ],
)
def test_an_exported_library_variable_reaches_all_nodes(name: str, passed: bool) -> None:
    words = launch.build_export_options({"MASTER_PORT": "29500"}, {name: "1"})
    assert set(words[::2]) == {"-x"}
    assert (name in words[1::2]) is passed
    assert "MASTER_PORT" in words[1::2]
