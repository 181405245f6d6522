"""The parts of ``fullmesh test``: their commands, their order, and the parts that only ``--all`` runs.

Each landing waits for CI's selection: linters, unit tests, every role on both families, the demo end to end, one cut
per mechanism, one fault per family of rules. Only ``--all`` runs parts with ``rest``, and single tests with the marker
``rest``.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from devtools.lab.cli import FAMILIES_VARIABLE
from devtools.lab.plan import DEBIAN, FAMILIES, SYSTEMS
from fullmesh.settings import ROOT

LOOKALIKES = tuple(f"{SYSTEMS[family]} look-alike" for family in FAMILIES)
EMULATED = tuple(f"{SYSTEMS[family]} emulated" for family in FAMILIES)
RELEASES = tuple(SYSTEMS[family] for family in DEBIAN)
GPU = ROOT / ".fullmesh/gpu"  # records of the GPU acceptance
KINDS = ("action", "callback", "filter")  # of Ansible's plugins


@dataclass(frozen=True)
class Part:
    """One command of the test run.

    Attributes:
        name: its name on the terminal and in the log's name.
        command: argv.
        slow: needs the lab; left out by ``--fast``.
        rest: runs with ``--all``, or if it is named.
        less: words that leave some of its tests to ``--all``, or to a run that names the part.
        less_env: variables that do the same.
        env: additional variables.
        seconds: it is stopped after this time; 0 for PART_SECONDS.
        slices: number of pieces in which CI's shards run it, if its tests do not depend on each other.
    """

    name: str
    command: Sequence[str]
    slow: bool = False
    rest: bool = False
    less: Sequence[str] = ()
    less_env: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    slices: int = 1
    systems: Sequence[str] = ()

    @property
    def word(self) -> str:
        """The name as one word, which a shell can complete and which needs no quotes."""
        return self.name.replace(" ", "-")


def list_shell_files() -> list[str]:
    """List every shell script of the tree, by its first line."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    result = []
    for name in listed:
        path = ROOT / name
        if not path.is_file() or path.suffix == ".j2":
            continue
        with path.open("rb") as handle:
            first = handle.readline(64)
        if first.startswith(b"#!") and first.rstrip().endswith((b"bash", b"/sh", b"bash -e")):
            result.append(name)
    return result


def list_lint_parts() -> list[Part]:
    """List the linters, none with a skip list."""
    return [
        Part("ruff check", ["ruff", "check", "."]),
        Part("ruff format", ["ruff", "format", "--check", "."]),
        Part(
            "mypy",
            [
                "mypy",
                "src",
                *(f"{kind}_plugins" for kind in KINDS),
                "library",
                "module_utils",
                "node_programs",
                "roles/verify_cluster/files",
                "benchmarks/faults",
            ],
        ),
        Part("yamllint", ["yamllint", "--strict", "."]),
        Part("codespell", ["codespell"]),
        # actionlint has no wheel for some systems; zizmor checks the permissions of workflows
        Part(
            "workflow schema",
            [
                "check-jsonschema",
                "--builtin-schema",
                "vendor.github-workflows",
                *map(str, sorted((ROOT / ".github/workflows").glob("*.yml"))),
            ],
        ),
        Part("workflow audit", ["zizmor", "--offline", "--no-progress", ".github/workflows"]),
        Part("shellcheck", ["shellcheck", *list_shell_files()]),
        Part(
            "ansible-lint",
            ["ansible-lint", "--offline", "--strict"],
            env={"PYTHONPATH": os.pathsep.join((str(ROOT / "tests/lint"), str(ROOT / "src")))},
        ),
    ]


def list_scenarios() -> list[str]:
    """List the molecule scenarios of the tree."""
    return sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))


# Scenarios named after a role belong to CI's selection. These test a behavior across roles, or another method.
BEHAVIOURS = ("bundle", "links", "peer_firewall_job", "peer_firewall_ufw", "undo_point")


# Files of tests/e2e that are left to --all. Each uses its own lab.
REST = (
    "adversary",
    "bisect",
    "collection",
    "containers",
    "debian",
    "dhcp",
    "gpus",
    "health",
    "ifcfg",
    "ipv6",
    "join",
    "neighbours",
    "netplan_profiles",
    "package_locks",
    "pages",
    "rails",
    "rail_faults",
    "real_neighbours",
    "services",
    "services_ipv6",
    "slices",
    "slurm",
    "watch",
    "wireguard",
)
# On a busy machine, one cycle from bare nodes and back takes 15 min, and the pages have three.
OF_REST = {"pages": 5400.0}
WITHOUT_REST = ("-m", "not rest")
# Sets of texts have the same order each time; so do examples of properties by default (tests/unit/conftest.py).
SAME_EACH_TIME = {"PYTHONHASHSEED": "0"}
RANDOM = ("-m", "hypothesis", "--hypothesis-profile=random")
# Molecule scenarios read these. Without them, as in a manual run of molecule, they test everything. With them, only the
# site tests a dry run on bare nodes, for all roles at once: "dependency" is disabled, so the check step does nothing.
SELECTION = {"FULLMESH_TEST_SELECTION": "1", "FULLMESH_TEST_CHECK": "dependency"}


