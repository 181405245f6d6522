"""The cluster plan and what it is made of."""
