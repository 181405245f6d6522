"""Survey the machines through Ansible, and read their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullmesh import contract
from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_foreign_json
from fullmesh.init import propose, render
from fullmesh.init.machines import Machine
from fullmesh.init.propose import MachineAnswer
from fullmesh.model import reach
from fullmesh.observed.first_look import Ways
from fullmesh.observed.node import NodeFacts
from fullmesh.play import run
from fullmesh.play.views import RunView
from fullmesh.printed import clean_and_shorten

NOTHING: Mapping[str, Any] = {"failed": True}
LONGEST = 2000  # characters of a machine's message
PYTHON = "discovered_interpreter_python"


@dataclass(frozen=True)
class MachineSurvey:
    """The answers of the machines.

    Attributes:
        answers: of the machines that can be planned with.
        faults: of the machines that did not answer.
        remarks: problems to solve before an apply.
    """

    answers: Mapping[str, MachineAnswer]
    faults: Sequence[Fault]
    remarks: Sequence[Fault]


def survey_machines(
    machines: Sequence[Machine], more: Sequence[str], shown: RunView, folder: Path
) -> MachineSurvey:
    """Survey all machines at once. This changes nothing on them."""
    answers = folder / "first-look"
    answers.mkdir(parents=True, mode=0o700)
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps(render.build_survey_inventory(machines)), encoding="utf-8")
    command = ["ansible-playbook", "playbooks/first_look.yml", "-i", str(inventory)]
    run.run_with_view(
        [*command, "-e", json.dumps({"first_look_to": str(answers)}), *more], shown, folder
    )
    return read_survey(
        machines, {path.stem: path.read_text() for path in sorted(answers.glob("*.json"))}
    )


def read_survey(machines: Sequence[Machine], texts: Mapping[str, str]) -> MachineSurvey:
    """Read the answers. *told* maps each machine to its file."""
    answers: dict[str, MachineAnswer] = {}
    faults, remarks = [], []
    for machine in machines:
        try:
            said = parse_survey_file(texts.get(machine.name, "{}"))
            root = read_machine_facts(said["root"])
            facts = root or read_machine_facts(said["plain"])
            if facts is None:
                faults.append(explain_silent_machine(machine, said["plain"] or said["root"]))
                continue
            answer = MachineAnswer(
                facts["ansible_facts"], contract.convert_answer(Ways, said["ways"] or NOTHING)
            )
            propose.list_attachments(answer)
        except ValueError as error:
            faults.append(explain_unusable_answer(machine, error))
            continue
        answers[machine.name] = answer
        if root is None:
            remarks.append(explain_missing_root(machine, said["root"]))
    return MachineSurvey(answers, faults, remarks)


def parse_survey_file(text: str) -> dict[str, dict[str, Any]]:
    """Return the three answers of a machine, {} for one that is missing.

    Raises:
        ValueError: the file holds something else.
    """
    found = parse_foreign_json(text)
    if not isinstance(found, dict):
        raise ValueError("its answer is not a mapping")
    parts = {name: found.get(name) or {} for name in ("root", "plain", "ways")}
    if not all(isinstance(part, dict) for part in parts.values()):
        raise ValueError("a part of its answer is not a mapping")
    return parts


def read_machine_facts(said: Mapping[str, Any]) -> NodeFacts | None:
    """Read the result of node_facts. Ansible adds the Python that it found to a module's facts."""
    if not said:
        return None
    facts = said.get("ansible_facts")
    if isinstance(facts, Mapping):
        facts = {key: value for key, value in facts.items() if key != PYTHON}
    return contract.convert_answer(NodeFacts, {**said, "ansible_facts": facts})


def describe_answer_failure(said: Mapping[str, Any]) -> str:
    """Join all messages of a failed answer."""
    parts = (said.get("msg"), said.get("module_stderr"), said.get("module_stdout"))
    text = " ".join(str(part).strip() for part in parts if part)
    return clean_and_shorten(" ".join(text.split()), LONGEST) or "no answer"


def explain_unusable_answer(machine: Machine, error: ValueError) -> Fault:
    """Explain an answer with a value that no honest machine reports."""
    text = f"{machine.name}: Fullmesh does not accept its answer: {clean_and_shorten(str(error), LONGEST)}"
    step = f"Check: ssh {machine.ssh} (the machine is broken, or not yours). Fix: leave it out"
    return Fault("IN-108", text, step)


def explain_silent_machine(machine: Machine, said: Mapping[str, Any]) -> Fault:
    """Explain why a machine, or its Python, did not answer."""
    text = describe_answer_failure(said)
    why = reach.explain_reach_failure(text, machine.ssh, machine.user)
    if why is None:
        return Fault("IN-103", f"{machine.name}: {text}", f"Try: ssh {machine.ssh}")
    return Fault("IN-103", f"{machine.name}: {why.what}", why.step)


def explain_missing_root(machine: Machine, said: Mapping[str, Any]) -> Fault:
    """Explain why a machine was surveyed without root."""
    text = describe_answer_failure(said)
    why = reach.explain_reach_failure(text, machine.ssh, machine.user)
    if why is None:
        return Fault("IN-106", f"{machine.name}: no survey as root: {text}", "Give its user sudo")
    return Fault("IN-106", f"{machine.name}: {why.what}", why.step)
