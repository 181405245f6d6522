# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Messages between controller and node for queries (ask/boot.py). Standard library only."""

from __future__ import annotations

from typing import TypedDict


class NodeQuestion(TypedDict):
    """The controller's query.

    Attributes:
        name: of the query. A node keeps one program for each name.
        mark: a random word before each message to the controller.
        program: SHA-256 of the program's source.
        size: of the program, in bytes on the wire.
        folder: with the node's kept programs. Empty: none are kept.
        seconds: the deadline of the answer.
        module, function: to call.
        given: the function's arguments.
        hold: 0, or the seconds of silence after which the program ends. With it, the program continues after its answer
            in the module's function ``hold_lease``. Its ``remove_run_files`` is called when the controller is gone.
    """

    name: str
    mark: str
    program: str
    size: int
    folder: str
    seconds: int
    module: str
    function: str
    given: dict[str, object]
    hold: float


class NodeAnswer(TypedDict, total=False):
    """The node's answer.

    Attributes:
        result: the function's return value, if it returned.
        failed: how it ended otherwise.
        unkept: why the program could not be kept, if so.
        python: the interpreter.
    """

    result: dict[str, object]
    failed: str
    unkept: str
    python: str
