"""The node: kernel, GPU, limits."""
