"""Foreign text becomes a bounded value or a ForeignTextError, on nodes and on the controller."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pattern_growth
import pytest
from ansible.module_utils.fullmesh import foreign_text
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64) + 1, 2**64 - 1) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_json_is_read_unchanged(value: Any) -> None:
    assert foreign_text.parse_foreign_json(json.dumps(value)) == value
    assert foreign_text.parse_foreign_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 5000 + "]" * 5000, "nested"),
        ("[" * 100_000, "nested"),
        ("[" * 65 + "]" * 65, "nested more than 64 times"),
        ('{"a":' * 65 + "1" + "}" * 65, "nested more than 64 times"),
        ("9" * 5001, "a number of 5001 digits"),
        (str(2**64), "a number of 20 digits"),
        ("-" + str(10**21), "a number of 23 digits"),
        ("[" + "[]," * 1_000_000 + "[]]", "values"),
        ("[" + "," * 2_000_001, "values"),
        (" " * (16 << 20) + "1", "bytes"),
        ("", "cut off or damaged"),
        ('{"a": ', "cut off or damaged"),
        (b"\xff\xff", "cut off or damaged"),
        (b"\x00[\x00]", "cut off or damaged"),
    ],
)
def test_hostile_json_is_refused_with_the_reason(text: Any, why: str) -> None:
    with pytest.raises(foreign_text.ForeignTextError, match=why):
        foreign_text.parse_foreign_json(text)


def test_deep_json_within_the_limit_is_read() -> None:
    assert foreign_text.parse_foreign_json("[" * 64 + "]" * 64)


def test_commas_in_strings_are_not_counted_as_values() -> None:
    long = ',[{\\"' * 1000
    assert len(foreign_text.parse_foreign_json(json.dumps([long]), most_values=2)[0]) == len(long)
    with pytest.raises(foreign_text.ForeignTextError, match="values"):
        foreign_text.parse_foreign_json('["\\\\",1,2,3]', most_values=3)


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"a\\uDfFf"', '{"\\udcff": ["\\udcff"]}', '"\udcff"']
)
def test_half_surrogates_can_be_printed_afterwards(text: str) -> None:
    found = foreign_text.parse_foreign_json(text)
    assert json.dumps(found, ensure_ascii=False).encode()


def test_whole_surrogate_pairs_stay() -> None:
    assert foreign_text.parse_foreign_json('"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("65535", 65535),
        ("007", 7),
        ("-1", None),
        ("²", None),
        ("٣", None),
        ("1_0", None),
        (" 1", None),
        ("1\n", None),
        ("", None),
        ("9" * 5000, None),
        (str(2**64), None),
        (None, None),
        (5, None),
    ],
)
def test_decimal_takes_ascii_digits_in_bounds_only(text: Any, number: int | None) -> None:
    assert foreign_text.parse_decimal(text) == number


def test_decimal_respects_its_bounds() -> None:
    assert foreign_text.parse_decimal("70000", 65535) is None
    assert foreign_text.parse_decimal("-1", least=-1) == -1
    assert foreign_text.parse_decimal("-2", least=-1) is None


# --- the tree --------------------------------------------------------------------------------------------

CODE = (
    *("action_plugins", "callback_plugins", "filter_plugins", "library", "module_utils"),
    *("node_programs", "src/fullmesh", "roles"),
)
STATE = "root's file under /var/lib/fullmesh, which Fullmesh wrote"
# Function that reads text written by Fullmesh -> the text.
OWN_TEXT = {
    "module_utils/fullmesh/ask/boot.py:receive_program": "the program, proved by its checksum",
    "module_utils/fullmesh/ask/boot.py:main": "the controller's question",
    "module_utils/fullmesh/bundle/archive.py:open_bundle": "written here, of an index that was read",
    "module_utils/fullmesh/firewall/observed.py:list_carried_ports": STATE,
    "module_utils/fullmesh/probe/ranks.py:read_run_json": "root's file of this run",
    "module_utils/fullmesh/probe/rdma.py:read_apart": "a process of its own, forked from it",
    "module_utils/fullmesh/state/record.py:load": STATE,
    "module_utils/fullmesh/state/written.py:load_written_files": STATE,
    "module_utils/fullmesh/transaction/engine.py:claim_transaction": STATE,
    "module_utils/fullmesh/transaction/engine.py:journal_of": STATE,
    "module_utils/fullmesh/transaction/engine.py:read_json": STATE,
    "module_utils/fullmesh/transaction/engine.py:read_kernel_view": "ip -j; the engine is one file without imports",
    "module_utils/fullmesh/wheel_share.py:read_share_token": STATE,
    "module_utils/fullmesh/wheelhouse.py:load_recorded_wheels": "the controller's own cache",
    "node_programs/fullmesh_burn_rank.py:main": "the task of fullmesh-check, which started it",
    "node_programs/fullmesh_check.py:read_result": "a process of its own, forked from it",
    "node_programs/fullmesh_launch.py:read_nodes_file": "/etc/fullmesh/nodes.json, which the role wrote",
    "node_programs/fullmesh_services.py:read_service_ports": "/etc/fullmesh/services.json, likewise",
    "node_programs/fullmesh_watch.py:load_plan": "the same files, or the controller's plan",
    "src/fullmesh/verbs/cluster.py:print_offline_plan": "a file that a playbook of this run wrote",
    "src/fullmesh/verbs/doctor.py:parse_answer": "Ansible's programs and collections of this user; any text",
    "src/fullmesh/verbs/status.py:query_cluster": "a file that a playbook of this run wrote",
    "src/fullmesh/verbs/watch.py:list_diagnosis_causes": "./fullmesh diagnose of this run",
    "src/fullmesh/verbs/watch.py:resolve_job_hosts": "a file that a playbook of this run wrote",
    "roles/verify_cluster/files/gloo_ladder.py:main": "the settings of the run",
    "roles/verify_cluster/files/ladder_rank.py:decode_row": "a row of 1 KiB; runs where torch is, without imports",
    "src/fullmesh/ask/each.py:read_arguments": "arguments that a filter of this run wrote",
    "src/fullmesh/ask/lease.py:": "the question of this run, from the process that started it",
    "src/fullmesh/ask/lease.py:parse_outcome": "an answer that a process of this run has read",
    "src/fullmesh/play/run.py:forward_event": "events of the callback of this run",
}


def python_files() -> Iterator[Path]:
    """List every file that runs on nodes or on the controller, each once."""
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = [ROOT / part for part in path.relative_to(ROOT).parents]
            if not path.is_symlink() and not any(one.is_symlink() for one in inside):
                yield path


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """List each call and attribute of a file, with its outermost function."""
    for top in tree.body:
        inner = top.body if isinstance(top, ast.ClassDef) else [top]
        for one in inner:
            name = getattr(one, "name", "")
            yield from ((name, node) for node in ast.walk(one))


def is_json_reader(node: ast.AST) -> bool:
    """Return whether the node reads JSON that was not made in the same expression."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if ast.unparse(node.func) not in ("json.loads", "json.load"):
        return False
    return "json.dumps(" not in ast.unparse(node.args[0])


