# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the node's programs from a module, with English output.

A missing program is a result, not an error.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

SplitRunner = Callable[[list[str]], tuple[int, str, str]]
Runner = Callable[[list[str]], tuple[int, str]]
# A shell's exit status if the program does not exist (POSIX, XCU 2.8.2).
NOT_FOUND = 127
# The output of nmcli, systemctl, dpkg-query, rpm and others is parsed, so it must be English.
LOCALE = {"LC_ALL": "C", "LANGUAGE": "C"}


def make_split_runner(
    module: AnsibleModule, environment: dict[str, str] | None = None
) -> SplitRunner:
    """Return a function that runs argv and returns (rc, stdout, stderr). *environment* is added to the locale."""
    module.run_command_environ_update = {**LOCALE, **(environment or {})}

    def run(command: list[str]) -> tuple[int, str, str]:
        try:
            rc, out, err = module.run_command(command, handle_exceptions=False)
        except OSError as exc:
            return NOT_FOUND, "", str(exc)
        return int(rc), str(out), str(err)

    return run


def make_merged_runner(run: SplitRunner) -> Runner:
    """Return a function that returns (rc, text): stdout, and after a failure also stderr."""

    def text(command: list[str]) -> tuple[int, str]:
        rc, out, err = run(command)
        return rc, out if rc == 0 else out + err

    return text
