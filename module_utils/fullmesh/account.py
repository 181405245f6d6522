"""Do a piece of work with the rights of an account and no others.

What lies in a folder of a user's is the user's to swap at any moment: a link, a fifo, a directory that moves away
between two looks. With root's rights each of these is a way to root's files, and no check by path closes the race.
The kernel does, when the work is done by a process that is the account. It is also the only way in where the home lies
on NFS with root_squash.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import pwd
    from typing import Callable

LARGEST = 16 << 20  # bytes of an answer


class AccountError(Exception):
    """What the work refused, in its own words."""


def become(owner: pwd.struct_passwd) -> None:
    """Give up root for good: groups first, for afterwards they could not be changed any more."""
    if os.geteuid() == 0:
        os.setgroups(os.getgrouplist(owner.pw_name, owner.pw_gid))
        os.setresgid(owner.pw_gid, owner.pw_gid, owner.pw_gid)
        os.setresuid(owner.pw_uid, owner.pw_uid, owner.pw_uid)
    if os.getresuid() != (owner.pw_uid,) * 3:
        raise PermissionError(f"cannot act as {owner.pw_name}")


class Answer(TypedDict, total=False):
    """What came of the work: its value, why it refused, or how it failed."""

    value: Any
    refused: str
    failed: str


def answer(owner: pwd.struct_passwd, work: Callable[[], Any]) -> Answer:
    """Do it; what went wrong is an answer as well."""
    try:
        os.chdir("/")
        os.umask(0o077)
        become(owner)
        return {"value": work()}
    except AccountError as error:
        return {"refused": str(error)}
    except Exception as error:  # the parent raises it again: this process must end whatever happens
        return {"failed": str(error) or type(error).__name__}


def as_account(owner: pwd.struct_passwd, work: Callable[[], Any]) -> Any:
    """Run *work* in a child that is the account, and return what it returned (anything that JSON can carry).

    Raises:
        AccountError: the work refused.
        OSError: it failed, or the account killed it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as stream:
                json.dump(answer(owner, work), stream)
        finally:
            os._exit(
                0
            )  # never back into Ansible's wrapper, which removes files that its first copy still needs
    os.close(writing)
    with os.fdopen(reading, "rb") as source:
        raw = source.read(LARGEST + 1)
    os.waitpid(child, 0)
    try:
        told = json.loads(raw.decode()) if len(raw) <= LARGEST else {}
    except ValueError:
        told = {}
    if "refused" in told:
        raise AccountError(told["refused"])
    if "value" not in told:
        why = told.get("failed", "it ended without an answer")
        raise OSError(f"as {owner.pw_name}: {why}")
    return told["value"]
