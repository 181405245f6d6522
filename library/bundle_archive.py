# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Pack all downloads of an installation into one checksummed archive, or open it. Runs on the controller."""

from __future__ import annotations

import subprocess
import tarfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.bundle.archive import BundleError, open_bundle, pack_bundle

DOCUMENTATION = r"""
---
module: bundle_archive
short_description: Make or open the archive of an air-gapped installation
description:
  - V(packed) writes the archive, with the checksum of every file in C(bundle.json), and its own checksum next to it.
  - V(opened) verifies the archive and every file in it, and unpacks it into a folder named after its checksum.
options:
  state:
    description: The action of the module.
    type: str
    choices: [packed, opened]
    required: true
  path:
    description: The archive.
    type: path
    required: true
  folder:
    description: With V(opened), the folder for unpacked archives.
    type: path
    default: ''
  sources:
    description:
      - With V(packed). A C(path) goes into the archive's folder C(place), a C(file) becomes C(place) itself, and the
        files of a checkout C(project) become one tar there.
    type: list
    elements: dict
    default: []
  contents:
    description: With V(packed), a description of the archive, which V(opened) returns.
    type: dict
    default: {}
attributes:
  check_mode:
    description: V(packed) writes nothing. V(opened) changes no node and works as usual.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Open the bundle
  bundle_archive:
    state: opened
    path: fullmesh-bundle.tar
    folder: .cache/bundles
"""

RETURN = r"""
folder:
  description: The folder it was unpacked into.
  type: str
  returned: opened
contents:
  description: The archive's description.
  type: dict
  returned: opened
bytes:
  description: Size of the archive.
  type: int
  returned: packed
sha256:
  description: Its checksum.
  type: str
  returned: always
"""


def main() -> None:
    """Read the parameters, act and return the result."""
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["packed", "opened"], "required": True},
            "path": {"type": "path", "required": True},
            "folder": {"type": "path", "default": ""},
            "sources": {"type": "list", "elements": "dict", "default": []},
            "contents": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        if params["state"] == "opened":
            module.exit_json(**open_bundle(params))
        if module.check_mode:
            module.exit_json(changed=True)
        packed = pack_bundle(params)
    except BundleError as error:
        module.fail_json(msg=str(error))
    except (
        OSError,
        ValueError,
        KeyError,
        tarfile.TarError,
        subprocess.CalledProcessError,
    ) as error:
        module.fail_json(
            msg=f"[BN-101] {params['path']} cannot be {params['state']}: {error}. Check: is it a bundle, and "
            "is there room for it?"
        )
    module.exit_json(**packed)


if __name__ == "__main__":
    main()
