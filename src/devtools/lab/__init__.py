"""The lab: containers that simulate cluster nodes, built and run on this one machine."""
