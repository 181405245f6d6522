"""Check the first second of a job: what its account met between the login and the first step of Python."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator

from fullmesh.foreign_text import parse_decimal
from fullmesh.observed.survey import NO_HOME, NO_LOGIN, JobLogin, StartStep
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.cards import OURS
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.socket_interfaces import INTERFACES, select_interfaces

# A wrong value of these ends a job or splits it.
VITAL = (
    *("MASTER_", "RANK", "WORLD_SIZE", "NODE_RANK", "NNODES", "NPROC", "LOCAL_", "FULLMESH_"),
    *(
        "GLOO_",
        "NCCL_SOCKET",
        "NCCL_IB",
        "NCCL_NET",
        "TP_SOCKET",
        "UCX_NET",
        "OMP_NUM",
        "CUDA_VISIBLE",
        "TORCH_DISTRIBUTED_DEBUG",
        "PET_",
    ),
)
LOGIN_FILE = "/etc/environment"
# The launchers use these as they are. torchrun sets the others (RANK, WORLD_SIZE) for each process.
OF_THE_PLAN = (
    *("MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "NPROC_PER_NODE"),
    *("FULLMESH_ADDRESS", "FULLMESH_RENDEZVOUS", *INTERFACES),
)
# These are the same on all nodes.
OF_ALL_NODES = ("NNODES", "MASTER_ADDR", "MASTER_PORT", "FULLMESH_RENDEZVOUS")
SHOWN = 3  # values in one finding


def get_job_start(seen: ClusterObservations, name: str) -> JobLogin | None:
    """Return the start of a job on a node, or None if it was not tried."""
    return seen.survey(name).get("job_start")


def describe_account(start: JobLogin) -> str:
    """Describe the account of a job's start."""
    if start["known"]:
        return f"{start['account']}, the account of jobs,"
    return f"an account without special rights ({start['account']})"


def is_for_all_jobs(seen: ClusterObservations, name: str, start: JobLogin) -> bool:
    """Return whether a step that failed concerns the jobs of this node. Without a known account, root may run them."""
    return start["known"] or bool(seen.survey(name).get("manifest"))


def list_failed_steps(
    seen: ClusterObservations, *kinds: str
) -> Iterator[tuple[str, JobLogin, list[StartStep]]]:
    """List the nodes with failed steps of these kinds."""
    for name in seen.plan["nodes"]:
        start = get_job_start(seen, name)
        held = [one for one in start["steps"] if one["step"] in kinds] if start else []
        if start and held:
            yield name, start, held


