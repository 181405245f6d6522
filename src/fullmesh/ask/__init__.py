"""Query all nodes at once over the connections that Ansible is configured with, without one process per node.

Runs on the controller.
"""
