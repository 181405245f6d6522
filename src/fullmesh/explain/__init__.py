"""Explain the log of a failed distributed job: causes, symptoms and harmless warnings."""
