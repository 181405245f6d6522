"""Validate the answers of nodes: drop every malformed part before a rule reads it.

Observations come from machines that are broken, half installed or hostile. Templates, made from the types of the
modules, describe each part. Text is cleaned of control characters and cut, and numbers must be numbers. A dictionary
without a required key is dropped, and so is a list's item that does not match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints, is_typeddict

from fullmesh import contract, node_values
from fullmesh.observed import ladder, survey
from fullmesh.printed import CONTROL
from fullmesh.verify.model import NodeAnswers

TEXT_MOST, LIST_MOST = 600, 20000
HUGE = 2**63
NOTHING = object()
DEPTH = 40


class TemplateMismatch(ValueError):  # noqa: N818 (a verdict about data, not an error of the program)
    """The value does not match the template."""


@dataclass(frozen=True)
class ListTemplate:
    """A list. Items that do not match are dropped."""

    of: Any
    most: int = LIST_MOST


@dataclass(frozen=True)
class TableTemplate:
    """A dictionary with any keys."""

    of: Any


@dataclass(frozen=True)
class OptionalTemplate:
    """None, or the template."""

    of: Any


@dataclass(frozen=True)
class ChoiceTemplate:
    """One of these texts."""

    of: tuple[str, ...]


@dataclass(frozen=True)
class RawTemplate:
    """Any JSON, cleaned: rules of nftables."""


def clean_value(value: Any, most: int = TEXT_MOST) -> str:
    """Return the value as one line of printable text."""
    text = value if type(value) is str else str(value)
    # No character of CONTROL is printable, and this test takes a fifth of the search's time.
    return text[:most] if text.isprintable() else CONTROL.sub(" ", text)[:most]


def fit_value(template: Any, value: Any) -> Any:
    """Return the value as the template requires.

    Raises:
        TemplateMismatch: it cannot be converted.
    """
    if isinstance(template, dict):
        return fit_dict(template, value)
    if isinstance(template, ListTemplate):
        if not isinstance(value, list):
            raise TemplateMismatch("no list")
        fitted = (fit_or_default(template.of, one, NOTHING) for one in value[: template.most])
        return [one for one in fitted if one is not NOTHING]
    if isinstance(template, TableTemplate):
        if not isinstance(value, Mapping):
            raise TemplateMismatch("not a dictionary")
        some = list(value.items())[:LIST_MOST]
        items = ((clean_value(key), fit_or_default(template.of, one, NOTHING)) for key, one in some)
        return {key: one for key, one in items if one is not NOTHING}
    if isinstance(template, OptionalTemplate):
        return None if value is None else fit_value(template.of, value)
    if isinstance(template, RawTemplate):
        return clean_json(value)
    return fit_scalar(template, value)


def fit_or_default(template: Any, value: Any, otherwise: Any = None) -> Any:
    """Return the value as the template requires, or *otherwise* if it does not match."""
    try:
        return fit_value(template, value)
    except TemplateMismatch:
        return otherwise


def fit_dict(template: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Validate a dictionary. ``key?`` may be missing, and is dropped if it does not match."""
    if not isinstance(value, Mapping):
        raise TemplateMismatch("not a dictionary")
    found = {}
    for name, inner in template.items():
        key = name.rstrip("?")
        if key not in value:
            if name.endswith("?"):
                continue
            raise TemplateMismatch(f"{key} is missing")
        try:
            found[key] = fit_value(inner, value[key])
        except TemplateMismatch:
            if not name.endswith("?"):
                raise
    return found


def fit_scalar(kind: Any, value: Any) -> Any:
    """Validate a text, a word, a number or a truth value."""
    if isinstance(kind, ChoiceTemplate):
        if isinstance(value, str) and value in kind.of:
            return value
        raise TemplateMismatch(f"none of {', '.join(kind.of)}")
    if isinstance(kind, re.Pattern):
        if isinstance(value, str) and kind.match(value):
            return value
        raise TemplateMismatch("a text that no such value has")
    if kind is str and isinstance(value, (str, int, float)):
        return clean_value(value)
    if kind is bool and isinstance(value, bool):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TemplateMismatch(f"{type(value).__name__} instead of {kind}")
    if not abs(value) < HUGE:  # NaN and the infinities, too
        raise TemplateMismatch("the number is out of range")
    return int(value) if kind is int else float(value)


