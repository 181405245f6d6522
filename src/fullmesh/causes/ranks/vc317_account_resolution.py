"""The account of jobs cannot resolve a name that root resolves

The files of name resolution are closed to accounts other than root, or a name service allows some accounts only.

**Prove:** su -s /bin/sh ACCOUNT -c 'getent hosts NAME'

**Fix:** chmod o+r /etc/hosts /etc/resolv.conf /etc/nsswitch.conf

**Source:** nsswitch.conf(5)
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause(
    "VC-317",
    __doc__,
    weight=280,
)
