"""Sandboxes to test under: the best one here, and the plain one that works everywhere."""

import pytest

from kernelskill.evaluation.sandbox import Sandbox

STRONGER = ("bubblewrap", "namespaces", "landlock")


def sandbox_of(way):
    """The sandbox that uses this way, or skip."""
    if way == "best":
        return Sandbox.probe()
    without = frozenset(other for other in STRONGER if other != way)
    found = Sandbox.probe(without)
    if found.way != way:
        pytest.skip(f"{way} does not work here: {', '.join(found.layers)}")
    return found


@pytest.fixture
def best():
    return Sandbox.probe()


@pytest.fixture(params=["best", "plain"])
def sandbox(request):
    """Both ends: whatever is best here, and what works everywhere."""
    return sandbox_of(request.param)


@pytest.fixture(params=[*STRONGER, "plain"])
def any_sandbox(request):
    """Every way that works here."""
    return sandbox_of(request.param)