def build_end_to_end(
    name: str, where: str, *, rest: bool = False, seconds: float = 0.0, slices: int = 1
) -> Part:
    """Build the part of a file or a folder of tests; each uses its own lab."""
    command = [sys.executable, "-m", "pytest", "-v", where]
    return Part(
        f"end to end {name}",
        command,
        slow=True,
        rest=rest,
        less=WITHOUT_REST,
        seconds=seconds,
        slices=slices,
        systems=RELEASES if name == "debian" else LOOKALIKES,
    )


def build_debian_parts() -> list[Part]:
    """Repeat the interrupted changes and CI's faults on Debian's own releases."""
    pytest = [sys.executable, "-m", "pytest", "-v"]
    # The faults compare nodes, so all nodes have the same release. A silent DHCP server is an open
    # defect on Debian (docs/development/tested.md).
    silent = "tests/cuts/test_cuts.py::test_dhcp_server_is_silent_during_the_rollback"
    chosen = {
        "cuts": (",".join(DEBIAN), ["tests/cuts/test_cuts.py", "--deselect", silent]),
        "faults": ("debian13", ["tests/faults", *WITHOUT_REST]),
    }
    return [
        Part(
            f"end to end debian {name}",
            [*pytest, *words],
            slow=True,
            rest=True,
            env={FAMILIES_VARIABLE: families},
            seconds=3600,
            systems=tuple(SYSTEMS[family] for family in families.split(",")),
        )
        for name, (families, words) in chosen.items()
    ]


def build_faults() -> Part:
    """Build the part that breaks lab nodes and diagnoses them. Its two labs run in parallel and need both CPUs."""
    words = "-m pytest -v -n 2 --dist loadfile tests/faults"
    command = [sys.executable, *words.split()]
    return Part("end to end faults", command, slow=True, less=WITHOUT_REST, systems=LOOKALIKES)


# The longest parts start first, so that nothing waits for them at the end (by the seconds in CI's table).
LONGEST = (
    "end to end cuts",
    "end to end site",
    "end to end watch",
    "molecule launchers",
    "molecule nccl",
    "molecule verify_cluster",
    "molecule peer_firewall",
    "molecule links",
    "end to end dhcp",
    "molecule selinux_mode",
)


def list_lab_parts() -> list[Part]:
    """List all parts that run in parallel on the lab, each with its own lab, the longest first."""
    every = [
        *(
            Part(
                f"molecule {name}",
                ["molecule", "test", "-s", name],
                slow=True,
                rest=name in BEHAVIOURS,
                less_env=SELECTION,
                systems=LOOKALIKES,
            )
            for name in list_scenarios()
        ),
        build_end_to_end("site", "tests/e2e/test_site.py"),
        # 5 ways to interrupt a run, in 8 phases: an hour with --all
        build_end_to_end("interrupted", "tests/e2e/test_interrupted.py", seconds=5400, slices=4),
        *(
            build_end_to_end(
                name, f"tests/e2e/test_{name}.py", rest=True, seconds=OF_REST.get(name, 0.0)
            )
            for name in REST
        ),
        # 20 minutes, and 50 drawn schedules of about a minute
        build_end_to_end("cuts", "tests/cuts", seconds=5400, slices=4),
        build_end_to_end("surprises", "tests/surprises", seconds=5400),
        *build_debian_parts(),
    ]
    names = [part.name for part in every]
    first = [every[names.index(name)] for name in LONGEST]
    return [*first, *(part for part in every if part not in first)]


