"""The first second of a job: problems of a node's login, and their findings."""

from __future__ import annotations

import copy
import grp
import os
import pwd
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullmesh_start
import pytest
import records
from ansible.module_utils.fullmesh.survey import job_start, job_start_program
from causes.changes import fail_job_start, get_survey, make_job_login
from records import EL1
from records import UBUNTU1 as UB

from fullmesh.diagnose.run import run_cause_checks
from fullmesh.observed.survey import NO_HOME, NO_LOGIN, JobLogin
from fullmesh.verify.model import ClusterObservations

WANT: Any = {
    "python": sys.executable,
    "named": [{"kind": "master", "port": 29500}],
    "address": "127.0.0.1",
    "hosts": [{"address": "127.0.0.1", "names": ["localhost"]}],
    "job_user": "jobs",
}
ROOT = os.geteuid() == 0
LAUNCHER = """#!/bin/sh
case $1 in --dry-run) ;; *) touch /dev/full/started ;; esac
[ -z "$FULLMESH_WATCH" ] || { echo "[LA-106] not a number" >&2; exit 2; }
[ -z "$PRINTED" ] || export
echo /bin/true
"""
Begin = Callable[..., JobLogin]


@pytest.fixture
def tmp_path(open_folder: Path) -> Path:
    """Let the account of a job enter the folder of a test."""
    return open_folder


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """A login of an account, whose su is a script: it runs *before*, then the command that it was given."""
    (tmp_path / "env").write_text("NNODES=2\n")
    me = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(job_start, "ENV_FILE", str(tmp_path / "env"))
    monkeypatch.setattr(job_start, "PYTHON", sys.executable)
    (tmp_path / "launcher").write_text(LAUNCHER)
    (tmp_path / "launcher").chmod(0o755)
    monkeypatch.setattr(job_start, "LAUNCHER", str(tmp_path / "launcher"))
    monkeypatch.setattr(job_start, "PARTS", [str(tmp_path / "env")])
    monkeypatch.setattr(job_start.os, "geteuid", lambda: 0)
    monkeypatch.setattr(job_start.pwd, "getpwnam", lambda name: find_account(name, me))

    def run(before: str = "", env: str = "", **want: Any) -> JobLogin:
        if env:
            (tmp_path / "env").write_bytes(env.encode())
        su = tmp_path / "su"
        su.write_text(f'#!/bin/sh\n{before}\nexec /bin/sh -c "$5"\n')
        su.chmod(0o755)
        path = {"PATH": f"{tmp_path}:{job_start.LOGIN_ENVIRONMENT['PATH']}", "HOME": str(tmp_path)}
        monkeypatch.setattr(job_start, "LOGIN_ENVIRONMENT", {"LC_ALL": "C", **path})
        found: Any = job_start.survey_job_start({**WANT, **want})
        return found

    return run


def find_account(name: str, me: pwd.struct_passwd) -> pwd.struct_passwd:
    if name == "absent":
        raise KeyError(name)
    return pwd.struct_passwd((name, "x", me.pw_uid, me.pw_gid, "", "/", "/bin/sh"))


def steps_of(start: JobLogin) -> list[tuple[str, str, str]]:
    return [(one["step"], one["subject"], one["error"]) for one in start["steps"]]


def test_the_variable_that_the_launcher_refuses_has_its_place(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "launcher").write_text(
        LAUNCHER.replace("not a number", "'$FULLMESH_WATCH' is none")
    )
    (tmp_path / ".profile").write_text("export FULLMESH_WATCH=soon FULLMESH_ETCD=x\n")
    found = begin()["steps"]
    assert [(one["error"], one["source"]) for one in found] == [
        ("[LA-106] 'soon' is none", f"FULLMESH_WATCH in {tmp_path}/.profile:1")
    ]


