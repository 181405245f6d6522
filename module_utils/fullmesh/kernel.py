# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Judge, write and verify a node's kernel settings and limits. Standard library only."""

from __future__ import annotations

import os
import re
import resource
from typing import TYPE_CHECKING, TypedDict

from . import sysctl
from .answer import diff_file, make_diff
from .facts.sysctl import SysctlNode, sysctl_key_to_path
from .files import split_words, write_or_remove_file

if TYPE_CHECKING:
    from typing import Callable

    from .answer import Diff, Note
    from .schema.sysctl import KernelSetting, SessionLimits


class KernelTuneParams(TypedDict):
    """The parameters of kernel_tune. The module documents them."""

    path: str
    header: str
    settings: list[KernelSetting]
    data_ports: str
    limits_path: str
    manager_path: str
    limits: SessionLimits


class KernelTuneResult(TypedDict):
    """The answer of kernel_tune.

    ``files`` and ``sysctls`` are Fullmesh's from now on, ``keys`` the result per setting.
    """

    changed: bool
    notes: list[Note]
    diff: list[Diff]
    files: list[str]
    sysctls: dict[str, str]
    keys: dict[str, sysctl.SysctlVerdict]


class KernelTuneRefusal(TypedDict):
    """The answer if a setting cannot be applied."""

    failed: bool
    msg: str
    keys: dict[str, sysctl.SysctlVerdict]


