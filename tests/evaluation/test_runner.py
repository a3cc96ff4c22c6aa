"""Binding, running, and every kind of result: right ones are copied, wrong ones are named."""

import collections
import dataclasses
import os

import pytest
import torch
from real_workers import spec

from kernelskill.evaluation.channel import Slot
from kernelskill.evaluation.worker import runner
from kernelskill.evaluation.worker.protocol import Failure
from kernelskill.evaluation.worker.session import Session
from kernelskill.evaluation.worker.tree import NUMBER_DTYPE, decode, encode


@dataclasses.dataclass
class Result:
    loss: torch.Tensor
    logits: torch.Tensor


Pair = collections.namedtuple("Pair", "first second")


class Sub(torch.Tensor):
    pass


@pytest.fixture
def bench(tmp_path):
    """Run a function once in a session of this process, and give what landed in the output slots."""
    slots = []

    def place(session, leaf):
        slot = Slot(max(64, 16 * int(torch.tensor(leaf["shape"]).prod() + 1)) if leaf["shape"] else 64)
        slots.append(slot)
        slot.view()[:] = b"\xff" * slot.nbytes
        session.slots.add(len(slots), "memory", os.dup(slot.fd), slot.nbytes, writable=True)
        return {"slot": len(slots), "spec": leaf, "offset": 0}

    def run(function, due):
        leaves = []
        tree = encode(due, leaves, numbers=True)
        specs = [
            spec(*leaf.shape, dtype=str(leaf.dtype).removeprefix("torch."))
            if isinstance(leaf, torch.Tensor)
            else spec(dtype=NUMBER_DTYPE[type(leaf).__name__])
            for leaf in leaves
        ]
        session = Session("candidate", tmp_path, 1, model=function)
        outputs = [place(session, leaf) for leaf in specs]
        runner.handle_bind(session, {"inputs": [], "outputs": outputs, "outputs_tree": tree, "count": 1})
        reply = runner.handle_run(session, {"order": [0]})
        assert len(reply["times_us"]) == 1
        return [view.clone() for view in session.bound[0].outputs]

    yield run
    for slot in slots:
        slot.close()


T = torch.arange(6.0).view(2, 3)


@pytest.mark.parametrize(
    "value",
    [
        T,
        T.t(),
        torch.tensor(3.5),
        torch.empty(0, 4),
        T.to(torch.bfloat16),
        T.to(torch.int64),
        T > 2,
        torch.complex(T, -T),
        torch.complex(T, -T).conj(),
        T[:1].expand(4, 3),
        torch.nn.Parameter(T),
        (T, T + 1),
        [T, (T, None)],
        {"a": T, "b": [T, "text"]},
        Result(T, T * 2),
        Pair(T, T * 2),
        T.max(1),
        3,
        2.5,
        True,
        1 + 2j,
        (T, 4, None),
        None,
    ],
    ids=str,
)
def test_every_kind_of_result_arrives_whole(bench, value):
    leaves = []
    encode(value, leaves, numbers=True)
    found = bench(lambda: value, value)
    assert len(found) == len(leaves)
    for got, leaf in zip(found, leaves, strict=True):
        assert torch.equal(got, torch.as_tensor(leaf, dtype=got.dtype))


def shrunk():
    tensor = torch.ones(2, 3)
    tensor.untyped_storage().resize_(4)
    return tensor


def overridden():
    tensor = torch.ones(2, 3)
    tensor.copy_ = lambda *_: None
    return tensor


@pytest.mark.parametrize(
    ("value", "due", "status", "word"),
    [
        (torch.ones(3, 2), T, "wrong-shape", "output has shape [3, 2], should be [2, 3]"),
        (torch.ones(1), torch.tensor(1.0), "wrong-shape", "[1], should be []"),
        (T.double(), T, "wrong-dtype", "output is float64, should be float32"),
        ((T, T.half()), (T, T), "wrong-dtype", "output[1] is float16"),
        ((T, T), (T, T, T), "wrong-shape", "tuple of 2, should be of 3"),
        ([T, T], (T, T), "wrong-shape", "is a list, should be a tuple"),
        (T, (T, T), "wrong-shape", "is a Tensor, should be a tuple"),
        ({"a": T}, {"b": T}, "wrong-shape", "keys ['a'], should be ['b']"),
        ((T, {"x": [T[0]]}), (T, {"x": [T]}), "wrong-shape", "output[1]['x'][0]"),
        (Pair(T, T), Result(T, T), "wrong-shape", "no field 'loss'"),
        (None, T, "wrong-shape", "is a NoneType, should be a tensor"),
        (2, 2.0, "wrong-dtype", "is a int, should be a Python float"),
        ((T, "b"), (T, "a"), "wrong-values", "output[1] is 'b', should be 'a'"),
        (T.as_subclass(Sub), T, "integrity", "subclass"),
        (overridden, T, "integrity", "copy_"),
        (shrunk, T, "integrity", "no memory"),
        (T.to_sparse(), T, "integrity", "sparse"),
        (torch.empty(2, 3, device="meta"), T, "integrity", "meta"),
    ],
)
def test_a_wrong_result_is_named(bench, value, due, status, word):
    with pytest.raises(Failure) as caught:
        bench(lambda: value() if callable(value) and not isinstance(value, torch.Tensor) else value, due)
    assert caught.value.status == status
    assert word in caught.value.detail


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("x"), "runtime-error"), (MemoryError(), "out-of-memory"), (SystemExit(0), "runtime-error")],
)
def test_what_forward_raises_is_told(bench, error, status):
    def forward():
        raise error

    with pytest.raises(Failure) as caught:
        bench(forward, T)
    assert caught.value.status == status
    assert type(error).__name__ in caught.value.detail


@pytest.mark.parametrize(
    "value", [[1, "a", None, True], {"k": [2.5, (3, 4)]}, [1 + 2j, torch.float16]], ids=str
)
def test_arguments_survive_the_way_through_a_tree(value):
    assert decode(encode(value, []), []) == value


def test_an_unknown_thing_has_no_form():
    with pytest.raises(Failure, match="cannot be judged"):
        encode(object(), [])
