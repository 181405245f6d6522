"""Virtual machines of the lab: each has its own kernel, SELinux and real reboots."""