class KernelTuner:
    """One run of kernel_tune."""

    def __init__(
        self,
        params: KernelTuneParams,
        check: bool,
        node: SysctlNode,
        reload: Callable[[], object],
    ) -> None:
        self.params = params
        self.check = check
        self.node = node
        self.reload = reload
        self.container = node.is_container()
        self.faults: list[str] = []
        self.notes: list[Note] = []
        self.diff: list[Diff] = []
        self.changed = False

    # -- kernel values

    def look(self) -> list[sysctl.KeyedSysctlVerdict]:
        """Compare every key with the node."""
        mine = sysctl.parse_sysctl_file(self.node.text(self.params["path"]) or "")
        others = sysctl.OtherSysctlFiles(self.node, self.params["path"])
        return [
            sysctl.compare_setting(
                self.node, setting, mine.get(sysctl_key_to_path(setting["key"])), others
            )
            for setting in self.params["settings"]
        ]

    def apply(self, founds: list[sysctl.KeyedSysctlVerdict]) -> None:
        """Write the values that differ. If one value was not accepted, all are reverted."""
        todo = [found for found in founds if found["status"] == "set"]
        for found in todo:
            sysctl.apply_setting(self.node, found)
        self.judge(founds)
        if self.faults:
            for found in todo:
                if found["before"] is not None and self.node.value(found["key"]) != found["before"]:
                    self.node.write(found["key"], found["before"])

    def judge(self, founds: list[sysctl.KeyedSysctlVerdict]) -> None:
        """Add errors and warnings for the results."""
        for setting, found in zip(self.params["settings"], founds):
            if found["status"] == "overridden":
                self.faults.append(describe_override(found, self.params["path"]))
            elif found["status"] in ("refused", "clamped"):
                self.faults.append(describe_refused_value(found))
            elif found["status"] == "cannot" and not (
                setting["if_present"] and found["detail"] == "absent"
            ):
                self.cannot(setting, found)
            if found["rule"] == "ports":
                self.reserved(found)

    def cannot(self, setting: KernelSetting, found: sysctl.KeyedSysctlVerdict) -> None:
        """Record a setting that cannot be set: a warning in a container, an error on a host."""
        text = "{key} = {target} cannot be set: {detail}, the value seen is {seen}".format(**found)
        if not self.container or setting["must"]:
            self.faults.append(
                f"[KT-113] {text}. Check: /proc/sys on this node. Is the key misspelled, the module not loaded, "
                "or /proc/sys read-only?"
            )
        else:
            step = "This is a container: set it on its host, or accept the value."
            self.notes.append({"code": "KT-201", "text": f"{text}. {step}"})

    def reserved(self, found: sysctl.KeyedSysctlVerdict) -> None:
        """Report reserved ports in the data range. Programs cannot bind them (EADDRNOTAVAIL)."""
        first, last = [int(port) for port in split_words(self.params["data_ports"])]
        taken = sysctl.expand_port_ranges(found["target"]) & set(range(first, last + 1))
        if taken:
            self.faults.append(
                "[KT-114] {} reserves {} inside the data range {}-{}: the kernel gives none of them to Gloo or NCCL. "
                "Fix: change fullmesh_data_ports, or remove the reservation.".format(
                    found["key"], sysctl.format_port_set(taken), first, last
                )
            )

    # -- limits

    def limits(self) -> tuple[str, str]:
        """Return the content of the two limit files. A limit above the node's maximum would block all ssh logins."""
        soft, memlock = self.params["limits"]["nofile"], self.params["limits"]["memlock"]
        pages = -1 if memlock == "unlimited" else int(memlock) * 1024
        ceiling = int(self.node.value("fs.nr_open") or soft)
        if soft > ceiling:
            self.faults.append(
                f"[KT-111] kernel_tuning_nofile is {soft} and fs.nr_open of this node is "
                f"{ceiling}: pam_limits would refuse every "
                "login. Fix: lower it, or raise fs.nr_open in kernel_tuning_sysctls in a separate run first."
            )
            return "", ""
        hard = max(soft, self.hard_before(soft))
        pam, manager = [], []
        if self.grantable("nofile", resource.RLIMIT_NOFILE, soft, hard):
            pam += format_pam_limits("nofile", soft, hard)
        if self.grantable("memlock", resource.RLIMIT_MEMLOCK, pages, pages):
            pam += format_pam_limits("memlock", memlock, memlock)
            manager.append("DefaultLimitMEMLOCK={}".format("infinity" if pages < 0 else pages))
        header = self.params["header"] + "\n"
        session = "".join(line + "\n" for line in [PAM_REASON, *pam]) if pam else ""
        service = "".join(line + "\n" for line in [MANAGER_REASON, "[Manager]", *manager])
        return header + session if pam else "", header + service if manager else ""

    def hard_before(self, soft: int) -> int:
        """Return the hard limit that must not be lowered, from Fullmesh's own file if it exists."""
        text = self.node.text(self.params["limits_path"]) or ""
        ours = re.search(r"^root\s+hard\s+nofile\s+(\d+)$", text, re.MULTILINE | re.ASCII)
        if ours:
            return int(ours.group(1))
        now = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return soft if now == resource.RLIM_INFINITY else now

    def grantable(self, name: str, which: int, soft: int, hard: int) -> bool:
        """Test a limit in a child process, in the way that pam_limits and systemd set it."""
        if is_test_root(self.node) or can_set_limit(which, soft, hard):
            return True
        text = f"the limit {name} = {hard} cannot be granted here (setrlimit says EPERM)"
        if self.container:
            step = "This is a container: raise its own limit where it is started."
            self.notes.append({"code": "KT-202", "text": f"{text}. {step}"})
        else:
            step = "Check: does the role run as root, with CAP_SYS_RESOURCE?"
            self.faults.append(f"[KT-115] {text}. {step}")
        return False

    # -- files

    def file(self, path: str, content: str) -> bool:
        """Write a file, or remove it if *content* is empty."""
        before = self.node.text(path)
        if (before or "") == content:
            return False
        self.changed = True
        self.diff.append(diff_file(path, before or "", content, self.node.root))
        if not self.check:
            write_or_remove_file(self.node.at(path), content)
        return True

    def run(self) -> KernelTuneResult | KernelTuneRefusal:
        """Run all steps."""
        founds = self.look()
        pam, manager = self.limits()
        if self.check or self.faults or self.stopped(founds):
            self.judge(founds)
        else:
            self.apply(founds)
        keys = {found["key"]: sysctl.drop_verdict_key(found) for found in founds}
        if self.faults:
            return {"failed": True, "msg": "\n".join(self.faults), "keys": keys}
        moved = [found for found in founds if found["status"] == "set"]
        if moved:
            self.changed = True
            self.diff.append(diff_running_values(moved))
        self.file(
            self.params["path"],
            sysctl.render_sysctl_file(self.params["header"], self.params["settings"], founds),
        )
        self.file(self.params["limits_path"], pam)
        if self.file(self.params["manager_path"], manager) and not self.check:
            self.reload()
        return self.answer(founds, pam, manager, keys)

    def stopped(self, founds: list[sysctl.KeyedSysctlVerdict]) -> bool:
        """Return whether a check already shows an error. Then nothing is written."""
        probe = KernelTuner(self.params, True, self.node, self.reload)
        probe.judge(founds)
        return bool(probe.faults)

    def answer(
        self,
        founds: list[sysctl.KeyedSysctlVerdict],
        pam: str,
        manager: str,
        keys: dict[str, sysctl.SysctlVerdict],
    ) -> KernelTuneResult:
        """Return the answer for the manifest and the report."""
        paths = ((self.params["path"], "x"), (self.params["limits_path"], pam))
        files = [
            path for path, content in (*paths, (self.params["manager_path"], manager)) if content
        ]
        return {
            "changed": self.changed,
            "notes": self.notes,
            "diff": self.diff,
            "files": files,
            "sysctls": {f["key"]: f["target"] for f in founds if f["status"] != "cannot"},
            "keys": keys,
        }


