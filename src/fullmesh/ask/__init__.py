"""One question to all nodes at once: over the connections that Ansible is configured with, without a process a node.

Runs on the controller.
"""
