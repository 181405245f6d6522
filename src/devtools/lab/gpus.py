"""Give a lab node simulated GPUs: the real nvidia-smi over a STAND-IN for NVML, and files for the PCI bus.

A container has no GPU. The node gets NVIDIA's own ``nvidia-smi`` (Debian's package from non-free) and a stand-in for
the library that it queries (``lab/gpu/nvml.c``, built with NVIDIA's public header). It also gets the files that the
kernel
would show: devices on the PCI bus, the driver's folder in /proc, its version in /sys, files in /dev.
``/etc/lab-gpus`` on the node has the simulated values, one per line. Nothing can compute on it, because CUDA is
missing.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devtools.lab import digest, gpu_files, host, sources_list
from devtools.lab.console import say, step
from devtools.lab.errors import LabError
from devtools.lab.once import built
from devtools.lab.paths import Paths
from devtools.lab.podman import Podman

COMPILER = {"gcc": "gcc", "libc6-dev": "gencat"}
FETCH_SECONDS = 300.0
BUILD_SECONDS = 60.0
LOCK_SECONDS = 600.0
NONE = "none"
DRIVER, CUDA = "580.95.05", "13000"
MIB = 1 << 20


@dataclass(frozen=True)
class Model:
    """A GPU's data sheet.

    Attributes:
        name: as nvidia-smi prints it.
        device: PCI device id, from pci.ids.
        memory: MiB, as nvidia-smi prints it.
        architecture: NVML's number: 8 Ada, 9 Hopper.
        watts: its limit.
        generation: of its PCIe.
        links: number of NVLinks.
        link_mbps: MB/s of a link, one way.
    """

    name: str
    device: str
    memory: int
    architecture: int
    watts: int
    generation: int
    links: int = 0
    link_mbps: int = 0


H100 = Model("NVIDIA H100 80GB HBM3", "0x2330", 81559, 9, 700, 5, 18, 26562)
H200 = Model("NVIDIA H200", "0x2335", 143771, 9, 700, 5, 18, 26562)
L40S = Model("NVIDIA L40S", "0x26b9", 46068, 8, 350, 4)
PLAYS: Mapping[str, tuple[Model, int]] = {
    "h100x8": (H100, 8),
    "h100x2": (H100, 2),
    "h200x8": (H200, 8),
    "l40sx2": (L40S, 2),
}
# PCI buses of an HGX baseboard, as on machines of several makers.
BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
# Keys that a line of the play can set for the node (WHOLE), and for one GPU (`3.KEY`) or all (`*.KEY`). The library
# reads some, and gpu_files.py writes the others to files.
WHOLE = (
    *("driver", "cuda", "gpus", "pci", "error", "nvml"),
    *(
        "machine",
        "open",
        "acs",
        "iommu",
        "switches",
        "rdma",
        "rdma_numa",
        "fm",
        "fm_version",
        "sxid",
    ),
)
IN_FILES = ("numa", "xid")
EACH = (
    *IN_FILES,
    *("name", "uuid", "serial", "vbios", "brand", "architecture", "bus", "device"),
    *("persistence", "compute_mode", "performance", "power", "power_limit", "temperature", "busy"),
    *("width", "width_most", "generation", "generation_most", "memory", "memory_used"),
    *("ecc", "ecc_mended", "ecc_lost", "ecc_mended_ever", "ecc_lost_ever"),
    *("remapped", "remap_pending", "remap_failed", "mig", "fabric", "throttle", "throttle_known"),
    *("links", "links_down", "link_speed", "lost"),
)
LINE = re.compile(r"(?P<key>(?:(?P<gpu>\d+|\*)\.)?(?P<word>[a-z_]+))=(?P<value>[^\n]{1,150})")

# Remove the files of an earlier play. Without arguments, remove the programs too.
CLEAR = """\
set -eu
umount -R /sys/class 2>/dev/null || true
for place in /usr/bin/systemd-detect-virt /dev/kmsg /sys/module /sys/bus/pci/devices /proc/driver \\
    /run/lab-gpus/class/* /run/lab-gpus/kept; do
    while umount "$place" 2>/dev/null; do :; done
done
if [ -e /run/systemd/system/nvidia-fabricmanager.service ]; then
    systemctl stop nvidia-fabricmanager.service
    rm -f /run/systemd/system/nvidia-fabricmanager.service /usr/bin/nv-fabricmanager
    systemctl daemon-reload
fi
rm -rf --one-file-system /run/lab-gpus /dev/nvidia[0-9]* /dev/nvidiactl
[ "$#" -gt 0 ] || rm -f /usr/bin/nvidia-smi /usr/lib*/libnvidia-ml.so.1 /usr/lib/*/libnvidia-ml.so.1
"""


def check_play(name: str) -> str:
    """Return the name of a play; LB-118 if it is unknown."""
    if name != NONE and name not in PLAYS:
        raise LabError(
            "LB-118", f"no GPUs are called {name!r}", f"Known: {', '.join([*PLAYS, NONE])}."
        )
    return name


def check_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines of a play; LB-119 with all lines that no simulated GPU knows."""
    wrong = []
    for line in lines:
        found = LINE.fullmatch(line)
        if not found or found["word"] not in (EACH if found["gpu"] else WHOLE):
            wrong.append(line)
    if wrong:
        raise LabError(
            "LB-119",
            f"the simulated GPUs have no setting {', '.join(map(repr, wrong))}",
            f"Lines: {'|'.join(WHOLE)}=VALUE for the node, N.KEY=VALUE or *.KEY=VALUE for GPUs with the keys "
            f"{', '.join(EACH)}.",
        )
    return list(lines)


def play(name: str, own: Sequence[str] = ()) -> list[str]:
    """Return the lines that the simulated GPU reads: healthy GPUs first, then *own*. The last line of a key counts."""
    model, count = PLAYS[name]
    lines = [f"driver={DRIVER}", f"cuda={CUDA}", f"gpus={count}", f"pci={count}"]
    healthy = {
        "name": model.name,
        "device": model.device,
        "brand": 2,
        "architecture": model.architecture,
        "memory": model.memory * MIB,
        "persistence": 1,
        "compute_mode": 0,
        "performance": 0,
        "power": 70_000,
        "power_limit": model.watts * 1000,
        "temperature": 31,
        "busy": 0,
        "width": 16,
        "width_most": 16,
        "generation": model.generation,
        "generation_most": model.generation,
        **dict.fromkeys(("ecc_mended", "ecc_lost", "ecc_mended_ever", "ecc_lost_ever"), 0),
        **dict.fromkeys(("remapped", "remap_pending", "remap_failed", "mig"), 0),
        "ecc": 1,
        "throttle": 1,
        "throttle_known": 0x1FF,
    }
    if model.links:
        healthy |= {"links": model.links, "links_down": 0, "link_speed": model.link_mbps}
        healthy["fabric"] = 3
        lines += ["switches=4", "fm=active"]
    lines += [f"*.{key}={value}" for key, value in healthy.items()]
    for at in range(count):
        lines += [
            f"{at}.bus=0000:{BUSES[at]}:00.0",
            f"{at}.uuid=GPU-5ba0d1e4-0000-4000-8000-{at:012d}",
        ]
    return [*lines, *check_lines(own)]


def folder(paths: Paths) -> Path:
    """Return the folder of nvidia-smi and the built stand-in."""
    inputs = [paths.sources / "gpu"]
    return paths.cache / f"gpu-{digest.stage(paths.sources, inputs)}"


def ensure(paths: Paths) -> Path:
    """Fetch nvidia-smi and the header, build the stand-in, and test them together; once."""

    def make(work: Path) -> None:
        host.ensure_packages(paths, COMPILER)
        _fetch_smi(paths, work)
        _fetch_header(paths, work)
        _build(paths, work)
        _try(paths, work / "out")

    return built(paths, folder(paths), "the stand-in for GPUs", make, LOCK_SECONDS)


def _fetch_smi(paths: Paths, work: Path) -> None:
    """Fetch Debian's package of nvidia-smi, which apt checks. The apt files of this machine do not change."""
    apt = sources_list.own_apt(work, lambda line: re.sub(r"(\s)main\b.*", r"\1non-free", line))
    script = f"cd {work} && {apt} update && {apt} download nvidia-smi && dpkg-deb -x nvidia-smi_*.deb deb"
    script += f" && install -m 0755 deb/usr/lib/nvidia/current/nvidia-smi {work}/out/nvidia-smi"
    step("fetch nvidia-smi", ["sh", "-ec", script], paths.logs / "gpu-smi.log", FETCH_SECONDS)


def _fetch_header(paths: Paths, work: Path) -> None:
    """Fetch NVIDIA's public header of NVML from its wheel."""
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    argv += [
        "--only-binary=:all:",
        "-d",
        str(work),
        "-r",
        str(paths.sources / "gpu/nvml-wheel.txt"),
    ]
    step("fetch NVML's header", argv, paths.logs / "gpu-header.log", FETCH_SECONDS)
    shutil.unpack_archive(next(work.glob("*.whl")), work / "wheel", "zip")


def _build(paths: Paths, work: Path) -> None:
    include = next(work.glob("wheel/**/nvml.h")).parent
    source = paths.sources / "gpu"
    script = f"sh {source}/stubs.sh {include}/nvml.h {work}/out/nvidia-smi > {work}/stubs.c && "
    script += "gcc -O2 -Wall -Wextra -Werror -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 "
    script += f"-I {include} -o {work}/out/libnvidia-ml.so.1 {source}/nvml.c {work}/stubs.c"
    step(
        "build the stand-in for NVML", ["sh", "-ec", script], paths.logs / "gpu.log", BUILD_SECONDS
    )


