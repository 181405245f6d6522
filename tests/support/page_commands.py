"""The commands on the pages, in the order of reading, and the expected result of each.

``tests/unit/test_docs_commands.py`` gives every one to the parsers. ``tests/e2e/test_pages.py``
runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fullmesh.explain.pages import render_pages
from fullmesh.settings import ROOT

PATHS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "roles").glob("*/README.md"),
    *(ROOT / "examples").glob("*.md"),
]
# Path of a page (in the checkout, or on the site for generated pages) -> its text.
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(PATHS)} | render_pages()
FENCE = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
OURS, ANSIBLE = "./fullmesh", "ansible-playbook"
PROMPT = re.compile(r"^([$#] )?((?:[A-Z_]+=\S+ )*)(.*)$")
# The end of a command on a line with several, outside quotes.
AFTER = re.compile(r"""(?: && |; | \| )(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
# Placeholders for the reader's own values, or for anything.
LOOSE = re.compile(r"\[[^\]]*\]|\.\.\.|…|<[^>]*>")
VERB = re.compile(r"\./fullmesh( [a-z][a-z-]+){1,2}")
# A row of the table that summarizes a recording: a later command of the page, with its seconds.
SUMMED = re.compile(r"^\| `[^`\n]+` \| \d+ \|$", re.MULTILINE)
# The exit code of a command on a page (the recorded hour has one after each).
CODE = re.compile(r"\s*\*\d+ s, exit code (\d+)\.\*")


@dataclass(frozen=True)
class Shown:
    """A command of a page.

    Attributes:
        command: without comments and optional parts.
        typed: it follows a prompt, or is in a block without prompts or in a sentence. It is not
            part of a command's output or of a summary table.
        code: the exit code that the page states.
    """

    command: str
    typed: bool = True
    code: int | None = None


def list_line_commands(line: str) -> Iterator[str]:
    """List the commands of a line."""
    match = PROMPT.match(line)
    for part in AFTER.split(match[3] if match else ""):
        command = re.sub(r"\s+#\s.*$|\s{2,}\(.*$|\s{3,}.*$| on the controller$", "", part)
        command = LOOSE.sub("", command).rstrip(".: ")
        if command.startswith((f"{OURS} ", f"{ANSIBLE} ")) and len(command.split()) > 1:
            yield command


def list_block_commands(block: str, code: int | None) -> Iterator[Shown]:
    """List the commands of a block."""
    lines = [line.strip() for line in block.splitlines()]
    prompts = any(line.startswith(("$ ", "# ")) for line in lines)
    for line in lines:
        typed = not prompts or line.startswith(("$ ", "# "))
        for command in list_line_commands(line):
            yield Shown(command, typed, code if typed else None)


def list_shown_commands(text: str) -> Iterator[Shown]:
    """List every command of a page, in blocks and in sentences, from top to bottom."""
    blocks = list(FENCE.finditer(text))
    summed = {row.start() + 2 for row in SUMMED.finditer(text)}
    sentences = FENCE.sub(lambda match: " " * len(match[0]), text)
    for match in sorted([*blocks, *INLINE.finditer(sentences)], key=re.Match.start):
        if match.re is FENCE:
            stated_code = CODE.match(text, match.end())
            yield from list_block_commands(match[2], int(stated_code[1]) if stated_code else None)
        else:
            # a sentence may mention a verb
            one = f"{match[1]} --help" if VERB.fullmatch(match[1]) else match[1]
            typed = match.start() not in summed
            yield from (Shown(command, typed) for command in list_line_commands(one))


def list_commands_once() -> list[tuple[str, str]]:
    """List each command once, with the first page that shows it."""
    first_pages: dict[str, str] = {}
    for page, text in PAGES.items():
        for one in list_shown_commands(text):
            first_pages.setdefault(one.command, page)
    return [(page, command) for command, page in first_pages.items()]


def map_runnable_commands() -> dict[str, list[Shown]]:
    """Map each page to its commands in their order, without commands in output."""
    every_page = {
        page: [one for one in list_shown_commands(text) if one.typed]
        for page, text in PAGES.items()
        # it names commands of earlier releases
        if page != "CHANGELOG.md"
    }
    return {page: commands for page, commands in every_page.items() if commands}


# The reader's values that replace words of a page: a whole word, or the beginning of a command.
REPLACEMENTS = (
    (r"^\./fullmesh lab exec --name (hour|night) ", "./fullmesh lab exec --name LAB "),
    (r"^\./fullmesh lab (up|status|exec|down|gpus)(?! --name)", r"./fullmesh lab \1 --name LAB"),
    (r"^\./fullmesh demo(?! --help)", "./fullmesh demo --name LAB"),
    # asks for the machines at a keyboard
    (r"^\./fullmesh init$", "./fullmesh init --hosts el1,ubuntu1 --non-interactive"),
    # a terminal would ask for the password
    (r"^(\./fullmesh init --hosts-file hostfile) -K$", r"\1"),
    (r"^(\./fullmesh init .*)--hosts gpu ", r"\1--hosts gpu[1:2] "),
    (r"^(\./fullmesh init (?!.*--non-interactive)(?!.*--help).*)$", r"\1 --non-interactive"),
    (r"203\.0\.113\.0/24", "NETWORK"),
    (r"(?<= )inventory/lab(?= |$)", "LAB-INVENTORY"),
    (r"(?<= )(inventory/(?:prod|sparks)|INVENTORY)(?= |$)", "inventory/mine"),
    (r"^ansible-playbook playbooks/verify.yml$", r"\g<0> -i inventory/mine"),
    (r"(?<= )CODE$", "VC-202"),
    (r"(?<= )FILE$", "rank0.log"),
    (r"(?<= )FOLDER$", "dumps"),
    (r"(?<= )COMMAND$", "hostname"),
    (r"(?<= )NODE,OTHER,", "NODE-ONE,NODE-TWO,"),
    (r"(?<= )NODE$", "NODE-ONE"),
    (r"(?<= )(OTHER|A)(?= )", "EARLIER"),
    (r"(?<= )(RUN|B|runs/20\w+-\w+)(?= |$)", "runs/latest"),
    (r"(?<=--to )/tmp$", "archives"),
    # asks on a terminal, which a reader has and this test does not
    (r"^\./fullmesh undo(?! --help)(?!.*--dry-run)(?!.*--yes)", "./fullmesh undo --yes"),
    # ssh does not set the PATH of a login
    (r"(?<= )fullmesh-torchrun(?= )", "/opt/fullmesh/bin/fullmesh-torchrun"),
)


def fill_in_words(command: str) -> str:
    """Return the command with a reader's own values."""
    for pattern, words in REPLACEMENTS:
        command = re.sub(pattern, words, command)
    return command


# Commands that end with 0 or 1, and why.
EITHER = {"./fullmesh report OTHER RUN": "on a busy machine, the later run is worse"}
TESTS = "the tests themselves, of which this is one"
REGISTRY = "pulls images from a registry, which is not everywhere in reach"
EC2 = "asks AWS; tests/ec2 runs it against a mock"
COLLECTION = "wants the installed collection; tests/e2e/test_collection.py runs it on nodes"
REGISTRY = "needs images of a registry; the job image of the workflow test runs lab up with each"
BUNDLE = "wants bare machines without a way out; molecule's scenario bundle runs it"


def list_test_commands() -> list[str]:
    """List the commands of the pages that run tests."""
    every = {one.command for commands in map_runnable_commands().values() for one in commands}
    return sorted(
        command
        for command in every
        if command.startswith(f"{OURS} test") and not re.search("--help|--list", command)
    )


# Commands that do not run here, each with its reason.
NOT_RUN = {
    **dict.fromkeys(list_test_commands(), TESTS),
    "./fullmesh docs --check": "the part docs runs it",
    "./fullmesh watch -- torchrun --nnodes=2  train.py": "the controller has no torchrun",
    "./fullmesh lab up --name rocky": REGISTRY,
    "./fullmesh lab up --name two": REGISTRY,
    "./fullmesh demo --nodes 8": "8 nodes would stay in the lab and slow down every later command",
    "./fullmesh lab down --all --purge": "would take away the labs of other tests",
    "./fullmesh torch-lock --torch 2.13.0+rocm6.4 --accelerator rocm6.4"
    " --index https://download.pytorch.org/whl/rocm6.4 -o torch-rocm.txt": (
        "asks an index that is not everywhere in reach"
    ),
    "./fullmesh bundle -i staging -o fullmesh-bundle.tar": BUNDLE,
    "./fullmesh apply -i inventory/mine -e fullmesh_bundle=$PWD/../fullmesh-bundle.tar": BUNDLE,
    **{
        f"ansible-playbook playbooks/{name} -i inventory/mine": EC2
        for name in ("ec2.yml", "ec2_diagnose.yml", "ec2_undo.yml", "efa_diagnose.yml")
    },
    "ansible-playbook playbooks/ec2.yml -i inventory/mine --check --diff": EC2,
    **{
        f"ansible-playbook fullmesh.cluster.{name} -i hosts.yml": COLLECTION
        for name in ("site", "verify", "diagnose", "undo")
    },
}


@dataclass(frozen=True)
class End:
    """An expected exit code other than 0, if the page does not state it next to the command."""

    code: int
    why: str


FOUND = "causes are found in these logs"
UNDONE = "the page has removed a node before, so the nodes differ"
NO_JOB = "no job runs on the nodes, and it says so ([HG-181])"
ENDS = {
    "./fullmesh status -i inventory/mine --json": End(1, UNDONE),
    "./fullmesh diagnose -i inventory/mine --json": End(1, UNDONE),
    "./fullmesh explain-log rank0.log rank1.log": End(1, FOUND),
    "./fullmesh explain-log --data-ports 50000-54095 rank0.log rank1.log": End(1, FOUND),
    "./fullmesh explain-log --data-ports 50000-54095 logs/": End(1, FOUND),
    "./fullmesh explain-log --json rank0.log": End(1, FOUND),
    "./fullmesh explain-log --html page.html logs/": End(1, FOUND),
    "./fullmesh explain-log dumps/": End(1, FOUND),
    "./fullmesh explain-log FILE": End(1, FOUND),
    "./fullmesh explain-log FOLDER": End(1, FOUND),
    "./fullmesh explain-log groups_crossed_0 groups_crossed_1": End(1, FOUND),
    "./fullmesh hang -i inventory/mine": End(2, NO_JOB),
    "./fullmesh hang -i INVENTORY": End(2, NO_JOB),
}
