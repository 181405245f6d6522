"""Preflight: every fault that a node's first answer can show, of answers of lab nodes, changed by their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from record_files import RECORDED, load_record

from fullmesh import contract
from fullmesh.model import plan
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.node import Accelerator, NodeFacts, Observations
from fullmesh.roles import pending_changes, preflight
from fullmesh.settings import ROOT

ADDRESSES = {"el1": "10.78.1.11/24", "ubuntu1": "10.78.1.12/24"}
Change = Callable[[NodeFacts], None]


def derive_plan_of_two(common: dict[str, Any] | None = None, **own: dict[str, Any]) -> ClusterPlan:
    """The plan of the two recorded nodes; the second names no interface."""
    hosts: dict[str, dict[str, Any]] = {
        host: {"fullmesh_address": address, **(common or {}), **own.get(host, {})}
        for host, address in ADDRESSES.items()
    }
    hosts["el1"].setdefault("fullmesh_interface", "eth1")
    return plan.derive_plan(hosts)


PLAN = derive_plan_of_two()


def load_answer(host: str, *changes: Change) -> NodeFacts:
    """Return a node's recorded answer with changes. It must still match its type."""
    said = contract.convert_value(NodeFacts, load_record(RECORDED / f"ladder/{host}-facts.json"))
    for change in changes:
        change(said)
    return contract.convert_value(NodeFacts, said)


def register_answers(said: NodeFacts) -> dict[str, Any]:
    """As Ansible keeps it."""
    return {"__preflight": {**said, "changed": False, "failed": False, "warnings": []}}


def run(
    *el1: Change, ubuntu1: tuple[Change, ...] = (), made: ClusterPlan = PLAN, only: str = ""
) -> list[str]:
    """The faults of both, or of one alone (--limit)."""
    said = {"el1": load_answer("el1", *el1), "ubuntu1": load_answer("ubuntu1", *ubuntu1)}
    hosts = [only] if only else list(said)
    now = said["el1"]["ansible_facts"]["fullmesh"]["epoch"]
    near = {host: register_answers(one) for host, one in said.items()}
    near["ubuntu1"]["__preflight"]["ansible_facts"]["fullmesh"]["epoch"] = now
    if any(change is far_clock for change in el1):
        now -= 90_000
        near["ubuntu1"]["__preflight"]["ansible_facts"]["fullmesh"]["epoch"] = now
    return preflight.judge_preflight(made, near, hosts, {"now": now})["faults"]


def codes(faults: list[str]) -> list[str]:
    return [fault[1:7] for fault in faults]


def get_facts(said: NodeFacts) -> Observations:
    return said["ansible_facts"]["fullmesh"]


def interface(said: NodeFacts, name: str) -> Any:
    return next(one for one in get_facts(said)["interfaces"] if one["name"] == name)


def test_healthy_nodes_have_no_fault() -> None:
    assert run() == []


def other_system(said: NodeFacts) -> None:
    said["ansible_facts"]["distribution"] = "Gentoo"


def old_system(said: NodeFacts) -> None:
    said["ansible_facts"]["distribution_major_version"] = "8"


def no_card(said: NodeFacts) -> None:
    get_facts(said)["interfaces"] = [
        one for one in get_facts(said)["interfaces"] if one["name"] != "eth1"
    ]


def address_elsewhere(said: NodeFacts) -> None:
    interface(said, "eth0")["addresses"] += interface(said, "eth1")["addresses"]
    interface(said, "eth1")["addresses"] = []


def remove_addresses(said: NodeFacts) -> None:
    interface(said, "eth1")["addresses"] = []


def no_root(said: NodeFacts) -> None:
    get_facts(said)["root"] = False


def full_disk(said: NodeFacts) -> None:
    get_facts(said)["free_bytes"]["/var/lib/fullmesh"] = 10


def far_clock(said: NodeFacts) -> None:
    """`run` puts the controller's clock elsewhere."""


