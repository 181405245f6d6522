"""What developers and the demo need of a checkout, and an installed package has not: the lab, the tests' runner."""

from __future__ import annotations
