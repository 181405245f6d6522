"""Describe what was read: programs and their versions, ranks, the last line of each log, and what to collect next."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from fullmesh.causes.logs import LogFacts, LogLine, join_first_items, parse_line_rank
from fullmesh.explain.reader import Block
from fullmesh.model.known_defects import find_known_defects
from fullmesh.printed import clean_and_shorten

HEAD = 1 << 18  # characters at the beginning of a log in which programs and versions are searched
MOST_LAST = 4  # logs whose last line is shown
VERSION = r"(?P<version>\d{1,4}(?:\.\d{1,4}){1,3})"
LAST_TEXT = 400  # characters of a last line to keep


@dataclass(frozen=True)
class Speaker:
    """A program that writes to logs.

    Attributes:
        needles: texts of its lines.
        version: the pattern of a line with its version, which begins with a literal text.
    """

    name: str
    needles: tuple[str, ...]
    version: str = ""


SPEAKERS = (
    Speaker(
        "torch", ("c10d", "torch.distributed", "ProcessGroup", "torchrun", "torch=="), "torch=="
    ),
    Speaker("torch", ("PyTorch version", "PyTorch Version"), "PyTorch [vV]ersion:? "),
    Speaker("NCCL", ("NCCL INFO", "NCCL WARN", "NCCL version"), "NCCL version "),
    Speaker("RCCL", ("RCCL version",), "RCCL version:? "),
    Speaker("HCCL", ("HCCL", "hccl")),
    Speaker("Gloo", ("[Gloo]", "gloo/transport", "Gloo connect")),
    Speaker("UCX", ("UCX  ", "ucp_", "uct_"), "UCX version "),
    Speaker("Open MPI", ("mpirun", "MPI_", "ORTE", "prterun"), "Open MPI:? v?"),
    Speaker("NVSHMEM", ("nvshmem", "NVSHMEM"), "NVSHMEM v"),
    Speaker("aws-ofi-nccl", ("NET/OFI",), "aws-ofi-nccl "),
    Speaker("Ray", ("raylet", "Ray runtime", "ray::", "ray.init"), "Ray version:? "),
    Speaker(
        "vLLM",
        ("vllm", "vLLM"),
        r"vLLM (?:API server version|is using|version) v?|version v?(?=\d+\.\d+\.\d+.{0,40}vllm)",
    ),
    Speaker("SGLang", ("sglang", "SGLang")),
    Speaker("DeepSpeed", ("deepspeed", "DeepSpeed"), "DeepSpeed info: version="),
    Speaker("Accelerate", ("accelerate",)),
    Speaker("Lightning", ("GLOBAL_RANK", "lightning")),
    Speaker("Horovod", ("horovod",)),
    Speaker("JAX", ("jax._src", "jax.distributed", "jaxlib")),
    Speaker("Slurm", ("srun: ", "slurmstepd: ", "sbatch: ", "SLURM_")),
    Speaker("pyxis/enroot", ("pyxis", "enroot")),
    Speaker("Docker", ("dockerd", "containerd")),
    Speaker("Kubernetes", ("kubelet", "kube-")),
    Speaker("NVIDIA driver", ("NVRM: ",), r"NVRM: .{0,80}Kernel Module  "),
    Speaker("kernel", ("kernel: ", "mlx5_core", "] pcieport")),
)
MACHINES = ("x86_64", "aarch64")  # in paths of libraries, in the names of wheels and kernels
VERSIONS = {one: re.compile(f"(?:{one.version}){VERSION}") for one in SPEAKERS if one.version}


@dataclass
class Overview:
    """What the logs contain. The size depends on the number of files, not on the logs.

    Attributes:
        programs: program -> its versions.
        machines: kinds of CPUs, as ``uname -m`` prints them.
        version_files: (program, version) -> the first logs that name it.
        begun: characters of each file that were searched.
        last: the last line of each file that is not empty.
        recorded: ranks of which a Flight Recorder dump was read.
        has_nccl_info: whether NCCL wrote at level INFO.
    """

    programs: dict[str, set[str]] = field(default_factory=dict)
    machines: set[str] = field(default_factory=set)
    version_files: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    last: dict[str, LogLine] = field(default_factory=dict)
    facts: LogFacts = field(default_factory=LogFacts)
    recorded: frozenset[int] = frozenset()
    has_nccl_info: bool = False

    def take(self, name: str, block: Block) -> None:
        """Search the beginning of a file, and keep its last line."""
        done = self.begun.get(name, 0)
        if done < HEAD:
            self.begun[name] = done + block.stop - block.start
            self._find_programs(name, block)
        end = block.stop
        while end > block.start and block.text[end - 1].isspace():
            end -= 1
        if end > block.start:
            start = max(block.text.rfind("\n", 0, end), block.text.rfind("\r", 0, end)) + 1
            line = block.text[max(start, end - LAST_TEXT) : end]
            number = block.line + block.text.count("\n", block.start, end)
            self.last[name] = LogLine(name, number, clean_and_shorten(line), parse_line_rank(line))

    def _find_programs(self, name: str, block: Block) -> None:
        text = block.text[block.start : block.stop]
        self.has_nccl_info = self.has_nccl_info or "NCCL INFO" in text
        self.machines.update(name for name in MACHINES if name in text)
        for one in SPEAKERS:
            if any(needle in text for needle in one.needles):
                versions = self.programs.setdefault(one.name, set())
                if one in VERSIONS and (found := VERSIONS[one].search(text)):
                    versions.add(found["version"])
                    files = self.version_files.setdefault((one.name, found["version"]), [])
                    if name not in files and len(files) < MOST_LAST:
                        files.append(name)

    @property
    def ranks(self) -> list[int]:
        """The ranks that wrote the logs."""
        numbers = {values[1] for values, _ in self.facts.of("member")} | self.facts.ranks()
        return sorted({*map(int, numbers), *self.recorded})

    @property
    def world_size(self) -> int:
        """The largest number of ranks that a communicator has, or 0."""
        return max((int(values[2]) for values, _ in self.facts.of("member")), default=0)

    def list_defects(self) -> list[str]:
        """List the known defects of the versions in the logs, on the kind of CPU that they name."""
        machine = next(iter(self.machines)) if len(self.machines) == 1 else ""
        return [
            defect.describe(version)
            for name, versions in sorted(self.programs.items())
            for defect, version in find_known_defects(name, versions, machine)
        ]

    def list_differences(self) -> list[str]:
        """List the programs of which the logs name different versions, if each log names one."""
        listed = []
        for program, versions in sorted(self.programs.items()):
            files = {version: self.version_files[program, version] for version in sorted(versions)}
            named = [name for names in files.values() for name in names]
            if 1 < len(files) <= MOST_LAST and len(named) == len(set(named)):
                places = ", ".join(f"{one} in {files[one][0]}" for one in files)
                listed.append(f"{program}: {places}")
        return listed

    def list_next_steps(self) -> list[str]:
        """List what to collect, because the logs do not show a cause."""
        size, ranks = self.world_size, self.ranks
        missing = [str(rank) for rank in range(min(size, 4096)) if rank not in ranks]
        steps = []
        if missing and ranks:
            steps.append(f"the logs of the other ranks ({join_first_items(missing)} of {size})")
        elif not missing and (not ranks or ranks == ranks[:1]):
            steps.append("the logs of all ranks and of the launcher")
        if not self.has_nccl_info:
            steps.append("a run with NCCL_DEBUG=INFO (if the job uses NCCL)")
        if not {"JAX", "Ray"} & self.programs.keys() or "torch" in self.programs:
            steps.append("a run with TORCH_DISTRIBUTED_DEBUG=DETAIL and TORCH_CPP_LOG_LEVEL=INFO")
            if not self.recorded:
                steps.append("torch's Flight Recorder dumps of all ranks (docs/hang.md)")
        if "kernel" not in self.programs:
            steps.append("the kernel's log of each node (journalctl -k)")
        return steps

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "programs": [
                {"name": name, "versions": sorted(versions)}
                for name, versions in sorted(self.programs.items())
            ],
            "ranks": self.ranks,
            "world_size": self.world_size,
            "last": [
                {"file": one.file, "line": one.line, "text": one.text} for one in self.last.values()
            ],
            "defects": self.list_defects(),
            "differences": self.list_differences(),
            "collect": self.list_next_steps(),
        }

    def as_lines(self) -> list[tuple[str, str]]:
        """Return it for people: labels and texts."""
        programs = [
            f"{name} {' and '.join(sorted(versions))}".strip()
            for name, versions in sorted(self.programs.items())
        ]
        ranks, size = self.ranks, self.world_size
        shown = join_first_items([str(rank) for rank in ranks]) or "none named"
        lines = [
            ("programs", ", ".join(programs) or "none that explain-log knows"),
            ("ranks", f"{shown} of {size}" if size else shown),
        ]
        for index, one in enumerate(list(self.last.values())[:MOST_LAST]):
            lines.append(("" if index else "last", f"{one.file}:{one.line}: {one.text}"))
        if len(self.last) > MOST_LAST:
            lines.append(("", f"and {len(self.last) - MOST_LAST} more logs"))
        return lines