PAM_REASON = """\
# One rank keeps a socket per peer and channel, and Gloo never says "too many open files" when they run out.
# RDMA registers memory, which counts as locked (NVIDIA/nccl-tests#206: ibv_reg_mr: Cannot allocate memory).
# pam_limits does not apply `*` to root, so root has its own lines. In force from the next login on."""
MANAGER_REASON = """\
# The same for services (slurmd, torchrun units), which do not pass pam_limits. Open files are left to each
# unit: a soft limit above 1024 for every daemon breaks those that use select(), systemd-system.conf(5)."""


def format_pam_limits(name: str, soft: object, hard: object) -> list[str]:
    """Format one limit for all users and for root."""
    rows = [(who, kind) for who in ("*", "root") for kind in ("soft", "hard")]
    values = {"soft": soft, "hard": hard}
    return [f"{who} {kind} {name} {values[kind]}" for who, kind in rows]


def describe_override(found: sysctl.KeyedSysctlVerdict, own: str) -> str:
    """Describe the file that overrides Fullmesh's value at the next boot."""
    return (
        "[KT-112] {key} = {target} of {own} would be undone at boot: {detail} and is read later. "
        "Fix: remove that line, or set it to {target}."
    ).format(own=own, **found)


def describe_refused_value(found: sysctl.KeyedSysctlVerdict) -> str:
    """Describe a value that the kernel rejected."""
    return (
        "[KT-110] The kernel did not accept {key} = {target}: {detail}, the value seen is {seen!r}. "
        "Fix: correct it in kernel_tuning_sysctls. Possible congestion controls: "
        "`sysctl net.ipv4.tcp_available_congestion_control`."
    ).format(**found)


def diff_running_values(moved: list[sysctl.KeyedSysctlVerdict]) -> Diff:
    """Return the diff of the running values."""
    form = "{} = {}\n"
    return make_diff(
        "running kernel",
        "".join(form.format(found["key"], found["before"]) for found in moved),
        "".join(form.format(found["key"], found["target"]) for found in moved),
    )


def is_test_root(node: SysctlNode) -> bool:
    """Return whether this is a test's directory, for which the machine's own limits do not apply."""
    return bool(node.root)


def can_set_limit(which: int, soft: int, hard: int) -> bool:
    """Set a limit in a child process, and return whether the kernel allowed it."""
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(which, (soft, hard))
        except (OSError, ValueError):
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0
