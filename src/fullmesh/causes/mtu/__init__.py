"""Large packets that are lost."""
