"""The schema of result.json equals its types, and accepts and rejects the same as the first, handwritten one."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from record_files import RECORDED, load_record
from report_samples import build_result, large, link, make_dropped_link

from fullmesh.diagnose import judge
from fullmesh.result import read, schema

HERE = Path(__file__).parent
# The schema of version 0.1.0. Files that follow schema 1 must stay valid, and invalid ones invalid.
FIRST = json.loads((HERE / "data/result-1-as-published.json").read_text())
# Keys that were added later. docs/result.md promises that keys may be added.
FIRST["$defs"]["finding"]["properties"]["check"] = {"type": "string"}
FIRST["$defs"]["finding"]["propertyNames"]["enum"].append("check")
PUBLISHED = Draft202012Validator(FIRST)
MADE = Draft202012Validator(schema.build_result_schema())
DROP, UNKNOWN = object(), object()
# Values to insert everywhere: each kind of JSON, the ends of ranges, unknown words.
VALUES = (None, True, -1, 0, 1, 65536, 0.5, "", "word", "open", [], ["a"], ["a", "b"], {}, DROP)
# Open objects, whose content the schema does not check.
OPEN = ("plan", "facts", "details")
ABOUT = judge.DiagnosisRun("20260102T030405Z-abcd", "2026-01-02T03:04:05Z", "2026-01-02T03:04:15Z")


def build_complete_result() -> dict[str, Any]:
    """Return a small result that has every key."""
    made = make_dropped_link()
    made["kind"] = "diagnose"
    made["links"] = [link("el1", "ubuntu1", 1.0), link("ubuntu1", "el1", 1.0, "dropped")]
    made["links"][1]["ports"][0] |= {"errno": "ETIMEDOUT", "reached": "asked"}
    made["nodes"] = {"el1": made["nodes"]["el1"]}
    [finding] = made["findings"][:1]
    inner = {key: value for key, value in finding.items() if key != "follows"}
    made["findings"] = [{**finding, "follows": [inner]}]
    made["notes"] = [{"node": "el1", "code": "PF-201", "text": "odd"}]
    made["not_looked_at"] = [{"node": "el1", "what": "nftables", "why": "needs root"}]
    made["collectives"]["unsupported"] = ["all_to_all"]
    return made


def build_recorded_results() -> Iterator[Any]:
    """Return results from the answers of lab nodes, healthy and broken."""
    for path in sorted((RECORDED / "diagnose").glob("*.json.gz")):
        world = load_record(path)
        if "nodes" in world:
            yield pytest.param(
                judge.diagnose_cluster(world["plan"], world["nodes"], ABOUT), id=path.name
            )


RESULTS = [
    pytest.param(build_result(), id="verification"),
    pytest.param(make_dropped_link(), id="failed verification"),
    pytest.param(large(12), id="twelve nodes"),
    pytest.param(build_complete_result(), id="every key"),
    *build_recorded_results(),
]


@pytest.mark.parametrize("result", RESULTS)
def test_results_follow_the_schema_and_are_read(result: dict[str, Any]) -> None:
    for validator in (PUBLISHED, MADE):
        assert [error.message for error in validator.iter_errors(result)] == []
    assert read.parse_result(result) == result


def test_the_file_equals_the_types() -> None:
    Draft202012Validator.check_schema(schema.build_result_schema())
    assert schema.PATH.read_text() == schema.render_result_schema()
    assert schema.main(["--check"]) == 0


def test_a_file_that_lags_behind_the_types_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schema, "PATH", tmp_path / "result-1.json")
    assert schema.main([]) == 0
    assert schema.main(["--check"]) == 0
    schema.PATH.write_text(schema.render_result_schema().replace("sample", "simple"))
    assert schema.main(["--check"]) == 1
    assert "python -m fullmesh.result.schema" in capsys.readouterr().err


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List every path of a document: in lists only elements with different keys, in open objects only the first key."""
    yield path
    if isinstance(value, dict):
        for key in list(value)[: 1 if path and path[-1] in OPEN[1:] else None]:
            inner = {} if path and path[-1] == "plan" else value[key]
            yield from list_paths(inner, (*path, key))
    elif isinstance(value, list):
        seen: set[str] = set()
        for index, one in enumerate(value):
            shape = str(sorted(one)) if isinstance(one, dict) else ""
            if shape not in seen:
                seen.add(shape)
                yield from list_paths(one, (*path, index))


