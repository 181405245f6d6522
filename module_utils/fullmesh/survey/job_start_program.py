# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The program that makes the first steps of a job, as the job's account and in its interpreter.

A text, because the interpreter of jobs need not be the one that runs the survey. Standard library only: on nodes,
fullmesh-torchrun --check runs it too (node_programs/fullmesh_start_program.py is a link to this file).
"""

from __future__ import annotations

import base64
import glob
import json
import os
import re
import stat
from typing import TypedDict

TEXT_MOST = 300
LAUNCHER = "/opt/fullmesh/bin/fullmesh-torchrun"
# Files that the launcher's command runs.
PARTS = [
    *(f"/opt/fullmesh/lib/fullmesh_{one}.py" for one in ("watch", "watch_look", "watch_judge")),
    *(f"/opt/fullmesh/lib/fullmesh_{one}.py" for one in ("sockets", "foreign_text")),
    "/opt/fullmesh/hook/sitecustomize.py",
]
# The device files of GPUs and RDMA interfaces.
DEVICES = [
    "/dev/nvidia[0-9]*",
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/kfd",
    "/dev/dri/renderD*",
    "/dev/infiniband/uverbs*",
    "/dev/infiniband/rdma_cm",
]
GROUP_USES, OTHERS_USE = 0o060, 0o006
# Variables that matter to a job.
VARIABLES = (
    r"(MASTER_|WORLD_SIZE|RANK|NODE_RANK|NNODES|NPROC|GROUP_RANK|LOCAL_|GLOO_|NCCL_|TORCH_|TP_|UCX_|FI_|FULLMESH_"
    r"|RCCL_|HCCL_|ASCEND_|UCC_|HSA_|HIP_VISIBLE|ROCR_VISIBLE"
    r"|OMP_NUM|CUDA_VISIBLE|LD_PRELOAD|LD_LIBRARY|http_proxy|https_proxy|all_proxy|no_proxy"
    r"|HTTP_PROXY|HTTPS_PROXY|ALL_PROXY|NO_PROXY)"
)
# The loader's own messages (ld.so(8)).
PRELOAD = re.compile(
    r"ERROR: ld\.so: object '([^']{0,300})' from (\S{1,100}) cannot be preloaded \(([^)]{0,200})\)"
)
NO_LIBRARY = re.compile(
    r"error while loading shared libraries: ([^:\s]{1,300}): ([^\n]{1,200})"
    r"|symbol lookup error: ([^:\s]{1,300}): ([^\n]{1,200})"
)


class StartSettings(TypedDict):
    """The settings of the program.

    Attributes:
        mark: surrounds the answer.
        known: whether the account is the one of jobs.
        python: the interpreter of jobs.
        names: to resolve.
        address: of this node, to bind the ports to.
        ports: to bind.
        env_file: the node's environment file.
        launcher: to run with --dry-run.
        parts: files that the launcher's command runs.
        devices: patterns of the device files of jobs.
        variables: a pattern of the names that matter to a job.
        places: more files that set variables.
        locked: the bytes that a job locks if there is RDMA. 0: not compared.
    """

    mark: str
    known: bool
    python: str
    names: list[str]
    address: str
    ports: list[int]
    env_file: str
    launcher: str
    parts: list[str]
    devices: list[str]
    variables: str
    places: list[str]
    locked: int


def find_device_groups() -> tuple[list[int], list[str]]:
    """Return the groups that may use the node's accelerators, and the accelerators that only root may use."""
    groups, shut = set(), []
    for path in sorted(found for pattern in DEVICES for found in glob.glob(pattern)):
        try:
            info = os.stat(path)
        except OSError:  # it was there a moment ago
            continue
        if not stat.S_ISCHR(info.st_mode) or info.st_mode & OTHERS_USE == OTHERS_USE:
            continue
        if info.st_mode & GROUP_USES == GROUP_USES and info.st_gid:
            groups.add(info.st_gid)
        else:
            shut.append(path)
    return sorted(groups), shut


def encode_settings(settings: StartSettings) -> str:
    """Return the settings as the program's argument."""
    return base64.b64encode(json.dumps(settings).encode()).decode()


