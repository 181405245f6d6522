"""EFA on a node: the survey of a simulated file system, and the rules about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible.module_utils.fullmesh.facts import efa as facts_efa
from hypothesis import given
from hypothesis import strategies as st

from fullmesh import contract
from fullmesh.causes.engine import load_causes
from fullmesh.ec2 import efa
from fullmesh.filters.observe import efa as filters_efa
from fullmesh.observed.survey import EfaSurvey

# the form of libfabric's own output (fi_info of the EFA installer)
FI_INFO = """#!/bin/sh
if [ "$1" = --version ]; then
  echo "fi_info: 1.22.0amzn4.0"; echo "libfabric: 1.22.0amzn4.0"; echo "libfabric api: 1.22"; exit 0
fi
cat <<END
provider: efa
    fabric: efa
    domain: rdmap0s6-rdm
    version: 122.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
END
"""
NOTHING = """#!/bin/sh
echo "fi_getinfo: -61 (No data available)" >&2
exit 61
"""


def write_file(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with one EFA device and everything that it needs but the plugin."""
    slot = tmp_path / "sys/bus/pci/devices/0000:00:06.0"
    write_file(slot / "vendor", "0x1d0f\n")
    write_file(slot / "device", "0xefa1\n")
    driver = tmp_path / "sys/bus/pci/drivers/efa"
    driver.mkdir(parents=True)
    (slot / "driver").symlink_to(driver)
    verbs = tmp_path / "sys/class/infiniband/rdmap0s6"
    write_file(verbs / "ports/1/state", "4: ACTIVE\n")
    (verbs / "device").symlink_to(slot)
    write_file(tmp_path / "sys/module/efa/version", "2.13.0g\n")
    write_file(tmp_path / "sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    write_file(tmp_path / "sys/class/dmi/id/board_asset_tag", "i-0123456789abcdef0\n")
    write_file(tmp_path / "opt/amazon/efa/bin/fi_info", FI_INFO, 0o755)
    return tmp_path


def observe_efa(root: Path, **env: str) -> EfaSurvey:
    """Observe with a clean environment."""
    seen = facts_efa.observe_efa({"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "", **env}, str(root))
    return contract.convert_value(EfaSurvey, seen)


def codes(**nodes: EfaSurvey) -> list[str]:
    """The codes of the findings."""
    return [one.code for one in efa.check_efa(nodes)]


def plugin(root: Path, name: str = "libnccl-net.so") -> str:
    """A library that loads: a copy of one that this machine has."""
    source = next(
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "/libc.so" in line or "/libc-" in line
    )
    path = root / "job" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Path(source).read_bytes())
    return "/job"


def test_existing_parts_are_found(root: Path) -> None:
    seen = observe_efa(root)
    assert seen["instance"] == "i-0123456789abcdef0"
    assert seen["vendor"] == "Amazon EC2"
    assert seen["pci"] == [{"slot": "0000:00:06.0", "driver": "efa"}]
    assert seen["verbs"] == [{"name": "rdmap0s6", "state": "ACTIVE"}]
    assert seen["driver_version"] == "2.13.0g"
    assert seen["libfabric"]["version"] == "1.22.0amzn4.0"
    assert seen["libfabric"]["domains"] == ["rdmap0s6-rdm"]


def test_a_complete_node_has_no_fault(root: Path) -> None:
    seen = observe_efa(root, LD_LIBRARY_PATH=plugin(root))
    assert seen["plugin"]["path"] == "/job/libnccl-net.so"
    assert seen["plugin"]["error"] == ""
    assert codes(a=seen, b=seen) == []
    assert efa.explain_missing_plugin(seen) == ("", "")


def test_the_missing_plugin_is_the_cause_with_efa(root: Path) -> None:
    seen = observe_efa(root)
    assert codes(a=seen) == ["EF-104"]
    assert efa.explain_missing_plugin(seen)[0] == "EF-104"


def test_the_missing_plugin_is_harmless_without_efa(tmp_path: Path) -> None:
    seen = observe_efa(tmp_path)
    assert codes(a=seen, b=seen) == []
    assert efa.explain_missing_plugin(seen)[0] == "EF-109"


def test_a_plugin_that_the_job_does_not_find_is_shown(root: Path) -> None:
    write_file(root / "opt/amazon/ofi-nccl/lib64/libnccl-net.so", "not looked into")
    found = efa.check_efa({"a": observe_efa(root)})[0]
    assert found.code == "EF-104"
    assert "/opt/amazon/ofi-nccl/lib64/libnccl-net.so" in found.cause
    assert "ldconfig" in found.fix


def test_a_plugin_that_does_not_load_has_a_reason(root: Path) -> None:
    write_file(root / "job/libnccl-net.so", "no library at all")
    seen = observe_efa(root, LD_LIBRARY_PATH="/job")
    found = efa.check_efa({"a": seen})
    assert [one.code for one in found] == ["EF-105"]
    assert "file too short" in found[0].cause or "invalid ELF" in found[0].cause


def test_a_named_plugin_is_the_one_nccl_loads(root: Path) -> None:
    place = plugin(root, "libnccl-net-ofi.so")
    assert codes(a=observe_efa(root, LD_LIBRARY_PATH=place)) == ["EF-104"]
    assert codes(a=observe_efa(root, LD_LIBRARY_PATH=place, NCCL_NET_PLUGIN="ofi")) == []


def test_no_driver(root: Path) -> None:
    (root / "sys/bus/pci/devices/0000:00:06.0/driver").unlink()
    assert codes(a=observe_efa(root)) == ["EF-101"]


def test_no_libfabric(root: Path) -> None:
    (root / "opt/amazon/efa/bin/fi_info").unlink()
    assert codes(a=observe_efa(root)) == ["EF-102"]


def test_libfabric_without_the_provider(root: Path) -> None:
    write_file(root / "opt/amazon/efa/bin/fi_info", NOTHING, 0o755)
    found = efa.check_efa({"a": observe_efa(root)})[0]
    assert found.code == "EF-103"
    assert "No data available" in found.cause


@pytest.mark.parametrize(
    ("name", "value"),
    [("NCCL_NET_PLUGIN", "none"), ("NCCL_NET", "Socket"), ("FI_PROVIDER", "tcp")],
)
def test_an_environment_that_switches_efa_off(root: Path, name: str, value: str) -> None:
    seen = observe_efa(root, LD_LIBRARY_PATH=plugin(root), **{name: value})
    found = efa.check_efa({"a": seen})
    assert [one.code for one in found] == ["EF-108"]
    assert f"{name}={value}" in found[0].cause


def test_nodes_that_differ(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = plugin(root)
    whole = observe_efa(root, LD_LIBRARY_PATH=place)
    other: EfaSurvey = {**whole, "libfabric": {**whole["libfabric"], "version": "1.18.1amzn3.0"}}
    bare = observe_efa(tmp_path_factory.mktemp("bare"))
    assert codes(a=whole, b=bare) == ["EF-106"]
    found = efa.check_efa({"a": whole, "b": other})
    assert [(one.code, one.severity) for one in found] == [("EF-107", "warning")]
    assert "a: 1.22.0amzn4.0, b: 1.18.1amzn3.0" in found[0].cause


def test_this_machine_can_be_looked_at() -> None:
    seen = facts_efa.observe_efa()
    assert set(seen) >= {"pci", "verbs", "libfabric", "plugin", "environment"}
    assert isinstance(efa.check_efa({"here": contract.convert_value(EfaSurvey, seen)}), list)


def test_the_environment_of_jobs_is_read(tmp_path: Path) -> None:
    text = '# comment\nexport NCCL_NET="Socket"\nFI_PROVIDER=efa\nno line\n1X=2\n'
    assert facts_efa.parse_environment_file(text) == {"NCCL_NET": "Socket", "FI_PROVIDER": "efa"}
    write_file(tmp_path / "a", text)
    write_file(tmp_path / "b", "FI_PROVIDER=tcp\n")
    paths = [str(tmp_path / name) for name in ("a", "missing", "b")]
    assert facts_efa.read_environment_files(paths)["FI_PROVIDER"] == "tcp"
    assert os.environ.get("NCCL_NET") != "Socket"


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(["pci", "verbs", "libfabric", "plugin", "environment", "driver_version"])


@given(st.dictionaries(KEYS, JUNK))
def test_an_answer_of_another_form_is_refused_with_its_path(observed: dict[str, Any]) -> None:
    answer = {**facts_efa.observe_efa({}, "/nowhere"), **observed}
    try:
        whole = contract.convert_value(EfaSurvey, answer)
    except contract.ContractError:
        with pytest.raises(
            AnsibleFilterError, match=r"efa_facts on a has a different format than expected: \$"
        ):
            filters_efa.efa_findings({"a": answer})
        return
    assert {one.code for one in efa.check_efa({"a": whole})} <= load_causes("EF").keys()