def change_document(
    document: dict[str, Any], path: tuple[Any, ...], value: Any
) -> dict[str, Any] | None:
    """Return a copy with another value at a path, one key less, or one more. Return None if that is impossible."""
    made = copy.deepcopy(document)
    holder: Any = made
    for key in path[:-1]:
        holder = holder[key]
    if value is UNKNOWN:
        inner = holder[path[-1]] if path else made
        if not isinstance(inner, dict):
            return None
        inner["surprise"] = {}
    elif not path:
        return None
    elif value is DROP:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(value)
    return made


def small() -> dict[str, Any]:
    """Return the small result with a plan of which only the keys are checked."""
    made = build_complete_result()
    made["plan"] = {key: {} for key in made["plan"]}
    return made


WORDS = {
    "verdict": ("ok", "failed", "maybe", "open", "mtu_black_hole"),
    "kind": ("verify", "outside", "rendezvous"),
    "status": ("passed", "skipped", "not_run"),
    "severity": ("warning", "fatal"),
    "id": ("L8", "L9"),
    "rung": ("L8", "L9"),
    "reached": ("complete", "nowhere"),
    "code": ("VC-201", "VC-20", "vc-201", "XVC-201"),
    "run": ("../../etc", "a_B-1"),
}


@pytest.mark.rest  # 30 s of CPU time, for a schema that rarely changes
def test_old_schema_new_schema_and_reader_agree_on_any_change() -> None:
    document = small()
    counts = {True: 0, False: 0}
    for path in list_paths(document):
        name = path[-1] if path else ""
        for value in (*VALUES, UNKNOWN, *WORDS.get(name, ())):
            made = change_document(document, path, value)
            if made is None:
                continue
            good = PUBLISHED.is_valid(made)
            assert MADE.is_valid(made) == good, (path, value)
            assert (not read.list_result_faults(made)) == good, (path, value)
            counts[good] += 1
    assert min(counts.values()) > 200


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ((), UNKNOWN, "$.surprise: unknown field"),
        (("findings", 0, "follows", 0), UNKNOWN, "$.findings[0].follows[0].surprise: unknown"),
        (("links", 0, "rtt_ms"), DROP, "$.links[0]: Object missing required field `rtt_ms`"),
        (("plan", "master"), DROP, "$.plan: Object missing required field `master`"),
        (("links", 1, "verdict"), "lost", "$.links[1].verdict: Invalid enum value 'lost'"),
        (("verdict",), "maybe", "$.verdict: Invalid enum value 'maybe'"),
        (("schema",), 2, "$.schema: Invalid enum value 2"),
        (("rungs", 2, "reason"), "", "$.rungs[2].reason: empty, although the status is failed"),
        (("nodes", "el1", "facts"), [], "$.nodes[...].facts: Expected `object`, got `array`"),
    ],
)
def test_a_refused_field_is_named_with_its_path(
    path: tuple[Any, ...], value: Any, said: str
) -> None:
    made = change_document(build_complete_result(), path, value)
    assert not PUBLISHED.is_valid(made)
    assert not MADE.is_valid(made)
    assert any(text.startswith(said) for text in read.list_result_faults(made)), (
        read.list_result_faults(made)
    )


def test_results_of_before_the_newer_keys_are_read() -> None:
    old = build_complete_result()
    for key in ("kind", "not_looked_at"):
        del old[key]
    for key in ("check", "page", "pairs", "kinds", "follows"):
        del old["findings"][0][key]
    for row in old["links"]:
        for key in ("loss", "mbit_s"):
            row.pop(key, None)
    old["rungs"] = old["rungs"][:7]
    assert PUBLISHED.is_valid(old)
    assert read.parse_result(old) == old


def test_a_lone_surrogate_is_accepted_in_text_but_not_keys() -> None:
    """JSON may contain it (odd bytes of a log), and the reader must not stop."""
    made = change_document(build_complete_result(), ("findings", 0, "cause"), "odd byte \udcff")
    assert PUBLISHED.is_valid(made)
    assert read.parse_result(made) == made
    assert read.list_result_faults({**made, "\udcff": 1}) == ["$.?: unknown field"]
