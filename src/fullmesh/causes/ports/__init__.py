"""Port ranges of the kernel."""