def rule_usable_files(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account may use the files that every job needs."""
    for name, start, steps in list_failed_steps(seen, "use"):
        closed = {one["error"]: one for one in reversed(steps)}
        for path, first in closed.items():
            files = join_names([one["subject"] for one in steps if one["error"] == path])
            runs = path != first["subject"] or path.endswith("/python")
            yield Finding(
                "VC-313",
                "L1",
                f"{describe_account(start)} may not use {files} on {name}: {path} is closed to it",
                node=name,
                seen=f"{path}: {first['source']}",
                expected="readable for every account",
                fix=f"on {name}: chmod o+{'rx' if runs else 'r'} {shlex.quote(path)}",
                severity=ERROR if is_for_all_jobs(seen, name, start) else WARNING,
            )


def rule_loader_errors(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the dynamic loader finds the libraries of a job."""
    for name, _, steps in list_failed_steps(seen, "load", "preload"):
        ignored = [one for one in steps if one["step"] == "preload"]
        missing = [one for one in steps if one["step"] == "load"]
        for held in filter(None, (ignored, missing)):
            places = [one["source"] for one in held if one["source"]]
            what = (
                "every process of a job prints an error of the loader"
                if held is ignored
                else "the loader lacks libraries of a job"
            )
            yield Finding(
                "VC-314",
                "L1",
                f"{what} on {name}: {held[0]['subject']}: {held[0]['error']}",
                node=name,
                seen="; ".join(f"{one['subject']}: {one['error']}" for one in held[:SHOWN]),
                expected="no error of the loader",
                fix=f"on {name}: correct {join_names(places)}, then log in again"
                if places
                else f"on {name}: install the library, or {seen.apply('packages')}",
                severity=WARNING if held is ignored else ERROR,
            )


def rule_odd_values(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that programs read the values that the files' author meant."""
    for name, _, steps in list_failed_steps(seen, "value", "source"):
        for source in dict.fromkeys(one["source"].partition(":")[0] for one in steps):
            held = [one for one in steps if one["source"].partition(":")[0] == source]
            broken = [one for one in held if one["step"] == "source"]
            place = source or (broken[0]["subject"] if broken else "the login's environment")
            words = join_names([f"{one['subject']} {one['error']}" for one in held], SHOWN)
            vital = broken or any(one["subject"].startswith(VITAL) for one in held)
            yield Finding(
                "VC-315",
                "L1",
                f"a shell on {name} cannot read {place}: {broken[0]['error']}"
                if broken
                else f"values from {place} on {name} are not what they look like: {words}",
                node=name,
                seen="; ".join(
                    f"{one['subject']}: {one['error']} ({one['source'] or place})"
                    for one in held[:SHOWN]
                ),
                expected="plain values and line feeds",
                check=f"on {name}: cat -A {shlex.quote(place)}" if place.startswith("/") else "",
                fix=seen.apply("launch") if place == OURS else f"on {name}: correct {place}",
                severity=ERROR if vital else WARNING,
            )


def rule_writable_folders(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account can write where jobs write."""
    for name, start, steps in list_failed_steps(seen, "write", "cache"):
        needed = any(one["step"] == "write" for one in steps)
        words = [f"{one['subject']} ({one['error']})" for one in steps]
        places = [one["source"] for one in steps if one["source"]]
        named = f" or correct {join_names(places)}" if places else ""
        folder = shlex.quote(steps[0]["subject"])
        yield Finding(
            "VC-316",
            "L1",
            f"{describe_account(start)} cannot write to {join_names(words)} on {name}",
            node=name,
            seen=join_names(words),
            expected="writable",
            check=f"on {name}: findmnt -T {folder}; df {folder}; ls -ld {folder}",
            fix=f"on {name}: make room, remount the folder, change its mode{named}",
            severity=ERROR if needed and is_for_all_jobs(seen, name, start) else WARNING,
        )


def rule_own_names(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account resolves the names that root resolves."""
    for name, start, steps in list_failed_steps(seen, "resolve"):
        answers = seen.facts(name).get("names", {}).get("plan", {})
        held = [one for one in steps if answers.get(one["subject"])]
        if held:
            names = join_names([one["subject"] for one in held])
            yield Finding(
                "VC-317",
                "L1",
                f"{describe_account(start)} cannot resolve {names} on {name}, and root can",
                node=name,
                seen=held[0]["error"],
                expected=join_names(answers[held[0]["subject"]] or []),
                fix=f"on {name}: chmod o+r /etc/hosts /etc/resolv.conf /etc/nsswitch.conf",
                severity=ERROR if is_for_all_jobs(seen, name, start) else WARNING,
            )


def rule_bound_ports(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account may bind the ports of a job."""
    for name, start, steps in list_failed_steps(seen, "bind"):
        ports = ["a free port" if one["subject"] == "0" else one["subject"] for one in steps]
        yield Finding(
            "VC-318",
            "L1",
            f"{describe_account(start)} cannot bind {join_names(ports)} on {name}",
            node=name,
            port=join_names([one["subject"] for one in steps if one["subject"] != "0"]),
            seen=steps[0]["error"],
            expected="allowed",
            check=f"on {name}: ausearch -m avc -ts recent; sysctl net.ipv4.ip_unprivileged_port_start",
            fix=f"on {name}: allow the port for this account, or choose another port in the inventory",
            severity=ERROR if is_for_all_jobs(seen, name, start) else WARNING,
        )


def rule_login_ends(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a login of the account gets as far as Python."""
    found = list(list_failed_steps(seen, "login", "python"))
    starts = [get_job_start(seen, one) for one in seen.plan["nodes"]]
    holders = Counter(start["account"] for start in starts if start)
    lacking = Counter(
        (start["account"], error)
        for _, start, steps in found
        for error in {one["error"] for one in steps}
    )
    for name, start, steps in found:
        # alike on all nodes that have it, it is an account of a service, whose jobs systemd starts
        meant = [
            error
            for error in (NO_LOGIN, NO_HOME)
            if lacking[start["account"], error] == holders[start["account"]]
        ]
        first = next((one for one in steps if one["error"] not in meant), None)
        if first is None:
            continue
        account = shlex.quote(start["account"])
        where = f" (set in {first['source']})" if first["source"] else ""
        what = (
            f"Python of jobs does not start on {name} with {first['error'] or 'the environment of a login'}{where}"
            if first["step"] == "python"
            else f"a login of {start['account']} on {name} ends before a job can start: {first['error']}"
        )
        yield Finding(
            "VC-319",
            "L1",
            what,
            node=name,
            seen=f"{first['subject']}: {first['error']}",
            expected="a login that starts Python",
            check=f"on {name}: su -l {account} -c true; chage -l {account}",
            fix=f"on {name}: remove the variables from {first['source']}"
            if first["source"]
            else f"on {name}: correct the account or the profile file that ends its login",
        )


def rule_launcher(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the launcher of jobs starts with the environment of a login."""
    for name, start, steps in list_failed_steps(seen, "launch"):
        yield Finding(
            "VC-322",
            "L1",
            f"fullmesh-torchrun does not start a job on {name}: {steps[0]['error']}",
            node=name,
            seen=join_names([f"{one['subject']}: {one['error']}" for one in steps], SHOWN),
            expected="a launcher that starts",
            check=f"on {name}: su -l {shlex.quote(start['account'])} -c 'fullmesh-torchrun --check'",
            fix=f"on {name}: correct the variables of the login, or {seen.apply('launch')}",
            severity=ERROR if is_for_all_jobs(seen, name, start) else WARNING,
        )


def rule_login_limits(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the limits in a login suffice for a small job."""
    for name, start, steps in list_failed_steps(seen, "limit"):
        words = join_names([f"{one['subject']} {one['error']}" for one in steps])
        yield Finding(
            "VC-323",
            "L1",
            f"a login of {start['account']} on {name} has limits that are too small for a job: {words}",
            node=name,
            seen=words,
            expected="the limits of the distribution",
            check=f"on {name}: su -l {shlex.quote(start['account'])} -c 'ulimit -a; umask'",
            fix=f"on {name}: remove the limit from /etc/security/limits.d or from a profile file (ulimit, umask)",
            severity=ERROR if is_for_all_jobs(seen, name, start) else WARNING,
        )


def rule_imported_torch(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that Python of jobs finds the files of its torch."""
    for name, _, steps in list_failed_steps(seen, "import"):
        first = steps[0]
        place = first["source"]
        # torch itself can be imported without most of its packages
        part = first["subject"].startswith("/")
        yield Finding(
            "VC-302",
            "L1",
            f"torch cannot be imported on {name}: {first['subject']}: {first['error']}"
            if part
            else f"torch on {name} needs packages that are missing: {join_names([one['subject'] for one in steps])}",
            node=name,
            seen=join_names([f"{one['subject']}: {one['error']}" for one in steps], SHOWN),
            expected="all files of torch",
            fix=f"on {name}: remove PYTHONPATH from {place}" if place else seen.apply("packages"),
            severity=ERROR if part else WARNING,
        )


def rule_named_files(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that files that variables name exist."""
    for name, _, steps in list_failed_steps(seen, "path"):
        for step in steps:
            place = step["source"] or "the login's environment"
            yield Finding(
                "VC-320",
                "L1",
                f"{step['subject']} on {name} names {step['error']}, which jobs cannot read",
                node=name,
                seen=f"{step['subject']}={step['error']} from {place}",
                expected="a readable file, or no such variable",
                fix=f"on {name}: create the file, or remove {step['subject']} from {place}",
                severity=WARNING,
            )


def has_same_effect(
    seen: ClusterObservations, name: str, key: str, values: tuple[str, str]
) -> bool:
    """Return whether two values of a variable mean the same on a node."""
    cards = seen.survey(name).get("interfaces", [])
    if key not in INTERFACES or not cards:
        return values[0] == values[1]
    return select_interfaces(values[0], key, cards) == select_interfaces(values[1], key, cards)


def rule_overridden_plan(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no file of the login sets a variable of the plan to another value."""
    found = {name: find_overridden(seen, name) for name in seen.plan["nodes"]}
    # the same on all nodes may be meant
    same = len(found) > 1 and len({tuple(sorted(odd.items())) for odd, _ in found.values()}) == 1
    for name, (odd, planned) in found.items():
        if not odd:
            continue
        start = get_job_start(seen, name)
        sources = start["sources"] if start else {}
        places = join_names(list(dict.fromkeys(sources.get(key) or LOGIN_FILE for key in odd)))
        yield Finding(
            "VC-321",
            "L1",
            f"{places} on {name} sets {join_names(list(odd))}, which overrides {OURS} in jobs that a login starts",
            node=name,
            seen=f"{', '.join(f'{key}={value}' for key, value in odd.items())} from {places}",
            expected=", ".join(f"{key}={planned[key]}" for key in odd),
            fix=f"on {name}: remove {join_names(list(odd))} from {places}, then log in again",
            severity=WARNING if same else ERROR,
        )


def choose_planned_value(seen: ClusterObservations, key: str, values: list[str]) -> str:
    """Return the value of a variable for all nodes: the plan's if any node has it, else the most common."""
    master = seen.plan["master"]
    planned = {
        "NNODES": str(len(seen.plan["nodes"])),
        "MASTER_ADDR": master["address"],
        "MASTER_PORT": str(master["port"]),
    }.get(key, "")
    return planned if planned in values else max(values, key=values.count)


def list_unfit_values(
    seen: ClusterObservations, files: dict[str, dict[str, str]], name: str
) -> Iterator[tuple[str, str, str]]:
    """Yield the variables of a node's file that do not fit the other nodes' files: name, value, value that fits."""
    own = files[name]
    for key in OF_ALL_NODES:
        values = [held[key] for held in files.values() if key in held]
        fit = choose_planned_value(seen, key, values) if values else ""
        if own.get(key, "") != fit:
            yield key, own.get(key, ""), fit
    addresses = seen.facts(name).get("addresses", {})
    address = own.get("FULLMESH_ADDRESS", "")
    if addresses and address not in addresses:
        yield "FULLMESH_ADDRESS", address, str(seen.plan["nodes"][name]["address"])
    rank, planned = own.get("NODE_RANK", ""), str(seen.plan["nodes"][name]["node_rank"])
    double = [one for one, held in files.items() if held.get("NODE_RANK") == rank and one != name]
    ranks = [str(number) for number in range(parse_decimal(own.get("NNODES", "")) or 0)]
    if (ranks and rank not in ranks) or (double and rank != planned):
        yield "NODE_RANK", rank, planned
    if parse_decimal(own.get("NPROC_PER_NODE", "")) is None:
        yield "NPROC_PER_NODE", own.get("NPROC_PER_NODE", ""), "a number"


def rule_consistent_files(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the environment files of all nodes describe the same job."""
    starts = {name: get_job_start(seen, name) for name in seen.plan["nodes"]}
    files = {name: start["file"] for name, start in starts.items() if start and start["file"]}
    sized = any("NNODES" in held for held in files.values())
    if len(files) < len(seen.plan["nodes"]) or not sized:
        return
    for name in files:
        odd = list(list_unfit_values(seen, files, name))
        if not odd:
            continue
        values = join_names([f"{key}={value}" if value else f"no {key}" for key, value, _ in odd])
        yield Finding(
            "VC-324",
            "L1",
            f"{OURS} on {name} describes another job than the other nodes': {values}",
            node=name,
            seen=values,
            expected=join_names([f"{key}={fit}" for key, _, fit in odd]),
            check=f"on all nodes: grep -E '^({'|'.join(key for key, _, _ in odd)})=' {OURS}",
            fix=seen.apply("launch"),
        )


def find_overridden(seen: ClusterObservations, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of the plan that a login on a node replaces, and the plan's values."""
    files = seen.survey(name).get("environment", {}).get("files", {})
    start = get_job_start(seen, name)
    planned = {**files.get(OURS, {}), **(start["file"] if start else {})}
    logins = [start["command"], start["login"]] if start else [files.get(LOGIN_FILE, {})]
    odd = {
        key: login[key]
        for login in logins
        for key in OF_THE_PLAN
        if key in login
        and key in planned
        and not has_same_effect(seen, name, key, (login[key], planned[key]))
    }
    return odd, planned


RULES: tuple[Callable[[ClusterObservations], Iterator[Finding]], ...] = (
    rule_usable_files,
    rule_loader_errors,
    rule_odd_values,
    rule_writable_folders,
    rule_own_names,
    rule_bound_ports,
    rule_login_ends,
    rule_launcher,
    rule_login_limits,
    rule_imported_torch,
    rule_named_files,
    rule_overridden_plan,
    rule_consistent_files,
)


def check_job_start(seen: ClusterObservations) -> list[Finding]:
    """Return all findings about the start of a job."""
    return [finding for rule in RULES for finding in rule(seen)]