def no_systemd(said: NodeFacts) -> None:
    said["ansible_facts"]["service_mgr"] = ""


def old_python(said: NodeFacts) -> None:
    said["ansible_facts"]["python"]["version"] = {"major": 3, "minor": 8}
    said["ansible_facts"]["python_version"] = "3.8.18"


def others_name(said: NodeFacts) -> None:
    said["ansible_facts"]["nodename"] = "ubuntu1"


def little_memory(said: NodeFacts) -> None:
    get_facts(said)["memory_bytes"] = 200_000_000


def gpus(
    count: int,
    driver: str = "580.95.05",
    *,
    shown: int | None = None,
    vendor: str = "nvidia",
    held: str = "",
) -> Change:
    """A node with so many devices; the lab has none."""

    def change(said: NodeFacts) -> None:
        holder = held or ("nvidia" if driver else "")
        devices: list[Accelerator] = [
            {
                "vendor": vendor,
                "bus": f"0000:{at:02x}:00.0",
                "device": "0x2330",
                "driver": holder,
            }
            for at in range(0x10, 0x10 + count)
        ]
        there = count if driver else 0
        told = there if shown is None else shown
        get_facts(said)["accelerators"] = {
            "devices": devices,
            "nvidia_driver": driver if vendor == "nvidia" else "",
            "nvidia_shown": told if vendor == "nvidia" else 0,
        }

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (other_system, "PR-103"),
        (old_system, "PR-103"),
        (no_card, "PR-104"),
        (address_elsewhere, "PR-106"),
        (no_root, "PR-107"),
        (full_disk, "PR-109"),
        (far_clock, "PR-110"),
        (no_systemd, "PR-112"),
        (old_python, "PR-113"),
        (others_name, "PR-114"),
        (little_memory, "PR-119"),
    ],
)
def test_one_fault(change: Change, code: str) -> None:
    faults = run(change)
    assert codes(faults) == [code]
    assert "el1: " in faults[0]


def test_an_interface_that_is_not_named() -> None:
    assert codes(run(ubuntu1=(remove_addresses,))) == ["PR-105"]


def test_one_machine_under_two_names() -> None:
    macs = {one["name"]: one["mac"] for one in get_facts(load_answer("el1"))["interfaces"]}

    def twin(said: NodeFacts) -> None:
        for one in get_facts(said)["interfaces"]:
            one["mac"] = macs[one["name"]]

    assert codes(run(ubuntu1=(twin,))) == ["PR-111"]


def test_all_unreachable_nodes_are_in_one_fault() -> None:
    away = {"unreachable": True, "msg": "timed out\nsecond line"}
    hostvars = {host: {"__preflight": dict(away)} for host in ADDRESSES}
    faults = preflight.judge_preflight(PLAN, hostvars, list(ADDRESSES), {"now": 0})["faults"]
    assert len(faults) == 1
    said = "[PR-101] Cannot reach 2 of 2 nodes (el1: timed out; ubuntu1: timed out)"
    assert faults[0].startswith(said)


def with_failed(**result: Any) -> list[str]:
    hostvars = {"el1": {"__preflight": result}, "ubuntu1": register_answers(load_answer("ubuntu1"))}
    now = get_facts(load_answer("ubuntu1"))["epoch"]
    return preflight.judge_preflight(PLAN, hostvars, ["el1", "ubuntu1"], {"now": now})["faults"]


def test_a_node_that_answers_with_a_failure() -> None:
    faults = with_failed(failed=True, msg="Missing sudo password")
    assert codes(faults) == ["PR-102"]
    assert "el1: cannot be observed: Missing sudo password" in faults[0]


def test_an_answer_of_another_form_is_named_with_the_place() -> None:
    said: Any = load_answer("el1")
    del said["ansible_facts"]["fullmesh"]["accelerators"]
    faults = with_failed(**said)
    assert codes(faults) == ["PR-102"]
    assert "$.ansible_facts.fullmesh: Object missing required field `accelerators`" in faults[0]


