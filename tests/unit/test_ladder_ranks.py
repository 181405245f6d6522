"""Ranks that run detached: through, dead, hanging; and what the rank's program computes."""

import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils import fullmesh_detach as detach
from ansible.module_utils import fullmesh_ranks as ranks
from loaded import load

from fullmesh import verify_ranks
from fullmesh.settings import ROOT

WELL = "import json, os, sys; open(sys.argv[2], 'w').write(json.dumps({'step': os.environ['RANK']}) + '\\n')"
CRASH = "import os, time; print('bang'); time.sleep(9 * (os.environ['RANK'] != '3')); raise SystemExit(4)"
HANG = "import time; time.sleep(99)"


def spec(base: Path, script: str, **change: Any) -> dict[str, Any]:
    detach.make_run_directory("run1", str(base))
    made = {
        "run": "run1",
        "base": str(base),
        "ranks": [3, 4],
        "python": sys.executable,
        "script": script,
        "environment": {"MASTER_PORT": 1},
        "settings": {"deadline": 5},
        "deadline": 5,
    }
    return {**made, **change}


def collected(base: Path) -> dict[str, Any]:
    found: dict[str, Any] = ranks.collect_ranks("run1", str(base), 20.0)
    assert found["done"]
    return found


def test_ranks_run_and_report(tmp_path: Path) -> None:
    ranks.start_ranks(spec(tmp_path, WELL))
    found = collected(tmp_path)
    assert found["ended"]["codes"] == {"3": 0, "4": 0}
    assert [found["ranks"][r]["events"] for r in "34"] == [[{"step": "3"}], [{"step": "4"}]]
    assert ranks.current_step(found["ranks"]["3"]) == "3"


def test_ranks_that_hang_are_killed_at_the_deadline(tmp_path: Path) -> None:
    begun = time.monotonic()
    ranks.start_ranks(spec(tmp_path, HANG, deadline=5))
    assert time.monotonic() - begun < 5
    found = collected(tmp_path)
    assert sorted(found["ended"]["killed"]) == [3, 4]


def test_a_dead_rank_takes_its_neighbours_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "GRACE", 0.2)
    ranks.start_ranks(spec(tmp_path, CRASH, deadline=30))
    found = collected(tmp_path)
    assert found["ended"]["codes"] == {"3": 4}
    assert found["ended"]["killed"] == [4]
    assert found["ranks"]["3"]["log"] == "bang"


def test_an_interpreter_that_is_not_there_is_reported(tmp_path: Path) -> None:
    ranks.start_ranks(spec(tmp_path, WELL, python="/nonexistent/python"))
    assert "nonexistent" in collected(tmp_path)["ended"]["error"]


def test_nothing_started_is_done(tmp_path: Path) -> None:
    assert collected(tmp_path)["started"] is False


def test_results_that_nobody_collects_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "KEEP", 0.1)
    ranks.start_ranks(spec(tmp_path, WELL))
    deadline = time.monotonic() + 10
    while (tmp_path / "run1").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_settings_of_this_shell_do_not_reach_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "docker0")
    env = ranks.rank_environment({"environment": {"WORLD_SIZE": 2}}, 1, 0)
    assert "GLOO_SOCKET_IFNAME" not in env
    assert (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"]) == ("1", "0", "2")


@pytest.mark.parametrize("run", ["", "../x", "a/b", "a b"])
def test_run_names_stay_in_their_directory(run: str) -> None:
    with pytest.raises(ValueError, match="run id"):
        detach.run_directory(run)


@pytest.fixture(scope="module")
def ladder() -> ModuleType:
    return load(ROOT / "roles/verify_cluster/files/gloo_ladder.py")


@pytest.mark.parametrize(
    ("world", "groups"),
    [
        (1, [[0]]),
        (2, [[0], [1], [0, 1]]),
        (5, [[0, 2, 4], [1, 3], [0, 1], [2, 3]]),
    ],
)
def test_groups_cover_evens_odds_and_pairs(
    ladder: ModuleType, world: int, groups: list[list[int]]
) -> None:
    assert ladder.group_members(world) == groups


def test_groups_stay_few_in_a_large_world(ladder: ModuleType) -> None:
    groups = ladder.group_members(512)
    assert len(groups) == 2 + ladder.GROUP_PAIRS
    assert all(sum(rank in group for group in groups) <= 2 for rank in range(512))


def test_the_steps_of_the_program_are_the_steps_of_the_rules(ladder: ModuleType) -> None:
    assert list(ladder.STEPS) == list(verify_ranks.STEPS)


def test_addresses_are_decoded(ladder: ModuleType) -> None:
    assert ladder.decode("0B064E0A:C351") == ("10.78.6.11", 50001)
    assert ladder.decode("0000000000000000FFFF00000B064E0A:0050") == ("10.78.6.11", 80)
