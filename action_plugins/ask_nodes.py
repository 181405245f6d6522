"""Asks all hosts of a play one question at once: the work behind the module of the same name (library/ask_nodes.py)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
for one in Path(__file__).resolve().parents[1:3]:
    if (one / "src").is_dir():
        sys.path.insert(0, str(one / "src"))

from ansible import constants  # type: ignore[attr-defined]  # ansible ships no types
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from fullmesh.ask import answers, program, rounds, ways
from fullmesh.ask.channel import Way
from fullmesh.ask.talk import Asked
from fullmesh.plain import plain

ARGUMENTS = {
    "question": {"type": "str", "required": True, "choices": sorted(program.KNOWN)},
    "common": {"type": "dict", "default": {}},
    "each": {"type": "dict", "default": {}},
    "seconds": {"type": "int", "default": 60},
    "folder": {"type": "path", "default": program.FOLDER},
}
# As often as the progress callback gives a sign of life.
EVERY_SECONDS = 10.0
display = Display()


def questions(wanted: Mapping[str, Any], found: Mapping[str, Way]) -> dict[str, Asked]:
    """The question for each host."""
    ask = program.KNOWN[wanted["question"]]
    common, each = plain(wanted["common"]), plain(wanted["each"])
    return {
        host: Asked(
            ask,
            {**common, **{name: values.get(host, "") for name, values in each.items()}},
            wanted["seconds"],
            wanted["folder"] if way.root else "",
        )
        for host, way in found.items()
    }


async def asked(
    found: Mapping[str, Way], asks: Mapping[str, Asked], at_once: int
) -> dict[str, rounds.Outcome]:
    """Ask everybody, and say whose answer is missing while it takes long."""
    waiting = dict.fromkeys(found)

    async def speak() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            names, seconds = answers.some(waiting), loop.time() - begun
            display.display(f"  … asked {len(found)} nodes: {seconds:.0f} s, waiting for {names}")

    voice = asyncio.create_task(speak())
    try:
        return await rounds.everybody(
            found, asks, at_once, lambda host, _outcome: waiting.pop(host, None)
        )
    finally:
        voice.cancel()


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """``ask_nodes``."""

    BYPASS_HOST_LOOP = True
    _supports_check_mode = True
    _requires_connection = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Work out the ways, ask, tell."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        hosts = [str(host) for host in variables["ansible_play_hosts"]]
        asker = ways.Asker(self._task, self._play_context, self._templar)
        found, ordinary = ways.ways(asker, variables["hostvars"], hosts)
        outcomes = asyncio.run(asked(found, questions(wanted, found), constants.DEFAULT_FORKS))
        told = {host: answers.result(found[host], outcome) for host, outcome in outcomes.items()}
        said: dict[str, Any] = {"changed": False, "answers": told, "ordinary": ordinary}
        if warnings := [*answers.ordinary(ordinary), *answers.unkept(outcomes)]:
            said["warnings"] = warnings
        return said