# --- what is left to auto -------------------------------------------------------------------------


def settle_plan(*change: Change, made: ClusterPlan = PLAN) -> ClusterPlan:
    """The plan after both nodes had the same look."""
    observed = {host: load_answer(host, *change) for host in ADDRESSES}
    found, faults = preflight.resolve_plan(made, observed)
    assert faults == []
    return found


def test_nodes_without_gpus_get_one_rank_and_torch_for_cpus() -> None:
    found = settle_plan()
    assert found["resolved"] == {"accelerator": "cpu", "local_ranks": 1}
    assert [node["accelerator"] for node in found["nodes"].values()] == ["cpu", "cpu"]
    assert found["world_size"] == 2


def test_each_gpu_gets_a_rank_and_the_cuda_of_its_driver() -> None:
    found = settle_plan(gpus(8))
    assert found["resolved"] == {"accelerator": "cuda13.0", "local_ranks": 8}
    assert found["world_size"] == 16
    assert [node["ranks"] for node in found["nodes"].values()] == [
        list(range(8)),
        list(range(8, 16)),
    ]
    assert found["data_ports"] == PLAN["data_ports"]
    assert found["digests"] == PLAN["digests"]


def test_explicit_settings_stay() -> None:
    found = settle_plan(gpus(8), made=derive_plan_of_two({"fullmesh_local_ranks": 2}))
    assert found["resolved"] == {"accelerator": "cuda13.0"}
    assert found["world_size"] == 4
    by_hand = {"torch_runtime_accelerator": "cpu"}
    found = settle_plan(gpus(8, ""), made=derive_plan_of_two(by_hand))
    assert found["resolved"] == {"local_ranks": 1}
    assert {node["accelerator"] for node in found["nodes"].values()} == {"cpu"}


def test_a_driver_that_will_be_installed_counts() -> None:
    asked = {"nvidia_driver_manage": True, "nvidia_driver_branch": "580"}
    assert settle_plan(gpus(4, ""), made=derive_plan_of_two(asked))["resolved"] == {
        "accelerator": "cuda13.0",
        "local_ranks": 4,
    }


def test_gpus_excluded_from_jobs_get_no_rank() -> None:
    hidden = {"cluster_env_extra": {"CUDA_VISIBLE_DEVICES": "0,1"}}
    assert settle_plan(gpus(8), made=derive_plan_of_two(hidden))["world_size"] == 4
    for none in ("", "-1"):
        left = derive_plan_of_two({"cluster_env_extra": {"CUDA_VISIBLE_DEVICES": none}})
        assert settle_plan(gpus(8), made=left)["world_size"] == 2
    assert settle_plan(gpus(8, held="vfio-pci", shown=0))["resolved"]["accelerator"] == "cpu"


def test_a_custom_lock_states_its_targets(tmp_path: Path) -> None:
    lock = tmp_path / "torch.txt"
    for pins, word in (
        ("torch==2.9.0+cu128", "cu128"),
        ("torch==2.9.0+rocm6.4", "rocm6.4"),
        ("torch==2.9.0\nnvidia-cuda-runtime-cu12==12.8.90", "cuda12.8"),
        ("torch==2.9.0", "cpu"),
    ):
        lock.write_text(pins + " --hash=sha256:" + "0" * 64 + "\n")
        own = derive_plan_of_two(
            {"torch_runtime_requirements": str(lock), "fullmesh_local_ranks": 1}
        )
        assert settle_plan(gpus(8), made=own)["resolved"] == {"accelerator": word}


def test_a_custom_lock_is_checked_against_the_driver(tmp_path: Path) -> None:
    lock = tmp_path / "torch.txt"
    lock.write_text(f"torch==2.9.0+cu128 --hash=sha256:{'0' * 64}\n")
    made = derive_plan_of_two({"torch_runtime_requirements": str(lock)})
    faults = run(gpus(8, "470.256.02"), ubuntu1=(gpus(8),), made=made)
    assert codes(faults) == ["PR-116"]
    assert "el1: NVIDIA driver 470.256.02 does not run CUDA 12.8" in faults[0]
    assert "Upgrade the driver to branch 525" in faults[0]


