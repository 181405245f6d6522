"""How the project writes: measures of docs, messages, docstrings and task names that may not get worse.

The words and limits come from the language of widely read projects (kubespray, uv, dstack). A text that breaks a limit
is rewritten; the limit is not raised.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fullmesh.settings import ROOT

# What a native reader stumbles over.
STIFF = (
    "shall|anew|beside|of ours|of theirs|nobody|somebody|whoever|whatever|is told|are told|is said of|that is none"
    "|as ever|gives? back|put back|puts back|for want of|goes with|mend|mends|mended|rungs?|climbs?|climbed"
)
# Words that are used wrongly if they are frequent -> the most of them in 1,000 words.
LIMITS = {"where": 1.2, "what": 2.0, STIFF: 0.3, ";": 3.0}
LONG_SENTENCE, MOST_LONG = 25, 0.12
PRODUCT = ("src/fullmesh/*.py", "module_utils/*.py", "library/*.py", "node_programs/*.py")
TASKS = ("roles/*/tasks/*.yml", "roles/*/handlers/*.yml", "molecule/*.yml", "playbooks/*.yml")
TASK_LISTS = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")


def list_files(*patterns: str) -> Iterator[Path]:
    """List the files of the tree that match; a star stands for folders, too."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    paths = [ROOT / name for name in listed]
    return (path for path in paths if path.is_file() and not path.is_symlink())


def strip_markup(text: str) -> str:
    """Leave the sentences of a page, without its code and the targets of its links."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", text))


def list_pages(*patterns: str) -> list[str]:
    return [strip_markup(path.read_text()) for path in list_files(*patterns)]


def list_strings() -> tuple[list[str], list[str]]:
    """List the messages (strings of six words or more) and the docstrings of the product."""
    messages, docstrings = [], []
    for path in list_files(*PRODUCT):
        tree = ast.parse(path.read_text())
        known: set[int] = set()
        for node in ast.walk(tree):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                docstrings.append(text)
                known.add(id(getattr(node.body[0], "value", None)))
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(getattr(part, "value", "X")) for part in node.values)
                known |= {id(part) for part in node.values}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = "" if id(node) in known else node.value
            else:
                continue
            if len(text.split()) >= 6 and re.search("[a-z] [a-z]", text):
                messages.append(text)
    return messages, docstrings


def walk_tasks(tasks: list[Any]) -> Iterator[str]:
    """List the names of tasks, without those of the plays around them."""
    for task in tasks:
        if "hosts" not in task and "ansible.builtin.import_playbook" not in task:
            yield task["name"]
        for key in TASK_LISTS:
            yield from walk_tasks(task.get(key, []))


def list_task_names() -> dict[str, list[str]]:
    """List the names of the tasks of each role, molecule scenario and playbook."""
    found: dict[str, list[str]] = {}
    for path in list_files(*TASKS):
        name = path.relative_to(ROOT)
        owner = str(name if name.parts[0] == "playbooks" else Path(*name.parts[:2]))
        content = yaml.safe_load(path.read_text())
        if isinstance(content, list) and "name" in content[0]:
            found.setdefault(owner, []).extend(walk_tasks(content))
    return found


MESSAGES, DOCSTRINGS = list_strings()
TASK_NAMES = list_task_names()
KINDS = {
    "README": list_pages("README.md"),
    "docs": list_pages("docs/*.md"),
    "READMEs of roles": list_pages("roles/*/README.md"),
    "messages": MESSAGES,
    "docstrings": DOCSTRINGS,
    "task names": [name for names in TASK_NAMES.values() for name in names],
}


def count_long_sentences(texts: list[str]) -> float:
    """Return the share of sentences that are too long."""
    lengths = [
        len(sentence.split())
        for text in texts
        for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) )", text)
        if not block.lstrip().startswith("|")
        for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z`*\[(])", block)
    ]
    return sum(one > LONG_SENTENCE for one in lengths) / len(lengths)


@pytest.mark.parametrize("words", LIMITS)
@pytest.mark.parametrize("kind", KINDS)
def test_few_stiff_words(kind: str, words: str) -> None:
    text = "\n\n".join(KINDS[kind])
    pattern = words if words == ";" else rf"\b(?:{words})\b"
    found = re.findall(pattern, text, re.IGNORECASE)
    assert 1000 * len(found) / len(text.split()) <= LIMITS[words], sorted(set(found))


@pytest.mark.parametrize("kind", KINDS)
def test_few_long_sentences(kind: str) -> None:
    assert count_long_sentences(KINDS[kind]) <= MOST_LONG


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("It works. " * 9 + "Word " * 26, 0.1),
        ("- one two\n- three\n\n" + "word " * 26, 1 / 3),
    ],
)
def test_long_sentences_are_counted(text: str, share: float) -> None:
    assert count_long_sentences([text]) == pytest.approx(share)


@pytest.mark.parametrize("owner", TASK_NAMES)
def test_task_names_are_unique_in_role_scenario_and_playbook(owner: str) -> None:
    names = Counter(TASK_NAMES[owner])
    assert [name for name, count in names.items() if count > 1] == []


def test_task_names_have_three_to_eight_words() -> None:
    assert [
        name
        for name in KINDS["task names"]
        if not 3 <= len(re.sub(r"^\w+ \| |(?<=\{\{).*?(?=\}\})", "", name).split()) <= 8
    ] == []


def test_strings_of_the_product_are_found() -> None:
    assert len(MESSAGES) > 3000
    assert any("Ansible" in text for text in DOCSTRINGS)
    assert len(KINDS["task names"]) > 1000


def test_molecule_expects_words_that_the_product_says() -> None:
    """A message that gets better words fails here, not an hour later in a scenario."""
    product = "\n".join(
        path.read_text() for path in list_files(*PRODUCT, "roles/*.yml", "roles/*.py")
    )
    expected = [
        (path.relative_to(ROOT), said)
        for path in list_files("molecule/*.yml")
        for said in re.findall(r'\bsays: ("[^"]*"|[^,}]+)', path.read_text())
    ]
    assert len(expected) > 10
    assert [
        (str(path), said, word)
        for path, said in expected
        for word in re.findall(r"(?<![\w./_-])[a-z]{4,}(?![\w./_-])", re.sub(r"{{.*", "", said))
        if word not in product
    ] == []