def clean_json(value: Any, depth: int = 0) -> Any:
    """Return any JSON up to the allowed depth."""
    if depth > DEPTH:
        return None
    if isinstance(value, str):
        return clean_value(value)
    if isinstance(value, Mapping):
        return {
            clean_value(key): clean_json(one, depth + 1)
            for key, one in list(value.items())[:LIST_MOST]
        }
    if isinstance(value, (list, tuple)):
        return [clean_json(one, depth + 1) for one in value[:LIST_MOST]]
    return value if isinstance(value, (bool, int)) else None


# The longest length of a list, by its key or the key of its table. LIST_MOST for all others.
MOST = {
    "unknown": 100,
    "interfaces": 1000,
    "lost": 2,
    "kernel_log": 100,
    "range": 2,
    "own_answers": 50,
    "master_answers": 50,
    "pci": 100,
    "verbs": 100,
    "domains": 100,
    "strangers": 50,
}


def build_template(kind: Any, key: str = "", pattern: re.Pattern[str] | None = None) -> Any:
    """Return the template of a type of ``fullmesh.observed``.

    Args:
        kind: the type.
        key: the key of its value.
        pattern: of the texts in it: those that are named in the commands of a finding.
    """
    if is_typeddict(kind):
        hints, named = get_type_hints(kind), contract.find_field_patterns(kind, node_values.NAMED)
        optional = kind.__optional_keys__
        return {
            name + "?" * (name in optional): build_template(inner, name, named.get(name))
            for name, inner in hints.items()
        }
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        return ListTemplate(build_template(inner[0], "", pattern), MOST.get(key, LIST_MOST))
    if origin is dict:
        return TableTemplate(build_template(inner[1], key))
    if origin is UnionType:  # X | None, the only one there is
        return OptionalTemplate(build_template(inner[0], key))
    if origin is Literal:
        return ChoiceTemplate(inner)
    leaf = pattern if kind is str and pattern else kind
    return RawTemplate() if kind is Any else leaf


PORT = build_template(ladder.ProbePort)
LINK = build_template(ladder.LinkResult)
NAMES = build_template(ladder.ResolvedNames)
BESIDE = build_template(survey.ParallelLookups)
FACTS = build_template(ladder.LadderFacts)
NCCL = build_template(ladder.NcclListener)
LISTENERS = build_template(ladder.ListenerReport)
RATE = build_template(ladder.PeerRate)
WAY = build_template(ladder.PacketRoute)
SWEPT = build_template(ladder.SweepResult)
JOB_PROBE = build_template(ladder.JobProbe)
JOB_NETWORK = build_template(ladder.JobNetwork)
RDMA = build_template(ladder.RdmaProbe)
RAILS = build_template(ladder.RailProbe)
RAIL_PORT = build_template(ladder.RailPort)
NEIGHBOURS = build_template(survey.NeighbourTable)
TRACED = build_template(ladder.TracedPacket)
EFA = build_template(survey.EfaSurvey)
LAST_PORT = 65535
MBIT_MOST = 1e7  # of an RDMA port; the fastest one has 800,000
TRACED_MOST, NETWORKS_MOST, RAILS_MOST = 500, 16, 100


def keep_valid_links(links: list[dict[str, Any]], names: set[str]) -> list[dict[str, Any]]:
    """Return the records of links whose peer is in the plan and whose counts are valid."""
    return [
        link
        for link in links
        if link["node"] in names
        and 0 < link["port"] <= LAST_PORT
        and min(link.get("lost", 0), link.get("segments", 0)) >= 0
    ]


def keep_valid_ports(ports: object) -> list[ladder.ProbePort]:
    """Return the listeners whose port exists."""
    held: list[ladder.ProbePort] = fit_or_default(ListTemplate(PORT), ports) or []
    return [one for one in held if 0 < one["port"] <= LAST_PORT]


def keep_valid_rail_ports(ports: object) -> list[ladder.RailPort]:
    """Return the listeners on rails, without ports that cannot exist."""
    held: list[ladder.RailPort] = fit_or_default(ListTemplate(RAIL_PORT, RAILS_MOST), ports) or []
    return [one for one in held if one["error"] or 0 < one["port"] <= LAST_PORT]


def keep_valid_rails(rails: ladder.RailProbe, names: set[str]) -> ladder.RailProbe:
    """Return the tests of rails whose peer is in the plan."""
    return {**rails, "links": [one for one in rails["links"] if one["node"] in names]}


