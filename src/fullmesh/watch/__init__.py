"""Watch a job while its ranks connect."""
