"""Every rule about GPUs: shown on lab nodes with simulated GPUs (tests/e2e/test_gpus.py), or the reason why not.

A new code in these files fails here until a scenario shows it or this file has a reason.
"""

from __future__ import annotations

import importlib
import re

import pytest

from fullmesh.causes.engine import load_causes
from fullmesh.settings import ROOT

SOURCES = (
    *("verify/cards.py", "verify/gpu.py", "verify/nccl_ways.py"),
    "roles/accelerators.py",
)
NO_CUDA = "needs a torch for CUDA, and GPUs that compute: recorded answers (test_rules_fire.py)"
NO_NCCL = "needs NCCL over GPUs: recorded answers and lines of public logs (test_rules_fire.py)"
# Not on nodes, and why.
ELSEWHERE = {
    **dict.fromkeys(("VC-117", "VC-711", "VC-719", "VC-724"), NO_CUDA),
    **dict.fromkeys(("VC-712", "VC-713", "VC-714", "VC-715", "VC-716"), NO_NCCL),
    **dict.fromkeys(("VC-720", "VC-721", "VC-722", "VC-723"), NO_NCCL),
    "VC-111": "its nodes' difference is DG-149's in a verification that fails, and idle GPUs make every one fail",
    "VC-118": "two packages of NCCL: test_verify_software.py",
    "VC-148": "recorded GID tables: test_nccl_ways.py",
    "PR-120": "a lock of one's own against a driver that is too old: test_preflight.py",
}


def list_rule_codes() -> set[str]:
    """The codes that the rules about GPUs say."""
    text = "".join((ROOT / "src/fullmesh" / name).read_text() for name in SOURCES)
    causes = load_causes("VC").items()
    rung_7 = {code for code, _ in causes if re.match(r"VC-7[12]", code)}
    before = {code for code, cause in causes if cause.family == "gpu" and cause.find}
    return set(re.findall(r"\"((?:VC|PR)-\d{3})\"", text)) | rung_7 | before


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The codes that the plays on lab nodes expect."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT / "tests/support"))
    return set(importlib.import_module("tests.e2e.test_gpus").SHOWN)


def test_every_rule_is_shown_on_nodes_or_has_a_reason(shown: set[str]) -> None:
    assert list_rule_codes() - shown - ELSEWHERE.keys() == set()


def test_no_exception_is_listed_for_a_shown_rule(shown: set[str]) -> None:
    assert shown & ELSEWHERE.keys() == set()
    assert ELSEWHERE.keys() - list_rule_codes() == set()