def test_a_path_without_programs_is_named_with_its_place(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("# mine\nexport PATH=/nosuch\n")
    found = [one for one in begin()["steps"] if one["step"] == "value"]
    assert [(one["subject"], one["error"], one["source"]) for one in found] == [
        ("PATH", "names no folder with the program id", f"{tmp_path}/.profile:2")
    ]


def test_a_healthy_login_has_no_failed_step(begin: Begin, tmp_path: Path) -> None:
    found = begin("export GLOO_SOCKET_IFNAME=eth1 OTHER=1")
    assert (found["account"], found["known"], found["steps"]) == ("jobs", True, [])
    assert found["command"] == found["login"] == {"GLOO_SOCKET_IFNAME": "eth1"}
    assert found["file"] == {"NNODES": "2"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env", "launcher", "su"]


@pytest.mark.parametrize(
    ("before", "env", "step"),
    [
        (
            "export LD_PRELOAD=/nosuch/hook.so",
            "",
            ("preload", "/nosuch/hook.so", "cannot open shared object file"),
        ),
        ("", "NNODES=2\r\n", ("value", "NNODES", "ends with a carriage return")),
        ("export NCCL_ALGO='Ring '", "", ("value", "NCCL_ALGO", "begins or ends with a blank")),
        ("export NCCL_ALGO=\\'Ring\\'", "", ("value", "NCCL_ALGO", "keeps its quotes")),
        ("", "A='b\n", ("source", "{env}", "Unterminated quoted string")),
        ("export TMPDIR=/nosuch", "", ("write", "/nosuch", "ENOENT")),
        ("export TORCH_HOME=/dev/null/x", "", ("cache", "/dev/null/x", "ENOTDIR")),
        ("export NCCL_TOPO_FILE=/nosuch.xml", "", ("path", "NCCL_TOPO_FILE", "/nosuch.xml")),
        ("export PYTHONHOME=/nosuch", "", ("python", sys.executable, "PYTHONHOME=/nosuch")),
        ("echo expired >&2; exit 1", "", ("login", "the session", "expired")),
        ("exit 7", "", ("login", "the session", "exit status 7")),
        ("export PET_STANDALONE=1", "", ("value", "PET_STANDALONE", "is an option of torchrun")),
        (
            "export TORCH_DISTRIBUTED_DEBUG=LOUD",
            "",
            ("value", "TORCH_DISTRIBUTED_DEBUG", "is not one of OFF, INFO, DETAIL"),
        ),
        (
            "export TORCH_DISTRIBUTED_DEBUG=",
            "",
            ("value", "TORCH_DISTRIBUTED_DEBUG", "is not one of OFF, INFO, DETAIL"),
        ),
        (
            "export TORCH_DISTRIBUTED_DEBUG=' INFO'",
            "",
            ("value", "TORCH_DISTRIBUTED_DEBUG", "begins or ends with a blank"),
        ),
        ("", "GLOO_DEVICE_TRANSPORT=tcp\n", ("value", "GLOO_DEVICE_TRANSPORT", "is not one of")),
        ("export PYTHONHASHSEED=abc", "", ("python", sys.executable, "PYTHONHASHSEED=abc")),
        ("ulimit -f 0", "", ("limit", "FSIZE", "0")),
        ("umask 0777", "", ("limit", "umask", "0777")),
        ("export PATH=/nosuch:$PATH FULLMESH_WATCH=soon", "", ("launch", "{launcher}", "[LA-106]")),
    ],
)
def test_a_step_that_fails_is_named(
    begin: Begin, tmp_path: Path, before: str, env: str, step: tuple[str, str, str]
) -> None:
    kind, subject, error = step
    found = steps_of(begin(before, env))
    subject = subject.format(env=tmp_path / "env", launcher=tmp_path / "launcher")
    assert [one for one in found if one[:2] == (kind, subject) and error in one[2]], found


@pytest.mark.parametrize(
    "before",
    [
        "export TORCH_DISTRIBUTED_DEBUG=detail PET_STANDALONE=0 PET_NNODES=2",
        "export NCCL_DEBUG=WARN NCCL_ALGO= no_proxy='a, ' NCCL_SOCKET_IFNAME==eth1",
        "export TMPDIR=/tmp TORCH_HOME=/tmp/new/cache",
        "echo welcome; echo a warning >&2",
        "export PRINTED=1",
    ],
)
def test_a_harmless_environment_has_no_failed_step(begin: Begin, before: str) -> None:
    assert begin(before, "NNODES=2\nNCCL_DEBUG='WARN'\nexport A=1\n# a comment\n")["steps"] == []


@pytest.mark.parametrize(
    "before",
    [
        "export TORCH_HOME=/dev/null/x",
        "export LD_PRELOAD={path}",
        "export NCCL_TOPO_FILE={path} TMPDIR={path}",
    ],
)
def test_files_of_other_accounts_are_ignored(begin: Begin, tmp_path: Path, before: str) -> None:
    path = tmp_path / "theirs"
    path.mkdir(mode=0)
    assert begin(before.format(path=path), job_user="")["steps"] == []


@pytest.mark.skipif(
    not (ROOT and os.path.exists("/usr/bin/python3")), reason="only root can become another account"
)
def test_a_closed_folder_is_named_with_its_mode(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "opt"
    inner.mkdir(mode=0o700)
    python = inner / "python"
    monkeypatch.setattr(job_start, "PYTHON", "/usr/bin/python3")
    python.symlink_to("/usr/bin/python3")
    drop = 'exec setpriv --reuid 65534 --regid 65534 --clear-groups /bin/sh -c "$5"'
    found = begin(drop, python=str(python))
    assert steps_of(found)[0] == ("use", str(python), str(inner))
    assert found["steps"][0]["source"].startswith("mode 0700, owner 0")


@pytest.mark.skipif(
    not (ROOT and os.path.exists("/usr/bin/python3")), reason="only root can make device files"
)
def test_device_files_of_a_group_without_the_account_are_named(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the number of /dev/null. No group has the number 61000
    modes = {"kfd0": (0o660, 1), "kfd1": (0o660, 61000), "kfd2": (0o600, 1), "kfd3": (0o666, 0)}
    for name, (mode, group) in modes.items():
        os.mknod(tmp_path / name, stat.S_IFCHR, os.makedev(1, 3))
        (tmp_path / name).chmod(mode)
        os.chown(tmp_path / name, 0, group)
    (tmp_path / "kfd4").touch(mode=0o600)
    monkeypatch.setattr(job_start, "PYTHON", "/usr/bin/python3")
    monkeypatch.setattr(job_start, "DEVICES", [str(tmp_path / "kfd*")])
    drop = 'exec setpriv --reuid 65534 --regid 65534 {groups} /bin/sh -c "$5"'
    found = begin(drop.format(groups="--clear-groups"), python="/usr/bin/python3")
    closed = [one for one in steps_of(found) if one[0] == "device"]
    name = grp.getgrgid(1).gr_name
    assert closed == [
        ("device", str(tmp_path / "kfd0"), name),
        ("device", str(tmp_path / "kfd1"), ""),
        ("device", str(tmp_path / "kfd2"), ""),
    ]
    assert found["steps"][-1]["source"] == "mode 0600, owner 0, group 1"
    found = begin(drop.format(groups="--groups 1,61000"), python="/usr/bin/python3")
    assert [one[1] for one in steps_of(found) if one[0] == "device"] == [str(tmp_path / "kfd2")]


def test_a_dangling_link_does_not_end_the_other_checks(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("/nosuch/python")
    monkeypatch.setattr(job_start, "PARTS", [str(tmp_path / "link")])
    found = steps_of(begin("umask 0777"))
    assert ("launch", str(tmp_path / "link"), "no such file") in found


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("launcher", ("<<<<<<< HEAD\n", "is damaged: it starts nothing")),
        ("launcher", ("#!/bin/sh\n# of an earlier version\nexec job\n", "")),
        ("torchrun", ("", "is damaged: it is no program")),
        ("torchrun", ("#!/usr/bin/python3\nfrom torch.", "is damaged: invalid syntax")),
        ("torchrun", ("#!/usr/bin/python3\nfrom torch.run import ma", "it does nothing")),
        ("part.py", ("# Copyright (c) the authors of", "is damaged: it does nothing")),
        ("part.py", ("import os\nprint('", "is damaged: unterminated string literal")),
    ],
)
def test_damaged_programs_of_a_job_are_named(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: tuple[str, str]
) -> None:
    text, error = told
    (tmp_path / "launcher").write_text(LAUNCHER.replace("/bin/true", str(tmp_path / "torchrun")))
    monkeypatch.setattr(job_start, "PARTS", [str(tmp_path / "part.py")])
    (tmp_path / "part.py").write_text("import os\nprint(os.getpid())\n")
    (tmp_path / "torchrun").write_text("#!/usr/bin/python3\nimport sys\nsys.exit()\n")
    (tmp_path / "torchrun").chmod(0o755)
    (tmp_path / name).write_text(text)
    found = begin()["steps"]
    assert [one["subject"] for one in found] == [str(tmp_path / name)] * bool(error)
    assert all(one["step"] == "launch" and error in one["error"] for one in found)


def make_torch(folder: Path) -> Path:
    """Make the files that every torch has."""
    package = folder / "torch"
    for name in ("__init__.py", "version.py", "distributed/run.py", "lib/libtorch_python.so"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    (package / "distributed/__init__.py").touch()
    return package


def make_library(path: Path, texts: bytes, section: bytes = b".rodata") -> None:
    """Write an ELF file with one section of texts."""
    names = b"\0" + section + b"\0.names\0"
    head = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<Q", 64)
    head = head.ljust(58, b"\0") + struct.pack("<HHH", 64, 2, 1)
    start = 64 + 2 * 64
    rows = [(1, start, len(texts)), (2 + len(section), start + len(texts), len(names))]
    table = b"".join(
        struct.pack("<IIQQQQ", at, 1, 0, 0, offset, size).ljust(64, b"\0")
        for at, offset, size in rows
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + table + texts + names)


@pytest.mark.parametrize(("word", "is_named"), [("TCP_TLS", True), ("IBVERBS", False)])
def test_a_transport_that_torch_was_built_without_is_named(
    begin: Begin, tmp_path: Path, word: str, is_named: bool
) -> None:
    make_library(make_torch(tmp_path) / "lib/libtorch_cpu.so", b"\0TCP_TLSX\0TCP\0IBVERBS\0")
    found = steps_of(begin(f"export PYTHONPATH={tmp_path} GLOO_DEVICE_TRANSPORT={word}"))
    wanted = ("value", "GLOO_DEVICE_TRANSPORT", "is a transport that this torch does not have")
    assert (wanted in found) == is_named


NCCL_TEXTS = b"\0NCCL_SOCKET_IFNAME\0NCCL_IB_HCA\0NCCL_DEBUG\0set by NCCL_IB_TC\0"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"),
        ("GLOO_SOCKET_IFACE_NAME", "GLOO_SOCKET_IFNAME"),
        ("MASTER_PROT", "MASTER_PORT"),
        ("NCCL_IB_TC", ""),
        ("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", ""),  # of a plugin
        ("NCCL_VERSION", ""),
    ],
)
def test_a_variable_that_no_library_reads_is_named(
    begin: Begin, tmp_path: Path, name: str, near: str
) -> None:
    make_library(tmp_path / "libnccl.so.2", NCCL_TEXTS)
    found = steps_of(begin(f"export LD_LIBRARY_PATH={tmp_path} {name}=1"))
    assert [one for one in found if one[0] == "name"] == [("name", name, near)] * bool(near)


def test_a_variable_in_a_file_of_nccl_is_compared_and_has_its_place(
    begin: Begin, tmp_path: Path
) -> None:
    make_library(tmp_path / "libnccl.so.2", NCCL_TEXTS)
    (tmp_path / ".nccl.conf").write_text("NCCL_DEBUG=INFO\nNCCL_IBHCA=mlx5_0\n")
    found = begin(f"export LD_LIBRARY_PATH={tmp_path}")["steps"]
    assert [(one["subject"], one["source"]) for one in found if one["step"] == "name"] == [
        ("NCCL_IBHCA", f"{tmp_path}/.nccl.conf:2")
    ]


@pytest.mark.parametrize(
    "damage", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 100, b"\x7fELF\x02\x01" + bytes(90)]
)
def test_a_damaged_library_says_nothing_about_names(
    begin: Begin, tmp_path: Path, damage: bytes
) -> None:
    (tmp_path / "libnccl.so.2").write_bytes(damage)
    found = begin(f"export LD_LIBRARY_PATH={tmp_path} NCCL_SOCKET_IFNAM=eth1; umask 0777")
    assert [one[0] for one in steps_of(found)] == ["limit"]  # and the other checks go on


def test_a_job_needs_neither_env_nor_timeout(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("cat", "id", "find", "mkdir", "mktemp"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "/nosuch")
    found = begin(f"export PATH={tmp_path}/bin GLOO_SOCKET_IFNAME=eth1")
    assert found["steps"] == []
    assert found["command"] == {"GLOO_SOCKET_IFNAME": "eth1"}


def test_a_module_that_hides_torch_is_named_and_a_folder_of_data_is_not(
    begin: Begin, tmp_path: Path
) -> None:
    make_torch(tmp_path / "own")
    (tmp_path / "data" / "torch").mkdir(parents=True)
    own = f"{tmp_path}/data:{tmp_path}/own"
    assert begin(f"export PYTHONPATH={own}")["steps"] == []
    (tmp_path / "torch.py").touch()
    found = steps_of(begin(f"export PYTHONPATH={tmp_path}:{own}"))
    assert found[0] == (
        "import",
        f"{tmp_path}/torch.py",
        "is another module of the same name, not torch",
    )


def test_libraries_that_torch_lacks_are_named(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # /etc/profile sets PATH
    monkeypatch.setattr(job_start, "choose_login_shell", lambda _who: ["/bin/sh"])
    libraries = make_torch(tmp_path / "site") / "lib"
    ldd = tmp_path / "ldd"
    ldd.write_text(
        "#!/bin/sh\necho 'libc.so.6 => /lib/libc.so.6'; echo 'libgomp.so.1 => not found'\n"
    )
    ldd.chmod(0o755)
    library = libraries / "libtorch_python.so"
    found = steps_of(begin(f"export PYTHONPATH={tmp_path}/site"))
    assert found == [("load", str(library), "libgomp.so.1 => not found")]
    preload = (
        "ERROR: ld.so: object '/x' from LD_PRELOAD cannot be preloaded (cannot open): ignored."
    )
    ldd.write_text(f'#!/bin/sh\necho "{preload}"\n')
    assert begin(f"export PYTHONPATH={tmp_path}/site")["steps"] == []
    about = tmp_path / "site/torch-9.dist-info/METADATA"
    about.parent.mkdir()
    about.write_text('Requires-Dist: nosuch-part>=4\nRequires-Dist: other; extra == "gpu"\n')
    found = steps_of(begin(f"export PYTHONPATH={tmp_path}/site"))
    assert found[0] == ("import", "nosuch-part", "no such module")
    library.unlink()
    found = steps_of(begin(f"export PYTHONPATH={tmp_path}/site"))
    assert found == [("import", str(library), "no such file")]


NAMES = """register_log("dynamo", ["torch._dynamo"])
register_artifact(
    "guards",
    "A text.",
)
"""


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("TORCH_LOGS=+nosuch", "has +nosuch, with which torch ends"),
        ("TORCH_LOGS='dynamo, -guards,json.tool,all'", ""),
        ("TORCH_LOGS=help", "has help, with which torch ends"),
        ("TORCH_LOGS_OUT=/nosuch/log", "names a file that cannot be written"),
    ],
)
def test_logs_that_torch_does_not_know_are_named(
    begin: Begin, tmp_path: Path, setting: str, error: str
) -> None:
    package = make_torch(tmp_path / "site")
    (package / "_logging").mkdir()
    (package / "_logging/_registrations.py").write_text(NAMES)
    found = begin(f"export PYTHONPATH={tmp_path}/site {setting}")["steps"]
    name = setting.partition("=")[0]
    assert [one["subject"] for one in found if one["step"] == "value"] == [name] * bool(error)
    assert all(error in one["error"] for one in found if one["step"] == "value")


def test_a_virtual_environment_without_its_file_is_named(begin: Begin, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    package = make_torch(venv / "lib/python3.12/site-packages")
    found = begin(python=str(venv / "bin/python"))["steps"]
    assert [(one["step"], one["subject"]) for one in found] == [
        ("import", str(venv / "pyvenv.cfg"))
    ]
    assert found[0]["error"] == f"no such file, so Python does not find {package}"


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("version.py", b"", "is empty, and pip installed 5 bytes"),
        ("version.py", b"<<<<<<< HEAD", "is damaged: invalid syntax"),
        ("version.py", b"x = 12", ""),
        ("version.py", b"x=1\n", ""),
        ("version.py", b"x=1", "is damaged: it has 3 bytes, and pip installed 5"),
        (
            "lib/libc10.so",
            b"\x7fELF" + bytes(36) + (900).to_bytes(8, "little") + bytes(60),
            "has 108 bytes",
        ),
        ("lib/libc10.so", b"\x7fELF" + bytes(36) + (90).to_bytes(8, "little") + bytes(60), ""),
        ("lib/libc10.so", None, "no such file"),
        ("../sympy/__init__.py", None, "no such file"),
        ("../sympy/deep/part.py", None, ""),
    ],
)
def test_damaged_files_of_torch_and_its_packages_are_named(
    begin: Begin, tmp_path: Path, name: str, data: bytes | None, error: str
) -> None:
    package = make_recorded_torch(tmp_path / "site")
    if data is None:
        (package / name).unlink()
    else:
        (package / name).write_bytes(data)
    found = [
        one
        for one in begin(f"export PYTHONPATH={tmp_path}/site")["steps"]
        if one["step"] == "import"
    ]
    path = str(package.parent / name[3:] if name.startswith("../") else package / name)
    assert [one["subject"] for one in found] == [path] * bool(error)
    assert all(error in one["error"] for one in found)


