"""Virtual machines beside the lab's containers: a kernel of their own, real SELinux, real reboots."""
