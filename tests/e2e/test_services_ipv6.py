"""Run Ray and JAX over two nodes on an IPv6 cluster network with the firewall on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from plays import run

from .test_services import JAX, RAY, SMALL, Lab

LAB = "e2e-services6"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    made = Lab(LAB, ["ray", "jax"], "--ipv6")
    done = made.site("--skip-tags", "verify")
    assert done.code == 0, done.output[-3000:]
    made.bring()
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_ray_runs_over_both_nodes(lab: Lab) -> None:
    el, ubuntu = lab.names
    assert ":" in lab.address(el)
    lab.count()
    lab.together(dict.fromkeys(lab.names, f"{RAY} start {SMALL} 2>&1"))
    for name in (el, ubuntu):
        output = lab.on(name, "/opt/ray/bin/python /root/ray_gloo.py")
        assert "2 nodes, sums and objects as expected" in output
    assert lab.left() == ["packets 0 bytes 0"] * 2
    lab.together(dict.fromkeys(lab.names, f"{RAY} stop 2>&1"))


def test_jax_runs_over_both_nodes(lab: Lab) -> None:
    lab.count()
    summed = lab.together(dict.fromkeys(lab.names, f"{JAX} /root/jax_psum.py 2>&1"))
    assert all("2 devices, the sum is as expected" in output for output in summed.values())
    assert lab.left() == ["packets 0 bytes 0"] * 2