@pytest.mark.skipif(
    not (ROOT and os.path.exists("/usr/bin/python3")), reason="only root can become another account"
)
@pytest.mark.parametrize("name", ["torch/lib/libc10.so", "sympy"])
def test_closed_files_of_torch_and_its_packages_are_named_once(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(job_start, "PYTHON", "/usr/bin/python3")
    make_recorded_torch(tmp_path / "site")
    (tmp_path / "site" / name).chmod(0o600)
    drop = f'export PYTHONPATH={tmp_path}/site; exec setpriv --reuid 65534 --regid 65534 --clear-groups /bin/sh -c "$5"'
    found = begin(drop, python="/usr/bin/python3")["steps"]
    assert [one["error"] for one in found if one["subject"].startswith(str(tmp_path / "site"))] == [
        str(tmp_path / "site" / name)
    ]


def make_recorded_torch(site: Path) -> Path:
    """Make the files of torch and a package that it needs, with pip's list of them."""
    package = make_torch(site)
    (package / "lib/libc10.so").write_bytes(bytes(200))
    (package.parent / "sympy/deep").mkdir(parents=True)
    for path in ("__init__.py", "deep/part.py"):
        (package.parent / "sympy" / path).write_text("x = 1")
    (package / "version.py").write_text("x = 1")
    for distribution, listed in (
        ("torch", ("torch/version.py", "torch/lib/libc10.so")),
        ("sympy", ("sympy/__init__.py", "sympy/deep/part.py")),
    ):
        folder = package.parent / f"{distribution}-9.dist-info"
        folder.mkdir()
        rows = [f"{one},sha256=x,{(package.parent / one).stat().st_size}\n" for one in listed]
        (folder / "RECORD").write_text("".join(rows))
    (package.parent / "torch-9.dist-info/METADATA").write_text("Requires-Dist: sympy>=1\n")
    return package


def test_the_command_of_a_profile_that_a_login_waits_for_is_named(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_start, "SESSION", 1.0)
    monkeypatch.setattr(job_start, "SHELL_FILES", (str(tmp_path / "bashrc"),))
    (tmp_path / "bashrc").write_text("# sleep well\nnot-sleep 3\n\nsleep 60 # a nap\n")
    told: Any = begin("sleep 60; true")
    start, why = told
    assert why == "the login of jobs did not end in time"
    assert start["steps"] == [
        {
            "step": "slow",
            "subject": "sleep 60",
            "error": "the login",
            "source": f"{tmp_path}/bashrc:4",
        }
    ]
    assert job_start.WAITERS.match("-bash")


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        ("sh: 1: Cannot fork", "nproc"),
        ("su: failed to execute /bin/sh: Resource temporarily unavailable", "nproc"),
        ("su: cannot open session: Permission denied", "maxlogins"),
        ("MemoryError", "data"),
    ],
)
def test_a_login_that_a_limit_of_pam_ends_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, limit: str
) -> None:
    (tmp_path / "x.conf").write_text(f"# * hard {limit} 9\n* hard {limit} 1\n")
    monkeypatch.setattr(job_start.glob, "glob", lambda _pattern: [str(tmp_path / "x.conf")])
    step = job_start.describe_failed_login("/bin/sh", [b""], error, 2)
    assert step["error"].startswith(f"{error} (limit ")
    assert step["error"].endswith(f" of {tmp_path}/x.conf:2)")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("!:20000:0:99999:7::1:", " (the account has expired)"),
        ("!:0:0:99999:7:::", " (its password has to be changed)"),
        ("!:20000:0:99999:7::30000:", ""),
        ("!:20000:0:99999:7:::", ""),
        ("", ""),
    ],
)
def test_an_account_that_has_expired_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: str, why: str
) -> None:
    (tmp_path / "shadow").write_text(f"root:*:0:0:99999:7:::\njobs:{fields}\n")
    monkeypatch.setattr(job_start, "SHADOW", str(tmp_path / "shadow"))
    assert job_start.describe_expiry("jobs", 20800.5) == why


