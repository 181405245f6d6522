"""What a shell knows of the command line: completion for bash and zsh, the man page (``devtools.docs.shell``)."""

from __future__ import annotations
