"""Large packets."""
