"""The lab: containers that stand for cluster nodes, built and run on this one machine."""
