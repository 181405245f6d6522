"""The documentation as a site: what is gathered for it, what is made for it, and how it is built."""

from __future__ import annotations
