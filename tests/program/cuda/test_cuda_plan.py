"""How rows are shared out among the blocks of a cluster, what they hold, and the shapes that the driver expects."""

import ctypes

import clustered
import pytest
import torch

from kernelskill.errors import ProgramError
from kernelskill.program.cuda import launcher, on_chip
from kernelskill.program.cuda.clusters import cluster_plan
from kernelskill.program.cuda.printed import printed
from kernelskill.program.cuda.rows import ClusterRows


def kernel(source, *shapes, **gpu):
    inputs = [torch.empty(*shape, dtype=dtype, device="meta") for dtype, shape in shapes]
    program, *_ = clustered.traced(source, inputs)
    return clustered.in_clusters(program, **gpu).kernels[0]


FLOATS = torch.float32


def test_every_element_has_one_block():
    for length in (20000, 20001, 65542, 393216):
        for parts in (2, 4, 8, 16):
            try:
                plan = cluster_plan(kernel(clustered.RMS, (FLOATS, (3, length)), parts=parts), parts)
            except ProgramError:
                continue
            assert plan.stretch % plan.lanes == 0
            assert length % plan.lanes == 0
            assert (parts - 1) * plan.stretch < length <= parts * plan.stretch


def test_accesses_are_as_wide_as_every_row_allows():
    def lanes(source, *shapes):
        return cluster_plan(kernel(source, *shapes), 2).lanes

    assert lanes(clustered.SOFTMAX, (FLOATS, (3, 40000))) == 4
    assert lanes(clustered.SOFTMAX, (FLOATS, (3, 40002))) == 2
    assert lanes(clustered.SOFTMAX, (FLOATS, (3, 40001))) == 1
    assert lanes(clustered.RMS, (torch.bfloat16, (3, 40000))) == 8


def test_what_is_read_once_is_not_held():
    two = clustered.forward("x, y", "(x - y.mean(-1, keepdim=True)) * y")
    plan = cluster_plan(kernel(two, (FLOATS, (3, 40000)), (FLOATS, (3, 40000))), 4)
    assert plan.kept == ("y",)
    both = clustered.forward("x, y", "(x + y) - (x * y).mean(-1, keepdim=True)")
    plan = cluster_plan(kernel(both, (FLOATS, (3, 40000)), (FLOATS, (3, 40000))), 4)
    assert sorted(plan.kept) == ["x", "y"]
    assert plan.offsets == (0, 40000)
    assert plan.shared_bytes == 80000


def printed_of(source, *shapes):
    """The text of a kernel's rows, without what all kernels call."""
    return ClusterRows(kernel(source, *shapes)).text().removeprefix(on_chip.TEXT)


def test_a_softmax_waits_for_its_cluster_once():
    for source in (clustered.SOFTMAX, clustered.LOG_SOFTMAX):
        text = printed_of(source, (FLOATS, (3, 40000)))
        assert text.count("across_cluster<on_chip::Softmax") == text.count("across_cluster<") == 1
        assert text.count("on_chip::arrive_at_cluster()") == text.count("on_chip::wait_for_cluster()") == 1
        assert text.count("for (int turn") == 3, "fetched, folded, written"
        assert "expf(" not in text


def test_exponentials_outside_a_softmax_are_exact_and_computed_once():
    def exponentials(result):
        return printed_of(clustered.forward("x", result), (FLOATS, (3, 40000))).count("expf(")

    assert exponentials("x.exp() / x.exp().sum(-1, keepdim=True)") == 1
    assert exponentials("x.exp() / x.exp().sum(-1, keepdim=True) + x") == 2, "x itself is needed again"
    assert exponentials("torch.softmax(x, -1) * x.mean(-1, keepdim=True).exp()") == 1


def test_costly_values_before_a_softmax_are_computed_once():
    text = printed_of(clustered.forward("x", "torch.softmax(torch.tanh(x), -1)"), (FLOATS, (3, 40000)))
    assert text.count("tanhf(") == 1


def test_names_that_kernels_need_are_theirs():
    text = printed_of(
        clustered.forward("piece, turn", "torch.softmax(piece * turn, -1)"), *2 * [(FLOATS, (3, 40000))]
    )
    assert "piece_value_kept" in text
    assert "turn_value_kept" in text


def test_blocks_that_share_a_multiprocessor_share_its_registers():
    assert "__launch_bounds__(512, 2)" in printed_of(clustered.SOFTMAX, (FLOATS, (3, 100000)))
    assert "__launch_bounds__(1024, 1)" in printed_of(clustered.SOFTMAX, (FLOATS, (3, 800000)))


def test_what_is_no_float_is_declined():
    source = clustered.forward("x, i", "torch.softmax(x + i, -1)")
    with pytest.raises(ProgramError, match="int64 is not"):
        ClusterRows(kernel(source, (FLOATS, (3, 40000)), (torch.int64, (3, 40000))))


def test_shapes_of_the_driver():
    assert ctypes.sizeof(launcher._Attribute) == 72
    assert ctypes.sizeof(launcher._Shape) == 56
    fields = {
        name: getattr(launcher._Shape, name).offset
        for name in ("shared_bytes", "stream", "attributes", "count")
    }
    assert fields == {"shared_bytes": 24, "stream": 32, "attributes": 40, "count": 48}
    attribute = launcher._Attribute(4, 0, (8, 1, 1))
    assert list(attribute.value[:4]) == [8, 1, 1, 0]


def test_a_printed_module_knows_its_imports_and_names():
    replay = printed("replay")
    assert "import torch" in replay.packages
    assert "import threading" in replay.standard
    assert "Replay" in replay.names
    assert not any("__future__" in line for line in replay.imports)
    replay.require_no_clash(("class Model:\n    Replay = 1\n",))
    with pytest.raises(ProgramError, match="Replay"):
        replay.require_no_clash(("def f():\n    pass", "Replay = 1\n"))


def test_what_is_printed_of_the_launcher_stands_by_itself():
    text = printed("launcher")
    names = {}
    exec("\n".join([*text.imports, text.body]), names)  # no `from __future__`: annotations are evaluated
    assert text.names <= names.keys()