def test_a_torch_version_without_cuda_lock() -> None:
    faults = run(
        gpus(8), ubuntu1=(gpus(8),), made=derive_plan_of_two({"torch_runtime_version": "1.0.0"})
    )
    assert codes(faults) == ["PR-116", "PR-116"]
    assert "torch 1.0.0 has no lock for CUDA" in faults[0]
    assert (
        "(2.10.0-cuda12.8, 2.13.0-cuda13.0, 2.14.1-cuda13.0, 2.15.0-cuda13.2, 2.7.1-cuda12.6)"
        in faults[0]
    )
    assert "nvidia_driver_manage" not in faults[0]


def test_amd_without_a_lock_uses_cpus_with_a_note() -> None:
    found = settle_plan(gpus(8, vendor="amd"))
    assert found["resolved"] == {"accelerator": "cpu", "local_ranks": 1}
    observed = {host: load_answer(host, gpus(8, vendor="amd")) for host in ADDRESSES}
    [note] = preflight.find_unused_accelerators(found, observed)
    assert "el1, ubuntu1" in note
    assert "torch_runtime_requirements" in note
    observed = {host: load_answer(host, gpus(8, vendor="ascend")) for host in ADDRESSES}
    assert "HCCL" in preflight.find_unused_accelerators(found, observed)[0]
    by_hand = settle_plan(gpus(8, vendor="amd"))
    for node in by_hand["nodes"].values():
        node["accelerator"] = "rocm6.4"
    (note,) = preflight.find_unused_accelerators(
        by_hand, {h: load_answer(h, gpus(8, vendor="amd")) for h in ADDRESSES}
    )
    assert "el1, ubuntu1 get torch for ROCm: its backend nccl is RCCL" in note
    assert (
        preflight.find_unused_accelerators(
            settle_plan(gpus(8)), {h: load_answer(h, gpus(8)) for h in ADDRESSES}
        )
        == []
    )


@pytest.mark.parametrize(
    ("el1", "ubuntu1", "code", "words"),
    [
        (gpus(8), gpus(0, ""), "PR-115", "el1: 8 nvidia, ubuntu1: none"),
        (gpus(8, ""), gpus(8), "PR-116", "el1: it has 8 NVIDIA GPU(s) but no driver"),
        (
            gpus(8, "535.183.01"),
            gpus(8),
            "PR-116",
            "el1: NVIDIA driver 535.183.01 does not run CUDA 13.0",
        ),
        (
            gpus(8, "535.183.01"),
            gpus(8),
            "PR-116",
            "version of torch that runs on it (2.10.0-cuda12.8, 2.7.1-",
        ),
        (gpus(8), gpus(7), "PR-117", "el1: 8, ubuntu1: 7"),
        (gpus(8, shown=7), gpus(8), "PR-118", "el1: the PCI bus has 8 NVIDIA GPU(s)"),
    ],
)
def test_undecidable_settings_are_refused(
    el1: Change, ubuntu1: Change, code: str, words: str
) -> None:
    faults = run(el1, ubuntu1=(ubuntu1,))
    assert codes(faults) == [code]
    assert words in faults[0]


def test_two_locks_of_the_users_own_that_differ_are_refused(tmp_path: Path) -> None:
    locks = {}
    for host, word in (("el1", "cu128"), ("ubuntu1", "cu126")):
        locks[host] = tmp_path / f"{word}.txt"
        locks[host].write_text(f"torch==2.9.0+{word} --hash=sha256:{'0' * 64}\n")
    made = derive_plan_of_two(
        el1={"torch_runtime_requirements": str(locks["el1"])},
        ubuntu1={"torch_runtime_requirements": str(locks["ubuntu1"])},
    )
    faults = run(gpus(8), ubuntu1=(gpus(8),), made=made)
    assert codes(faults) == ["PR-116"]
    assert "el1: cu128, ubuntu1: cu126" in faults[0]