def test_foreign_json_is_read_by_one_parser() -> None:
    found = set()
    for path in python_files():
        if path.name == "foreign_text.py":
            continue
        for name, node in functions(ast.parse(path.read_text())):
            if is_json_reader(node):
                found.add(f"{path.relative_to(ROOT)}:{name}")
    assert found == set(OWN_TEXT), "use foreign_text.parse_foreign_json, or say who wrote the text"


# Pattern whose time can grow faster than its text -> the reason why only root or the kernel chooses
# that text.
ROOTS_FILE = "a line of a file that only root writes"
GROWING = {
    r"^\s*manage_etc_hosts\s*:\s*([^#\n]*?)\s*(?:#.*)?$": ROOTS_FILE,
    "\\s*([\\\"']?)([^\\\"'#\\s][^\\\"']*?)\\1\\s*:(?:\\s+(.*))?$": ROOTS_FILE,
    r"^Name\s*=\s*(.*)$": ROOTS_FILE,
    r"kfree_skb: .{0,200}?location=([\w.]+)\S* reason: ([A-Z0-9_]+)": "a line of the kernel's trace",
    r"^(Max [a-z ]+?) {2,}(\d+|unlimited) +(\d+|unlimited)": "/proc/PID/limits",
    r"^ +(ingress-zones|egress-zones): *(.*)$": "firewall-cmd, of root's settings",
    r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+": "Fullmesh's own source",
    r"^[ \t]*from (\.+)([\w.]*) import (?:\(([^)]*)\)|(.*))$": "Fullmesh's own source",
}
RE_METHODS = {
    *("compile", "search", "match", "fullmatch", "split", "sub", "subn", "findall", "finditer")
}


def only_from_the_beginning(tree: ast.Module) -> set[int]:
    """List the lines of patterns that are only used in their own file, and only by match and fullmatch."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
    return {
        one.value.lineno
        for one in tree.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
        if used.get(one.targets[0].id, {"search"}) <= {"match", "fullmatch"}
    }


def literal_patterns() -> Iterator[tuple[str, str, bool]]:
    """List each literal regular expression with its place, and whether it searches a text."""
    for path in python_files():
        tree = ast.parse(path.read_text())
        beginning = only_from_the_beginning(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner, method = ast.unparse(node.func.value), node.func.attr
            if owner == "re" and method in RE_METHODS and isinstance(node.args[0], ast.Constant):
                value = node.args[0].value
                text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                searched = method not in ("match", "fullmatch") and node.lineno not in beginning
                yield place, text, searched


def test_no_pattern_on_foreign_text_grows_faster_than_the_text() -> None:
    """The test looks at the structure of each pattern, not at times."""
    found, known = {}, set()
    for place, text, searched in literal_patterns():
        why = pattern_growth.explain_growth(text, 0, searched=searched)
        if why and text in GROWING:
            known.add(text)
        elif why:
            found[place] = f"{text}: {why}"
    assert not found
    assert known == set(GROWING)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"\s+#|;", "begins with"),
        (r"x\s*\s*y", "share characters"),
        (r"x(\w+)\s*[a-z]*$", "share characters"),
        (r"(a+)+$", "repeat of an endless repeat"),
        (r"(?:\s*x?\s*)*y", "repeat of an endless repeat"),
        (r"x\s+(\d+)\s+(\w+)", ""),
        (r"\A[a-z]+(?:\.[a-z]+)*\Z", ""),
        (r'"[^"]*"', ""),
        (r"x{1,500}y{0,500}z", ""),
        (r"\s#|;", ""),
    ],
)
def test_the_structure_of_a_pattern_shows_its_growth(pattern: str, why: str) -> None:
    found = pattern_growth.explain_growth(pattern, 0, searched=True)
    assert why in found if why else not found


def test_numbers_of_foreign_text_are_not_judged_by_isdigit() -> None:
    """``"²".isdigit()`` is true, and ``int("²")`` raises ValueError."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isnumeric")
    ]
    assert not found, "use foreign_text.parse_decimal"