def clean_text(value: object) -> str:
    """Return a foreign text in one printable line of limited length."""
    text = str(value)[:TEXT_MOST]
    return "".join(one if one.isprintable() else " " for one in text).strip()


def find_loader_errors(text: str, sources: dict[str, str]) -> list[dict[str, str]]:
    """Return the steps that the dynamic loader could not make, once each.

    Args:
        text: the errors of the session.
        sources: where the loader's variables are set.
    """
    found: dict[str, dict[str, str]] = {}
    for path, source, why in PRELOAD.findall(text):
        place = sources.get(source) or source
        found[path] = {"step": "preload", "subject": path, "error": why, "source": place}
    for library, why, program, symbol in NO_LIBRARY.findall(text):
        held, error, place = library or program, why or symbol, sources.get("LD_LIBRARY_PATH", "")
        found[held] = {"step": "load", "subject": held, "error": error, "source": place}
    return list(found.values())


# Values with which torch ends. Both programs of a job's start have this text: of a login and of the unit.
VALUES = r"""
import importlib.util, os, re, struct
CONSTANTS_MOST = 64 << 20
CHOICES = {"TORCH_DISTRIBUTED_DEBUG": ("OFF", "INFO", "DETAIL"),
           "GLOO_DEVICE_TRANSPORT": ("TCP", "TCP_TLS", "UV", "IBVERBS")}
# Options of torchrun that change what a job is. The launcher sets the others.
OPTIONS = ("PET_STANDALONE", "PET_RUN_PATH", "PET_MODULE", "PET_NO_PYTHON")

def read_constants(path):
    # the texts of a library (ELF, 64 bits, little-endian), without its code for GPUs, which is far larger
    with open(path, "rb") as stream:
        head = stream.read(64)
        if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
            return b""
        stream.seek(struct.unpack_from("<Q", head, 40)[0])
        size, count, own = struct.unpack_from("<HHH", head, 58)
        table = stream.read(min(size * count, 1 << 20))
        rows = [struct.unpack_from("<IIQQQQ", table, one) for one in range(0, len(table) - 39, max(size, 40))]
        stream.seek(rows[own][4])
        names = stream.read(min(rows[own][5], 65536))
        for name, _, _, _, start, length in rows:
            if names[name:name + 8] == b".rodata\0":
                stream.seek(start)
                return stream.read(min(length, CONSTANTS_MOST))
    return b""

def lacks_transport(package, word):
    # the build of torch decides which transports Gloo has
    try:
        texts = read_constants(os.path.join(package, "lib", "libtorch_cpu.so"))
    except (OSError, LookupError, struct.error):
        texts = b""
    return b"\0TCP\0" in texts and b"\0%s\0" % word.encode() not in texts

OTHER_TORCH = "is another module of the same name, not torch"

def find_torch(folders):
    # Python takes the first package or module of a name, and a folder without __init__.py only if there is neither
    paths = [os.path.join(one, "torch") for one in dict.fromkeys(folders) if one]
    for path in paths:
        if os.path.exists(os.path.join(path, "__init__.py")):
            return path
        if os.path.isfile(path + ".py"):
            return path + ".py"
    return next(filter(os.path.lexists, paths), "")

def find_odd_form(value):
    if value.endswith("\r"):
        return "ends with a carriage return"
    if value != value.strip():
        return "begins or ends with a blank"
    return "keeps its quotes" if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0] else ""

def find_forbidden_value(name, value, package):
    if name in OPTIONS and value not in ("", "0"):
        return "is an option of torchrun for every job"
    if name not in CHOICES:
        return ""
    plain = value.strip("'\" \r")
    if (plain if name.startswith("GLOO") else plain.upper()) not in CHOICES[name]:
        return "is not one of " + ", ".join(CHOICES[name])
    if plain == "TCP" or not name.startswith("GLOO") or not lacks_transport(package, plain):
        return find_odd_form(value)
    return "is a transport that this torch does not have"

def find_wrong_logs(values, package):
    # torch ends if it does not know one of the names, or cannot write the file
    with open(os.path.join(package, "_logging", "_registrations.py"), errors="replace") as stream:
        known = set(re.findall(r"register_(?:log|artifact)\(\s*[\"']([\w.]+)", stream.read(262144)))
    for name in filter(None, re.sub(r"\s", "", values.get("TORCH_LOGS", "")).split(",")):
        word = name.lstrip("+-")
        if word == "all" or word in known:
            continue
        try:
            held = importlib.util.find_spec(word.partition(".")[0])
        except ValueError:
            held = None
        if held is None or word == "help":
            yield "TORCH_LOGS", "has %s, with which torch ends" % name
    path = values.get("TORCH_LOGS_OUT", "")
    if path and not os.access(path if os.path.exists(path) else os.path.dirname(path) or ".", os.W_OK):
        yield "TORCH_LOGS_OUT", "names a file that cannot be written"
"""

