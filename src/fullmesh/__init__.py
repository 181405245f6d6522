"""Turn bare nodes into a verified PyTorch-distributed cluster."""

from __future__ import annotations

__version__ = "0.3.0"
