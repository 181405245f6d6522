"""Tables and limits of the kernel that are full or too small."""