def test_a_lock_whose_torch_has_an_unknown_target(tmp_path: Path) -> None:
    lock = tmp_path / "torch.txt"
    lock.write_text(f"torch==2.9.0+xpu --hash=sha256:{'0' * 64}\n")
    faults = run(made=derive_plan_of_two({"torch_runtime_requirements": str(lock)}))
    assert set(codes(faults)) == {"PR-116"}
    assert "torch.txt pins torch for 'xpu'" in faults[0]


def test_a_node_that_a_run_excludes_counts_too() -> None:
    found, faults = preflight.resolve_plan(PLAN, {"el1": load_answer("el1", gpus(8))})
    assert (faults, found["world_size"]) == ([], 16)


def test_a_run_without_surveyed_nodes_uses_their_records() -> None:
    made = derive_plan_of_two(el1={"fullmesh_local_ranks": 8})

    def forgets(said: NodeFacts) -> None:
        said["resolved"] = {}

    assert codes(run(gpus(8), forgets, made=made, only="el1")) == ["PR-120"]

    def remembers(said: NodeFacts) -> None:
        said["resolved"] = {"local_ranks": 4}

    found, faults = preflight.resolve_plan(made, {"el1": load_answer("el1", gpus(8), remembers)})
    assert (faults, found["world_size"]) == ([], 12)


def test_a_run_without_auto_nodes_keeps_the_chosen_torch() -> None:
    made = derive_plan_of_two(
        el1={"fullmesh_local_ranks": 8, "torch_runtime_accelerator": "cuda13.0"}
    )
    chosen = {"accelerator": "cuda13.0", "local_ranks": 4}

    def remembers(said: NodeFacts) -> None:
        said["resolved"] = {"accelerator": "cuda13.0", "local_ranks": 4}

    found, faults = preflight.resolve_plan(made, {"el1": load_answer("el1", gpus(8), remembers)})
    assert (faults, found["resolved"]) == ([], chosen)
    assert preflight.find_choice_drift(found, chosen) == []


def test_a_range_that_is_too_small_for_the_gpus_is_refused() -> None:
    made = derive_plan_of_two({"fullmesh_data_ports": "50000-50511"})
    assert codes(run(made=made)) == []
    assert codes(run(gpus(8), ubuntu1=(gpus(8),), made=made)) == ["PL-113"]


def test_the_room_for_a_torch_with_cuda() -> None:
    def little(said: NodeFacts) -> None:
        get_facts(said)["free_bytes"]["/opt/fullmesh"] = 5_000_000_000
        get_facts(said)["torch_there"] = False

    assert codes(run(little)) == []
    faults = run(gpus(8), little, ubuntu1=(gpus(8),))
    assert codes(faults) == ["PR-109"]
    assert "5.0 GB free for /opt/fullmesh, needs 14" in faults[0]


def test_free_space_is_checked_for_an_environment_elsewhere() -> None:
    def elsewhere(said: NodeFacts) -> None:
        get_facts(said)["venv"] = "/scratch/torch"
        get_facts(said)["free_bytes"] = {
            "/scratch": 5_000_000_000,
            "/var/lib/fullmesh": 5_000_000_000,
        }
        get_facts(said)["torch_there"] = False

    faults = run(gpus(8), elsewhere, ubuntu1=(gpus(8),))
    assert codes(faults) == ["PR-109"]
    assert "5.0 GB free for /scratch, needs 14" in faults[0]