def list_stages() -> list[list[Part]]:
    """List the stages in order; the parts of one stage do not collide and run in parallel."""
    fullmesh = [sys.executable, "-m", "fullmesh"]
    pytest = [sys.executable, "-m", "pytest"]
    return [
        [
            # mostly waits for mirrors and the disk, so the next parts have the CPUs meanwhile
            Part("lab images", [*fullmesh, "lab", "build"], slow=True),
            *list_lint_parts(),
            # amazon.aws against a mock of EC2 on 127.0.0.1
            Part("ec2", [*pytest, "-q", "-n", "2", "tests/ec2"], slow=True, less=WITHOUT_REST),
            # the whole site, and Ansible's own documentation of every module: 1 min
            Part("docs", [*pytest, "-q", "tests/docs"], slow=True, less=WITHOUT_REST),
        ],
        # many tests wait for clocks and children: four workers keep two CPUs busy (150 s; two workers need 183 s)
        [Part("unit", [*pytest, "-q", "-n", "4"], less=WITHOUT_REST, less_env=SAME_EACH_TIME)],
        # properties once more, with new random examples
        [Part("random properties", [*pytest, "-q", "-n", "4", *RANDOM], slow=True, rest=True)],
        # the unit tests once more, under coverage
        [
            Part(
                "codes",
                [sys.executable, "tests/support/code_coverage.py"],
                slow=True,
                rest=True,
            )
        ],
        # unit tests of node code, with the oldest and the newest Python of nodes
        [
            Part(
                "node pythons",
                [sys.executable, "tests/support/node_pythons.py"],
                slow=True,
                rest=True,
                env={"PYTHONPATH": str(ROOT / "src")},
            )
        ],
        # every call of a transaction, and 100,000 changed files for each parser: 30 min on two CPUs
        [
            Part(
                "reliability",
                [*pytest, "-v", "-n", "2", "tests/reliability"],
                slow=True,
                rest=True,
                seconds=3600,
            )
        ],
        # setuptools comes from the package index
        [Part("install", [*pytest, "-q", "tests/install"], slow=True, less=WITHOUT_REST)],
        # ansible-test's own linters, from the package index
        [
            Part(
                "sanity",
                [sys.executable, "tests/support/sanity.py"],
                slow=True,
                rest=True,
                env={"PYTHONPATH": str(ROOT / "src")},
            )
        ],
        # sshds in namespaces; if this machine has no sshd, its package is downloaded
        [Part("fleet", [*pytest, "-v", "tests/fleet"], slow=True, rest=True)],
        # needs packages of this system (a browser), so not for --fast
        [Part("report in a browser", [*pytest, "-v", "tests/browser"], slow=True, rest=True)],
        list_lab_parts(),
        [build_faults()],
        # real torch on two nodes, 30 jobs one after the other
        [
            Part(
                "end to end hang",
                [*pytest, "-v", "tests/hang"],
                slow=True,
                rest=True,
                seconds=5400,
                slices=4,
                systems=LOOKALIKES,
            )
        ],
        # on a GPU if this machine has one, with stand-ins if it has only torch; otherwise it reports that it has
        # neither
        [
            Part(
                "gpu",
                [sys.executable, "tests/gpu/acceptance.py", "--device", "auto", "--out", str(GPU)],
                slow=True,
                rest=True,
            )
        ],
        # two and three small emulated machines with soft-RoCE
        [
            Part(
                "end to end rdma",
                [*pytest, "-v", "tests/rdma"],
                slow=True,
                rest=True,
                seconds=3600,
                systems=("Debian 12 emulated",),
            )
        ],
        # runs alone, because two emulated machines need two CPUs (5150 s, while other parts did five times as much
        # work)
        [
            Part(
                "end to end vm",
                [*pytest, "-vx", "tests/vm"],
                slow=True,
                rest=True,
                seconds=7200,
                systems=EMULATED,
            )
        ],
    ]


def list_part_words() -> list[str]:
    """Return the name of every part as one word, for completion."""
    return [part.word for stage in list_stages() for part in stage]


def select_for_ci(part: Part) -> Part:
    """Return the part without the tests that are left to ``--all``."""
    return replace(part, command=[*part.command, *part.less], env={**part.env, **part.less_env})


def slice_part(part: Part) -> list[Part]:
    """Return the slices of a part, each with its own name."""
    if part.slices == 1:
        return [part]
    return [
        replace(
            part,
            name=f"{part.name} {number} of {part.slices}",
            command=[*part.command, "-p", "tests.support.slice_items"],
            env={**part.env, "FULLMESH_TEST_SLICE": f"{number}/{part.slices}"},
        )
        for number in range(1, part.slices + 1)
    ]


def choose_shard(stages: Iterable[list[Part]], commit: str, longest: float) -> list[list[Part]]:
    """Return the parts that ``--all`` adds to CI's selection, in stages. The commit's hash decides which one is first.

    A run takes as many as it has time for, so each commit runs others. Parts that may take longer than *longest* (the
    virtual machines) are never included.
    """
    units = [
        (number, piece)
        for number, stage in enumerate(stages)
        for part in stage
        if (part.rest or part.less or part.less_env) and part.seconds <= longest
        for piece in slice_part(part)
    ]
    start = int(commit, 16) % len(units)
    turned = units[start:] + units[:start]
    groups = itertools.groupby(turned, key=lambda unit: unit[0])
    return [[piece for _, piece in group] for _, group in groups]
