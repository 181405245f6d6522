"""What the log of a failed distributed job says: causes, symptoms and harmless warnings."""