def test_another_number_of_gpus_is_drift() -> None:
    now = settle_plan(gpus(8))
    assert preflight.find_choice_drift(now, {"accelerator": "cuda13.0", "local_ranks": 8}) == []
    assert preflight.find_choice_drift(now, {"accelerator": "cuda13.0", "local_ranks": 7}) == [
        "plan: local_ranks is 8, was 7"
    ]
    assert preflight.find_choice_drift(now, {}) == [
        "plan: accelerator is cuda13.0, was not left to auto",
        "plan: local_ranks is 8, was not left to auto",
    ]


CHANGE = {"name": "static_ip", "what": "the links", "since": "2026-11-26T14:30:40Z", "seconds": 7}


def test_hosts_with_pending_changes_are_found_by_both_queries() -> None:
    said = {"ansible_facts": {}, "pending": [CHANGE]}
    hostvars: dict[str, Any] = {"a": {"__preflight": said}, "b": {}, "c": {}, "d": {}}
    asked = {"b": said, "c": {"pending": []}, "d": {"unreachable": True}}
    assert pending_changes.list_hosts_with_pending_changes(hostvars, list(hostvars), asked) == [
        "a",
        "b",
    ]


def test_pending_changes_are_described_with_their_seconds() -> None:
    (sentence,) = pending_changes.describe_pending_changes([CHANGE])
    assert sentence.startswith("A run changed the links at 2026-11-26T14:30:40Z and has not")
    assert "reverts the change in 7 s" in sentence
    assert pending_changes.count_pending_seconds([CHANGE, CHANGE | {"seconds": 3}]) == 8
    assert pending_changes.count_pending_seconds([]) == 1


@pytest.mark.parametrize(
    "changes",
    [
        None,
        "static_ip",
        [7],
        [{"name": "x"}],
        [CHANGE | {"seconds": "many"}],
        [CHANGE | {"seconds": 10**18, "what": "\x1b[2J" + "w" * 9999}] * 99,
        [CHANGE | {"seconds": -5, "since": "a\nb"}],
    ],
)
def test_a_lie_about_pending_changes_delays_no_node(changes: Any) -> None:
    assert (
        1 <= pending_changes.count_pending_seconds(changes) <= pending_changes.PENDING_SECONDS + 1
    )
    sentences = pending_changes.describe_pending_changes(changes)
    assert len(sentences) <= pending_changes.PENDING_CHANGES
    assert all(one.isprintable() and len(one) < 600 for one in sentences)


def _join_versions(versions: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(versions[:-1]), versions[-1])))


def test_the_readme_lists_the_supported_systems() -> None:
    known = dict(preflight.SUPPORTED)
    families = [known.pop(name) for name in ("CentOS", "RedHat", "Rocky", "AlmaLinux")]
    assert len({*map(tuple, families)}) == 1
    ubuntu = _join_versions([f"{one}.04" for one in known.pop("Ubuntu")])
    wanted = (
        f"CentOS Stream, RHEL, Rocky and Alma {_join_versions(families[0])}, Ubuntu {ubuntu}, "
        f"Debian {_join_versions(known.pop('Debian'))}; Python {preflight.NEEDED_PYTHON} or newer"
    )
    assert not known
    assert f"| nodes | {wanted} |" in (ROOT / "README.md").read_text()


def test_each_supported_release_has_its_packages() -> None:
    families = {"CentOS": "RedHat", "Rocky": "RedHat", "AlmaLinux": "RedHat"}
    wanted = {
        (families.get(name, name), release)
        for name, releases in preflight.SUPPORTED.items()
        for release in releases
    }
    for role in ("nccl", "torch_runtime", "nvidia_driver"):
        there = {path.stem for path in (ROOT / f"roles/{role}/vars").glob("*.yml")} - {"main"}
        missing = {(name, one) for name, one in wanted if not {name, f"{name}_{one}"} & there}
        assert not missing, role
        assert there <= {one for name, release in wanted for one in (name, f"{name}_{release}")}
    assert not [
        path for path in ROOT.glob("roles/*/meta/main.yml") if "platforms" in path.read_text()
    ]
