"""The documentation as a site: collect its pages, generate the others, and build it."""

from __future__ import annotations