def test_a_login_that_the_loader_ends_names_the_file_of_the_variable(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pam").write_text("# a file\nLD_LIBRARY_PATH DEFAULT=/nosuch\n")
    monkeypatch.setattr(job_start, "PAM_FILES", (str(tmp_path / "pam"),))
    text = "python: error while loading shared libraries: /nosuch/libz.so.1: file too short"
    (step,) = begin(f"echo '{text}' >&2; exit 127")["steps"]
    assert step == {
        "step": "load",
        "subject": "/nosuch/libz.so.1",
        "error": "file too short",
        "source": f"{tmp_path}/pam:2",
    }


def test_an_account_that_is_not_there_is_named(begin: Begin) -> None:
    assert steps_of(begin(job_user="absent")) == [
        ("login", "absent", "no such account on this node")
    ]


@pytest.mark.parametrize("before", ["sleep 60", "yes", "yes >&2", "trap '' TERM; sleep 60"])
def test_a_login_that_hangs_or_floods_costs_a_limited_time(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setattr(job_start, "SESSION", 0.3)
    missed: Any = begin(before)
    assert missed == (None, "the login of jobs did not end in time")


@pytest.mark.parametrize(
    "told",
    [
        {"steps": [{"step": "format disk", "subject": "", "error": ""}, 7, {}]},
        {"steps": 9, "login": [], "file": {"NNODES": ["2"], 7: 8}, "sources": "x"},
        {"steps": [{"step": "use", "subject": "x\x1b[2J" * 999, "error": None}] * 999},
    ],
)
def test_output_of_the_account_is_limited(told: dict[str, Any]) -> None:
    found = job_start.read_steps(told.get("steps"))
    assert len(found) <= job_start.STEPS_MOST
    for one in found:
        assert one["step"] == "use"
        assert one["subject"].isprintable()
        assert len(one["subject"]) <= job_start_program.TEXT_MOST
    for part in ("login", "file", "sources"):
        values = job_start.read_values(told.get(part))
        assert all(type(name) is type(value) is str for name, value in values.items())


def judge_change(
    change: Callable[[ClusterObservations], None], *, manifest: bool = True
) -> list[Any]:
    seen = copy.deepcopy(records.build_cluster())
    change(seen)
    seen.nodes[UB]["node"]["facts"]["survey"]["manifest"] = manifest
    return run_cause_checks(seen)


def test_an_override_on_all_nodes_may_be_meant() -> None:
    def everywhere(seen: ClusterObservations) -> None:
        for node in seen.nodes.values():
            node["node"]["facts"]["survey"]["job_start"] = make_job_login(
                command={"NCCL_SOCKET_IFNAME": "eth0"}, file={"NCCL_SOCKET_IFNAME": "=eth1"}
            )

    assert [one.severity for one in judge_change(everywhere)] == ["warning", "warning"]


@pytest.mark.parametrize(
    ("name", "severity"), [("NPROC_PER_NODE", "warning"), ("MASTER_PORT", "error")]
)
def test_another_number_of_ranks_on_a_node_is_a_warning(name: str, severity: str) -> None:
    (finding,) = judge_change(fail_job_start(login={name: "7"}, file={name: "1"}))
    assert (finding.code, finding.severity) == ("VC-321", severity)


def test_values_with_the_same_effect_are_no_finding() -> None:
    same = fail_job_start(
        command={"NCCL_SOCKET_IFNAME": "eth1", "NCCL_DEBUG": "INFO", "MASTER_PORT": "29500"},
        file={"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_DEBUG": "WARN", "MASTER_PORT": "29500"},
    )
    assert judge_change(same) == []
    assert judge_change(fail_job_start()) == []


@pytest.mark.parametrize(
    ("step", "more", "severity"),
    [
        (("use", "/etc/passwd", "/etc/passwd", "mode 0600"), {}, "warning"),
        (("use", "/dev/null", "/dev/null", "mode 0600"), {}, "warning"),
        (("use", "/opt/fullmesh/hook/sitecustomize.py", "/opt/fullmesh/hook"), {}, "warning"),
        (("launch", "/opt/fullmesh/hook/sitecustomize.py", "no such file"), {}, "warning"),
        (("launch", "/opt/fullmesh/bin/fullmesh-torchrun", "[LA-106] x"), {}, "error"),
        (("use", "/etc/hosts", "/etc/hosts"), {}, "error"),
        # nothing says that jobs do not run as root
        (("use", "/etc/hosts", "/etc/hosts"), {"known": False}, "warning"),
        (("preload", "/nosuch.so", "cannot open"), {}, "warning"),
        (("import", "/venv/site-packages/jinja2/__init__.py", "is empty"), {}, "warning"),
        (("import", "/venv/site-packages/sympy/__init__.py", "is empty"), {}, "error"),
        (("value", "NCCL_DEBUG", "ends with a carriage return"), {}, "warning"),
        (("value", "NNODES", "ends with a carriage return"), {}, "error"),
        (("cache", "/cache", "EACCES"), {}, "warning"),
    ],
)
def test_only_what_stops_a_job_is_an_error(
    step: tuple[str, ...], more: dict[str, Any], severity: str
) -> None:
    (finding,) = judge_change(fail_job_start(step, **more), manifest=False)
    assert (finding.severity, finding.node) == (severity, UB)


def test_a_name_that_root_cannot_resolve_either_is_another_cause() -> None:
    assert judge_change(fail_job_start(("resolve", "nosuch", "Name or service not known"))) == []


@pytest.mark.parametrize("interface", ["eth9", "eth0"])
def test_a_variable_of_the_accounts_own_profile_is_judged(interface: str) -> None:
    world = copy.deepcopy(records.load_world("healthy"))
    get_survey(world)["environment"].update(values={}, files={})
    get_survey(world)["job_start"] = make_job_login(
        login={"GLOO_SOCKET_IFNAME": interface},
        sources={"GLOO_SOCKET_IFNAME": "/home/jobs/.profile:9"},
    )
    (finding,) = records.diagnose_answers(world)["findings"]
    assert finding["code"] == {"eth9": "DG-120", "eth0": "DG-189"}[interface]
    assert "/home/jobs/.profile:9" in finding["fix"]


@pytest.mark.parametrize(("nodes", "codes"), [((UB,), ["DG-189"]), ((EL1, UB), [])])
def test_without_a_plan_the_network_that_all_nodes_use_is_meant(
    nodes: tuple[str, ...], codes: list[str]
) -> None:
    world = copy.deepcopy(records.load_world("healthy"))
    world["plan"].update(guessed=True, assumed=True)
    for name in nodes:
        values = get_survey(world, name)["environment"]["values"]
        values["GLOO_SOCKET_IFNAME"] = {"value": "eth0", "source": "/etc/environment"}
    found = [one["code"] for one in records.diagnose_answers(world)["findings"]]
    assert [code for code in found if code == "DG-189"] == codes


def test_a_login_that_overrides_the_plan_explains_what_follows() -> None:
    world = copy.deepcopy(records.load_world("healthy"))
    get_survey(world)["job_start"] = make_job_login(
        command={"GLOO_SOCKET_IFNAME": "eth9"}, file={"GLOO_SOCKET_IFNAME": "eth1"}
    )
    (finding,) = records.diagnose_answers(world)["findings"]
    assert finding["code"] == "VC-321"
    assert [one["code"] for one in finding["follows"]] == ["DG-120"]


def test_the_file_and_line_of_a_value_are_named(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("# NCCL_ALGO=x\nexport A=1 NCCL_ALGO='Ring '; B=2\n")
    found = begin()
    assert found["sources"] == {"NCCL_ALGO": f"{tmp_path}/.profile:2"}
    (step,) = found["steps"]
    assert (step["subject"], step["source"]) == ("NCCL_ALGO", f"{tmp_path}/.profile:2")
    assert ("NCCL_ALGO" in found["login"], "NCCL_ALGO" in found["command"]) == (True, False)


def check_start(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ``fullmesh-torchrun --check`` as the launcher starts it, with a torch that imports nothing."""
    (make_torch(folder / "site") / "lib/libtorch_python.so").write_text("no library")
    program = Path(fullmesh_start.__file__)
    return subprocess.run(
        [sys.executable, "-B", "-E", "-s", "-S", str(program), sys.executable, str(folder / "env")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "site"), **environment},
    )


def test_a_healthy_start_exits_with_0(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("NNODES=2\nMASTER_PORT=29500\nFULLMESH_ADDRESS=127.0.0.1\n")
    done = check_start(tmp_path, {"NCCL_DEBUG": "INFO", "MASTER_PORT": "29500"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("all steps succeed\n"), done.stdout


def test_an_account_without_a_name_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
    assert fullmesh_start.find_account_name() == "uid 4000000000"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"LD_PRELOAD": "/nosuch/hook.so"}, "[VC-314] every process prints an error of the loader"),
        ({"TMPDIR": "/nosuch"}, "[VC-316] you cannot write to /nosuch: ENOENT"),
        ({"NCCL_ALGO": "Ring "}, "[VC-315] NCCL_ALGO begins or ends with a blank"),
        ({"NNODES": "4"}, "[VC-321] NNODES has the value '4', and "),
        ({"PYTHONHOME": "/nosuch"}, "[VC-319] "),
    ],
)
def test_a_start_that_fails_exits_with_1(
    tmp_path: Path, environment: dict[str, str], words: str
) -> None:
    (tmp_path / "env").write_text("NNODES=2\n")
    done = check_start(tmp_path, environment)
    assert (done.returncode, words in done.stdout) == (1, True), done.stdout + done.stderr


def test_a_torch_that_cannot_be_imported_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("NNODES=2\n")
    broken = tmp_path / "more/torch/__init__.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("\nimport nosuch_part\n")
    done = check_start(tmp_path, {"PYTHONPATH": str(tmp_path / "more")})
    assert f"No module named 'nosuch_part'. Fix: correct {broken}:2" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 'the disk is broken' >&2", "the disk is broken"),
        ('echo "$3" | base64 -d | sed \'s/.*"mark": "\\([0-9a-f]*\\).*/\\1{/\'', "damaged"),
        ("exec sleep 60", "did not end within 0.2 s"),
    ],
)
def test_an_interpreter_without_an_answer_is_named_with_its_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    words: str,
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{text}\n")
    python.chmod(0o755)
    monkeypatch.setattr(fullmesh_start, "STEP_SECONDS", 0.2)
    monkeypatch.setattr(sys, "executable", str(python))
    assert fullmesh_start.main([str(python), str(tmp_path / "env")]) == fullmesh_start.UNCHECKED
    assert f"Check: {python} -V" in (errors := capsys.readouterr().err)
    assert words in errors


@pytest.mark.skipif(not os.access("/bin/bash", os.X_OK), reason="only bash reads .bashrc there")
def test_a_bashrc_that_ends_commands_of_ssh_is_named(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = pwd.getpwuid(os.geteuid())
    account = pwd.struct_passwd(("jobs", "x", me.pw_uid, me.pw_gid, "", "/", "/bin/bash"))
    monkeypatch.setattr(job_start.pwd, "getpwnam", lambda _: account)
    (tmp_path / ".bashrc").write_text("export NCCL_DEBUG=INFO\n")
    assert begin()["command"] == {"NCCL_DEBUG": "INFO"}
    (tmp_path / ".bashrc").write_text("exit 1\n")
    assert [one["source"] for one in begin()["steps"]] == ["~/.bashrc"]


@pytest.mark.parametrize(
    ("shell", "error"),
    [
        ("/bin/bash", ""),
        ("", ""),
        ("/usr/sbin/nologin", NO_LOGIN),
        ("/bin/nosuch", "the shell of the account does not exist"),
    ],
)
def test_a_shell_that_refuses_logins_is_a_step(shell: str, error: str) -> None:
    assert [one["error"] for one in job_start.describe_unusable_shell(shell)] == [error] * bool(
        error
    )


@pytest.mark.parametrize(
    ("everywhere", "others", "named"),
    [(False, "jobs", [UB]), (True, "jobs", []), (False, "service", [])],
)
@pytest.mark.parametrize("error", [NO_LOGIN, NO_HOME])
def test_an_account_without_a_login_on_all_its_nodes_is_that_of_a_service(
    error: str, everywhere: bool, others: str, named: list[str]
) -> None:
    step = ("login", "/usr/sbin/nologin", error)

    def change(seen: ClusterObservations) -> None:
        for name, node in seen.nodes.items():
            steps = [step] if everywhere or name == UB else []
            account = "jobs" if name == UB else others
            start = make_job_login(*steps, account=account)
            node["node"]["facts"]["survey"]["job_start"] = start

    assert [one.node for one in judge_change(change) if one.code == "VC-319"] == named