PROGRAM = (
    VALUES
    + r"""
import ast, base64, difflib, errno, glob, grp, importlib.util, json, os, re, resource, socket, stat, subprocess, sys
import tempfile, threading, time
want = json.loads(base64.b64decode(sys.argv[1]))
steps, home = [], os.path.expanduser("~")
CALLED = re.compile(want["variables"])
PLACES = ["/etc/environment", "/etc/security/pam_env.conf", "/etc/profile", "/etc/bash.bashrc", "/etc/bashrc",
          home + "/.pam_environment", home + "/.profile", home + "/.bash_profile", home + "/.bash_login",
          home + "/.bashrc", home + "/.zshenv", home + "/.zprofile"]
FILES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_TUNER_CONFIG_FILE")
CACHES = ("XDG_CACHE_HOME", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR",
          "HF_HOME", "CUDA_CACHE_PATH")

def note(step, subject, error, source=""):
    steps.append({"step": step, "subject": subject, "error": error, "source": source})

def name_error(exc):
    return errno.errorcode.get(exc.errno or 0, type(exc).__name__)

PROFILES = "/etc/profile.d"
try:
    PLACES[3:3] = sorted(os.path.join(PROFILES, one) for one in os.listdir(PROFILES))[:200]
except OSError:
    pass

PLACES += want["places"]

# export A=1 B=2 in a shell, A DEFAULT=1 in pam_env.conf, setenv A 1 in csh
ASSIGNED = re.compile(r"(?:^|[\s;])(?:setenv\s+(\w+)\s|(\w+)(?:\s+(?:DEFAULT|OVERRIDE))?=)", re.ASCII)

def list_sources(places):
    # the last place that sets a variable is the one that counts
    found = {}
    for path in places:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as stream:
                text = stream.read(262144).decode("utf-8", "replace")
        except OSError:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if not line.lstrip().startswith("#"):
                for match in ASSIGNED.finditer(line[:4000]):
                    found[match.group(1) or match.group(2)] = "%s:%d" % (path, number)
    return found

sources = list_sources(PLACES)

def find_closed(path, mode):
    # the folders of a link's target come first: it is they that most often are closed. A link to nothing is not closed.
    for whole in dict.fromkeys((os.path.realpath(path), path)):
        parts = whole.split("/")
        for count in range(2, len(parts)):
            folder = "/".join(parts[:count])
            if os.path.exists(folder) and not os.access(folder, os.X_OK):
                return folder
        if os.path.exists(whole) and not os.access(whole, mode):
            return whole
    return ""

def note_closed(path, mode):
    closed = find_closed(path, mode)
    if closed:
        held = os.stat(closed)
        note("use", path, closed, "mode %04o, owner %d, group %d" % (held.st_mode & 0o7777, held.st_uid, held.st_gid))
    return bool(closed)

def find_venv_file():
    # if it exists, Python starts only if it can read it
    return os.path.join(os.path.dirname(os.path.dirname(want["python"])), "pyvenv.cfg")

def check_use():
    needed = [(want["python"], os.R_OK | os.X_OK), (want["env_file"], os.R_OK)]
    needed += [(path, os.R_OK) for path in ("/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf")]
    if os.path.lexists(find_venv_file()):
        needed.append((find_venv_file(), os.R_OK))
    needed += [("/dev/null", os.R_OK | os.W_OK), ("/dev/urandom", os.R_OK)]
    # of the launcher
    for name in ("id", "find", "mkdir", "mktemp"):
        found = [os.path.join(one, name) for one in os.get_exec_path() if os.path.lexists(os.path.join(one, name))]
        needed += [(path, os.X_OK) for path in found[:1]]
        if not found:
            note("value", "PATH", "names no folder with the program " + name, sources.get("PATH", ""))
            break
    for path, mode in needed:
        note_closed(path, mode)
    # sshd reads keys there
    for path in [home, home + "/.ssh"] if want["known"] else []:
        if os.path.lexists(path):
            note_closed(path, os.R_OK | os.X_OK)
    if want["known"] and os.path.exists("/etc/nologin"):
        note("login", "/etc/nologin", "only root may log in", "/etc/nologin")

AMD = "0x1002"

def is_for_graphics(path):
    # only ROCm computes on a render device. Those of other vendors, and of AMD's without ROCm, draw
    try:
        with open("/sys/class/drm/%s/device/vendor" % os.path.basename(path)) as stream:
            vendor = stream.read(16).strip()
    except OSError:
        vendor = AMD
    return vendor != AMD or not os.path.exists("/dev/kfd")

def check_devices():
    for path in sorted(found for pattern in want["devices"] for found in glob.glob(pattern))[:64]:
        held = os.stat(path)
        if not stat.S_ISCHR(held.st_mode) or os.access(path, os.R_OK | os.W_OK):
            continue
        if path.startswith("/dev/dri/") and is_for_graphics(path):
            continue
        group = ""
        if held.st_gid and held.st_mode & 0o060 == 0o060:
            try:
                group = grp.getgrgid(held.st_gid).gr_name
            except KeyError:
                pass
        mode = "mode %04o, owner %d, group %d" % (held.st_mode & 0o7777, held.st_uid, held.st_gid)
        note("device", path, group, mode)

def check_launcher():
    # it prints the command that a job would run, and starts nothing
    path = want["launcher"]
    if os.path.lexists(path) and note_closed(path, os.R_OK | os.X_OK) or not os.path.isfile(path):
        return
    with open(path, "rb") as stream:
        text = stream.read(65536)
    if b"--dry-run)" not in text:  # of an earlier version, which would start a job
        if b"exec " not in text:
            note("launch", path, "is damaged: it starts nothing")
        return
    done = subprocess.run([path, "--dry-run", "job.py"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=1)
    told = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode:
        why = told[-1] if told else "exit status %d" % done.returncode
        # the launcher quotes the value that it refuses
        odd = [name for name, value in sorted(os.environ.items())
               if name.startswith("FULLMESH_") and name in sources and "'%s'" % value in why]
        place = " and ".join("%s in %s" % (name, sources[name]) for name in odd)
        note("launch", path, why, place)
        return
    command.extend(done.stdout.decode("utf-8", "replace").splitlines()[:64])
    # a line of the environment file may print something first
    for path in [one for one in command if one.startswith("/")][:1] + want["parts"]:
        if not note_closed(path, os.R_OK | (os.X_OK if path in command else 0)):
            note_broken_program(path)

def note_broken_program(path):
    try:
        with open(path, "rb") as stream:
            data = stream.read(1 << 20)
    except OSError:
        note("launch", path, "no such file")
        return
    first = data.partition(b"\n")[0]
    if path in command and not first.startswith((b"#!", b"\x7fELF")):
        note("launch", path, "is damaged: it is no program")
    elif path.endswith(".py") or b"python" in first:
        error = find_code_error(data)
        if error:
            note("launch", path, "is damaged: " + error)

def find_code_error(data):
    try:
        parts = ast.walk(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        return str(exc)
    return "" if any(isinstance(one, ast.Call) for one in parts) else "it does nothing"

# The least that a job of a few ranks needs: files, threads, and bytes.
LEAST = {"NOFILE": 256, "NPROC": 64, "AS": 4 << 30, "DATA": 1 << 30, "FSIZE": 1 << 20, "CPU": 3600, "STACK": 1 << 18}

def check_limits():
    for name, least in LEAST.items():
        soft, hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name))
        if 0 <= soft < least:
            note("limit", name, str(soft))
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if 0 <= locked < want["locked"] and glob.glob("/dev/infiniband/uverbs*"):
        note("limit", "MEMLOCK", str(locked))
    mask = os.umask(0o77)
    os.umask(mask)
    if mask & 0o700:
        note("limit", "umask", "%04o" % mask)

def is_found_by_torch(folder, name):
    # torch itself loads these from NVIDIA's packages, and the driver's if there is a GPU
    own = glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", glob.escape(name)))
    return bool(own) or name.startswith(("libcuda.so", "libnvidia-"))

def check_requirements(folder):
    for path in glob.glob(os.path.join(glob.escape(folder), "torch-*.dist-info", "METADATA"))[:1]:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read(262144)
        for name in re.findall(r"^Requires-Dist: ([\w.-]{1,80})[^;\n]{0,80}$", text, re.M | re.A)[:32]:
            held = importlib.util.find_spec(name.replace("-", "_"))
            if held is None:
                note("import", name, "no such module")
            elif held.origin:
                note_closed(held.origin, os.R_OK)

# Files of a package that every job reads, in pip's list of installed files: path, checksum, size.
RECORDED = (r"^((?:torch/(?:[^/,\n]{1,80}\.py|_C[^/,\n]{0,80}\.so|lib/[^/,\n]{1,80}\.so|distributed/[\w/]{1,200}\.py)"
            r"|[\w]{1,80}(?:/__init__)?\.py)),sha256=[^,\n]{1,80},(\d{1,12})$")
RECORD_MOST, DAMAGED_MOST = 8 << 20, 5
CLOSED = "closed"
DIFFERS = "is damaged: it has %d bytes, and pip installed %d"

def find_damage(path, size):
    # a patched file is not damaged: only one that is missing, empty, cut, or that Python or the loader cannot read
    try:
        held = os.stat(path).st_size
        if held == size:
            return "" if os.access(path, os.R_OK) else CLOSED
        with open(path, "rb") as stream:
            data = stream.read(2 << 20)
    except OSError as exc:
        return {errno.ENOENT: "no such file", errno.EACCES: CLOSED}.get(exc.errno, "")
    if not data.strip(b"\0\r\n "):
        return "is empty, and pip installed %d bytes" % size
    if path.endswith(".py"):
        try:
            compile(data, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            return "is damaged: %s" % exc
        # an editor ends the last line
        return "" if held > size or data.endswith(b"\n") else DIFFERS % (held, size)
    end = int.from_bytes(data[40:48], "little") if data[:4] == b"\x7fELF" and len(data) > 64 else held + 1
    return DIFFERS % (held, size) if held < end else ""

def check_installed_files(folder):
    names, found = ["torch"], 0
    for path in glob.glob(os.path.join(glob.escape(folder), "torch-*.dist-info", "METADATA"))[:1]:
        with open(path, encoding="utf-8", errors="replace") as stream:
            names += re.findall(r"^Requires-Dist: ([\w.-]{1,80})[^;\n]{0,80}$", stream.read(262144), re.M | re.A)[:32]
    for name in names:
        pattern = os.path.join(glob.escape(folder), glob.escape(name.replace("-", "_")) + "-*.dist-info", "RECORD")
        for path in glob.glob(pattern)[:1]:
            with open(path, encoding="utf-8", errors="replace") as stream:
                listed = re.findall(RECORDED, stream.read(RECORD_MOST), re.M | re.A)
            for own, size in listed:
                path = os.path.join(folder, own)
                error = find_damage(path, int(size)) if found < DAMAGED_MOST else ""
                if error == CLOSED:
                    note_closed(path, os.R_OK)
                    return True  # often a folder, with many files
                if error:
                    found += 1
                    note("import", path, error)
    return found > 0

def check_torch():
    # without an import, which takes seconds; the loader lists what it would load
    package = find_torch(sys.path)
    if not package:
        if not sys.flags.isolated:
            check_venv()
        return
    if package.endswith(".py"):
        note("import", package, OTHER_TORCH, sources.get("PYTHONPATH", ""))
        return
    library = os.path.join(package, "lib", "libtorch_python.so")
    parts = ["__init__.py", "version.py", "distributed", "distributed/run.py", "lib/libtorch_python.so"]
    for path in [package] + [os.path.join(package, one) for one in parts]:
        if note_closed(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
            return
        if not os.path.exists(path):
            note("import", path, "no such file", sources.get("PYTHONPATH", ""))
            return
    folder = os.path.dirname(package)
    if check_installed_files(folder):
        return
    check_requirements(folder)
    done = subprocess.run(["ldd", library], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1)
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        # a missing LD_PRELOAD is not fatal, and find_loader_errors names it
        wrong = "not found" in line or "cannot open" in line and "LD_PRELOAD" not in line
        if wrong and len(steps) < 20 and not is_found_by_torch(folder, line.split()[0]):
            note("load", library, line.strip())
    check_torch_logs(package)

def check_venv():
    # Python that does not read this file finds none of the packages next to it
    venv = os.path.dirname(os.path.dirname(want["python"]))
    installed = glob.glob(os.path.join(glob.escape(venv), "lib", "python3*", "site-packages", "torch", "__init__.py"))
    config = find_venv_file()
    if installed and not find_closed(config, os.R_OK):
        why = "is damaged" if os.path.exists(config) else "no such file"
        note("import", config, why + ", so Python does not find " + os.path.dirname(installed[0]))

def check_torch_logs(package):
    for name, error in find_wrong_logs({**given, **os.environ}, package):
        note("value", name, error, sources.get(name, ""))

def check_values(values, places):
    package = find_torch(sys.path)
    for name, value in values.items():
        wrong = find_forbidden_value(name, value, package)
        if not wrong and CALLED.match(name) and not name.lower().endswith("_proxy"):
            wrong = find_odd_form(value)
        if wrong:
            note("value", name, wrong, places.get(name, ""))

# Names that jobs read without NCCL, and those of NCCL that torch, builds and images use.
READ_BY_JOBS = ("MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT", "TP_SOCKET_IFNAME",
                "NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING",
                "NCCL_DUMP_ON_TIMEOUT", "NCCL_TRACE_BUFFER_SIZE", "NCCL_TRACE_CPP_STACK", "NCCL_DEBUG_INFO_TEMP_FILE",
                "NCCL_HOME", "NCCL_ROOT", "NCCL_ROOT_DIR", "NCCL_DIR", "NCCL_PATH", "NCCL_LIBRARY", "NCCL_VERSION",
                "NCCL_INCLUDE_DIR", "NCCL_LIB_DIR")
NEAR = 0.85

def list_nccl_names():
    # of the library that a job would load; nothing is known without one
    folders = [os.path.join(one, "nvidia", "nccl", "lib") for one in sys.path if one]
    folders += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    folders += ["/usr/lib64", "/usr/lib/%s-linux-gnu" % os.uname().machine, "/usr/local/lib"]
    for folder in folders:
        path = os.path.join(folder, "libnccl.so.2")
        if os.path.isfile(path):
            found = re.findall(rb"NCCL_[A-Z0-9_]{2,60}(?=\0)", read_constants(path))
            return {one.decode() for one in found}
    return set()

def check_variable_names():
    conf = list_sources(["/etc/nccl.conf", home + "/.nccl.conf"])
    set_in = {**conf, **list_sources([want["env_file"]]), **{name: sources.get(name, "") for name in os.environ}}
    odd = [name for name in sorted(set_in) if re.match("(?:NCCL|GLOO|MASTER|TP)_", name) and name not in READ_BY_JOBS]
    of_nccl = list_nccl_names() if odd else set()
    known = of_nccl.union(READ_BY_JOBS)
    for name in odd:
        near = difflib.get_close_matches(name, known, 1, NEAR)
        if near and name not in known and (of_nccl or not name.startswith("NCCL")):
            note("name", name, near[0], set_in[name])

def read_environment_file():
    path = want["env_file"]
    if not os.access(path, os.R_OK):
        return {}
    # as the launcher reads it
    read = 'set -a; . "$0"; set +a; env -0 || exec cat /proc/self/environ'
    done = subprocess.run(["/bin/sh", "-euc", read, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={"PATH": os.defpath}, timeout=1)
    told = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode:
        note("source", path, told[-1] if told else "exit status %d" % done.returncode)
    pairs = (one.decode("utf-8", "replace").partition("=") for one in done.stdout.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}

def write_file(name, folder):
    try:
        handle, path = tempfile.mkstemp(prefix=".fullmesh-start-", dir=folder)
        try:
            os.write(handle, b"x" * 4096)
        finally:
            os.close(handle)
            os.unlink(path)
    except OSError as exc:
        note("write", folder, name_error(exc), sources.get(name, ""))

def check_writes():
    write_file("", "/dev/shm")
    temporary = os.environ.get("TMPDIR") or "/tmp"
    if want["known"] or not os.path.exists(temporary) or temporary == "/tmp":
        write_file("TMPDIR", temporary)
    for name in CACHES if want["known"] else ():
        folder = wanted = os.environ.get(name, "")
        while folder and folder != "/" and not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if wanted.startswith("/") and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
            note("cache", wanted, "EACCES" if os.path.isdir(folder) else "ENOTDIR", sources.get(name, ""))

failed = {}
def start_lookups():
    def ask(name):
        try:
            socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            failed[name] = ""
        except socket.gaierror as exc:
            failed[name] = str(exc.strerror or exc)
        except (OSError, ValueError) as exc:
            failed[name] = str(exc)
    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in want["names"]]
    begun = []
    try:
        for thread in threads:
            thread.start()
            begun.append(thread)
    except RuntimeError:
        pass  # the limit of threads, see check_limits
    return begun, time.monotonic() + 0.3

def check_names():
    for thread in lookups:
        thread.join(max(0, ends - time.monotonic()))
    for name, error in sorted(failed.items()):
        if error:
            note("resolve", name, error)

def check_ports():
    family = socket.AF_INET6 if ":" in want["address"] else socket.AF_INET
    for port in [0] + want["ports"]:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind((want["address"], port))
        except OSError as exc:
            if exc.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                note("bind", str(port), name_error(exc))

def check_paths():
    for name in FILES:
        path = os.environ.get(name, "")
        usable = os.access(path, os.R_OK) if want["known"] else os.path.exists(path)
        if path.startswith("/") and not usable:
            note("path", name, path, sources.get(name, ""))

lookups, ends = start_lookups()
given, command = {}, []
def read_file():
    given.update(read_environment_file())
for work in (check_use, read_file, check_launcher, check_limits, check_torch, check_writes, check_ports, check_paths,
             check_variable_names, check_names, check_devices):
    try:
        work()
    except (OSError, ValueError, LookupError, ImportError, struct.error, subprocess.SubprocessError):
        pass  # not found out: the others still are
check_values(os.environ, sources)
check_values(given, list_sources([want["env_file"]]))
READ = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")  # by the loader and Python
places = sources
sources = {name: place for name, place in sources.items()
           if name in os.environ and (CALLED.match(name) or name in READ)}
if sys.flags.isolated and os.access(want["python"], os.X_OK) and not find_closed(find_venv_file(), os.R_OK):
    # it runs without these variables instead of the interpreter of jobs
    own = [one for one in os.environ if one.startswith("PYTHON") or one in READ]
    note("python", want["python"], ", ".join("%s=%s" % (one, os.environ[one]) for one in own),
         ", ".join(filter(None, map(places.get, own))))
for one in steps:
    if one["step"] == "load":
        one["source"] = sources.get("LD_LIBRARY_PATH", "")
keep = lambda values: {name: value for name, value in values.items() if CALLED.match(name)}
said = {"steps": steps, "sources": sources, "login": keep(os.environ), "file": keep(given),
        "command": command}
print(want["mark"] + json.dumps(said) + want["mark"])
sys.stdout.flush()
os._exit(0)  # a name server may still be silent
"""
)
