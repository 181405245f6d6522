"""Which way packets go."""
