"""Completion for bash and zsh, and the man page: both ask the command line's own parser."""

from __future__ import annotations
