# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The argument specs of the verification's modules, for Ansible on a node and for queries before they are sent.

A query to all nodes at once (library/ask_nodes.py) has the same arguments as the module of its name. The modules
document them.
"""

from __future__ import annotations

from typing import Any

Arguments = dict[str, dict[str, Any]]

LADDER_NODE: Arguments = {
    "run": {"type": "str", "required": True},
    "token": {"type": "str", "required": True, "no_log": True},
    "node": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "interface": {"type": "str", "default": ""},
    "hosts": {"type": "list", "elements": "dict", "default": []},
    "python": {"type": "str", "required": True},
    "samples": {"type": "int", "default": 3},
    "named": {"type": "list", "elements": "dict", "default": []},
    "outside": {"type": "bool", "default": False},
    "allowed": {"type": "list", "elements": "list", "default": []},
    "survey": {"type": "bool", "default": False},
    "beside": {"type": "bool", "default": False},
    "as_job": {"type": "bool", "default": False},
    "job_user": {"type": "str", "default": ""},
    "range": {"type": "list", "elements": "int", "default": []},
    "assumed": {"type": "bool", "default": False},
    "spread": {"type": "int", "default": 0},
    "listen": {"type": "bool", "default": True},
    "nccl": {"type": "bool", "default": True},
    "lifetime": {"type": "int", "default": 120},
    "attached": {"type": "bool", "default": False},
    "rails": {"type": "list", "elements": "dict", "default": []},
}
LADDER_LINKS: Arguments = {
    "token": {"type": "str", "default": "", "no_log": True},
    "node": {"type": "str", "required": True},
    "address": {"type": "str", "default": ""},
    "targets": {"type": "list", "elements": "dict", "default": []},
    "sweep": {"type": "list", "elements": "dict", "default": []},
    "rdma": {"type": "list", "elements": "dict", "default": []},
    "rdma_seconds": {"type": "float", "default": 20.0},
    "rails": {"type": "list", "elements": "dict", "default": []},
    "at_once": {"type": "int", "default": 16},
    "budget": {"type": "float", "default": 60.0},
    "master": {"type": "str", "default": ""},
    "payload": {"type": "int", "default": 65536},
    "seconds": {"type": "float", "default": 3.0},
    "as_job": {"type": "bool", "default": False},
    "job_user": {"type": "str", "default": ""},
    "bandwidth": {"type": "int", "default": 0},
    "run": {"type": "str", "default": ""},
    "attached": {"type": "bool", "default": False},
}
LADDER_GLOO: Arguments = {
    "run": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["started", "stopped", "collected"], "required": True},
    "ranks": {"type": "list", "elements": "int", "default": []},
    "python": {"type": "str", "default": ""},
    "script": {"type": "str", "default": ""},
    "modules": {"type": "dict", "default": {}},
    "environment": {"type": "dict", "default": {}},
    "settings": {"type": "dict", "default": {}},
    "deadline": {"type": "int", "default": 60},
    "brief": {"type": "bool", "default": False},
    "about": {"type": "dict", "default": {}},
    "wait": {"type": "float", "default": 5.0},
    "attached": {"type": "bool", "default": False},
    "keep": {"type": "bool", "default": False},
}
LADDER_TRACE: Arguments = {
    "token": {"type": "str", "default": "", "no_log": True},
    "node": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "targets": {"type": "list", "elements": "dict", "default": []},
    "ends": {"type": "list", "elements": "dict", "required": True},
    "payload": {"type": "int", "default": 1024},
    "seconds": {"type": "float", "default": 1.3},
}
