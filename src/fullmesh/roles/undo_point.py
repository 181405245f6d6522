"""The error codes of the module ``undo_point``, whose code runs on the nodes (library/)."""

from __future__ import annotations

CODES: dict[str, str] = {
    "UN-101": "An undo point on a node is broken. Nothing was restored from it",
    "UN-102": "A name given to undo_point is not a plain path, sysctl or role",
    "UN-103": "systemctl could not describe the units on a node",
    "UN-104": "Something could not be restored. The undo point is kept",
    "UN-105": "A file was changed after Fullmesh wrote it. An undo keeps that version next to it (warning)",
    "UN-106": "Packages were changed after Fullmesh installed them. An undo leaves them (warning)",
    "UN-107": "An undo point has a file in a folder that is root's and that other accounts can change",
    "UN-108": "An undo keeps a package because other packages need it (warning)",
    "UN-109": "The package manager cannot simulate the removal of packages. None is removed",
    "UN-110": "The undo was asked to forget a node on which some roles are not undone. Their undo points stay",
}