def _try(paths: Paths, parts: Path) -> None:
    """Test the stand-in. If a later nvidia-smi needs more, this fails here and not in a test."""
    (parts / "try").write_text("\n".join(play("h100x2")) + "\n")
    env = ["env", f"LAB_GPUS={parts}/try", f"LD_LIBRARY_PATH={parts}"]
    script = 'test "$("$@" -q -x | grep -c "<product_name>NVIDIA H100 80GB HBM3<")" = 2'
    argv = [*env, "sh", "-ec", script, "sh", str(parts / "nvidia-smi")]
    step("try nvidia-smi over the stand-in", argv, paths.logs / "gpu.log", BUILD_SECONDS)
    (parts / "try").unlink()


def values(lines: Sequence[str]) -> dict[str, str]:
    """Return the last value of each key."""
    return {key: said for key, _, said in (line.partition("=") for line in lines)}


def install(podman: Podman, paths: Paths, container: str, lines: Sequence[str]) -> None:
    """Give a running node the GPUs that *lines* describe."""
    parts = ensure(paths)
    podman.must("exec", "-i", container, "sh", "-c", CLEAR, "sh", "again")
    where = podman.must(
        "exec", container, "sh", "-c", "ls -d /usr/lib/x86_64-linux-gnu /usr/lib64 | head -n 1"
    )
    podman.must("cp", str(parts / "nvidia-smi"), f"{container}:/usr/bin/nvidia-smi")
    library = f"{where.strip()}/libnvidia-ml.so.1"
    podman.must("cp", str(parts / "libnvidia-ml.so.1"), f"{container}:{library}")
    podman.must(
        "exec", "-i", container, "sh", "-c", "cat > /etc/lab-gpus", stdin="\n".join(lines) + "\n"
    )
    shell = gpu_files.script(gpu_files.box(values(lines)))
    podman.must("exec", "-i", container, "sh", stdin=shell)


def remove(podman: Podman, container: str) -> None:
    """Remove the simulated GPUs."""
    podman.must("exec", container, "sh", "-c", CLEAR, "sh")


def set_up(podman: Podman, paths: Paths, container: str, name: str, own: Sequence[str]) -> None:
    """Give a running node the GPUs of a play, changed by *own* lines. With ``none`` it has none."""
    if check_play(name) == NONE:
        remove(podman, container)
        return
    lines = play(name, own)
    install(podman, paths, container, lines)
    said = podman.run("exec", container, "nvidia-smi", "-L")
    words = (said.stdout or said.stderr).strip().splitlines()
    say(
        f"{container}: STAND-IN GPUs, nvidia-smi says: {words[0] if words else 'nothing'} ({len(words)} lines)"
    )
