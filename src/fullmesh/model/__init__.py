"""The cluster plan and its parts."""
