"""Complete commands in bash and zsh, and render the man page. Both use the command line's own parser."""

from __future__ import annotations