def keep_valid_tries(rdma: ladder.RdmaProbe, names: set[str]) -> ladder.RdmaProbe:
    """Return the tries and rates of RDMA whose peer is in the plan. A rate is one that a port can have."""
    kept: ladder.RdmaProbe = {
        **rdma,
        "pairs": [one for one in rdma["pairs"] if one["node"] in names],
    }
    if "rates" in rdma:
        kept["rates"] = [
            one for one in rdma["rates"] if one["node"] in names and 0 < one["mbit_s"] < MBIT_MOST
        ]
    return kept


def get_answer(held: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return one of the answers of a node, or {}."""
    found = held.get(name)
    return found if isinstance(found, Mapping) else {}


def sanitize_probe(links: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Validate a node's answer about its peers."""
    found = {
        "links": keep_valid_links(
            fit_or_default(ListTemplate(LINK), links.get("links")) or [], names
        ),
        "bandwidth": fit_or_default(ListTemplate(RATE), links.get("bandwidth")) or [],
        "ways": fit_or_default(ListTemplate(WAY), links.get("ways")) or [],
        "neighbours": fit_or_default(NEIGHBOURS, links.get("neighbours"))
        or {"count": 0, "entries": {}},
        "seconds": fit_or_default(float, links.get("seconds")) or 0.0,
    }
    swept, met = (
        fit_or_default(SWEPT, links.get("swept")),
        fit_or_default(JOB_PROBE, links.get("as_job")),
    )
    if swept is not None:
        found["swept"] = swept
    inner = fit_or_default(ListTemplate(JOB_NETWORK, NETWORKS_MOST), links.get("networks"))
    if inner:
        found["networks"] = [
            {**one, "links": keep_valid_links(one["links"], names)} for one in inner
        ]
    rdma = fit_or_default(RDMA, links.get("rdma"))
    if rdma is not None:
        found["rdma"] = keep_valid_tries(rdma, names)
    rails = fit_or_default(RAILS, links.get("rails"))
    if rails is not None:
        found["rails"] = keep_valid_rails(rails, names)
    if met is not None:
        lists = {key: keep_valid_links(met[key], names) for key in ("links", "past") if key in met}
        found["as_job"] = {**met, **lists}
    return found


def merge_late_answers(facts: dict[str, Any], answers: Any) -> None:
    """Move results that ran next to the probe to their usual keys (option beside of ladder_node)."""
    held = answers if isinstance(answers, Mapping) else {}
    asked, surveyed = (
        fit_or_default(NAMES, held.get("names")),
        fit_or_default(BESIDE, held.get("survey")),
    )
    found = facts.get("survey")
    if asked is not None:
        facts["names"] = asked
    if found is None:
        return
    if surveyed is not None:
        found["unknown"] += surveyed.pop("unknown")
        found.update(surveyed)
    if "names" not in facts:
        found["unknown"].append({"what": "names", "why": "no answer in time"})


def sanitize_node(observed: Any, names: set[str]) -> NodeAnswers:
    """Validate all answers of a node. The result is {} if it has no usable answer."""
    held = observed if isinstance(observed, Mapping) else {}
    found: dict[str, Any] = {}
    answer = get_answer(held, "node")
    facts = fit_or_default(FACTS, answer.get("facts"))
    if facts is None:
        return {}
    merge_late_answers(facts, get_answer(held, "started").get("names"))
    found["node"] = {
        "facts": facts,
        "nccl": fit_or_default(NCCL, answer.get("nccl")) or {},
        "ports": keep_valid_ports(answer.get("ports")),
        "tapped": answer.get("tapped") is True,
        "rails": keep_valid_rail_ports(answer.get("rails")),
    }
    links, closer = get_answer(held, "links"), get_answer(held, "closer")
    if links:
        found["links"] = sanitize_probe(links, names)
        if links.get("failed") is True or links.get("unreachable") is True:
            found["links"]["failed"] = clean_value(links.get("msg") or "no reason given", 400)
    if "links" in closer:
        found["closer"] = sanitize_probe(closer, names)
    watched = get_answer(held, "traced")
    traced = fit_or_default(ListTemplate(TRACED, TRACED_MOST), watched.get("traced"))
    if traced:
        found["traced"] = traced
    why = clean_value(watched.get("why") or watched.get("msg") or "", 400)
    if why and "survey" in facts:
        facts["survey"]["unknown"].append({"what": "which rule stops packets", "why": why})
    listeners = fit_or_default(LISTENERS, get_answer(held, "started").get("listeners"))
    if listeners is not None:
        found["started"] = {"listeners": listeners}
    return cast("NodeAnswers", found)
