"""Tools for developers and the demo, which need a checkout: the lab, the tests' runner, the documentation's site."""

from __future__ import annotations
