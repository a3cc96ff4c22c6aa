"""The float64 twin agrees with the model computed in float64 by hand, whatever forward does about dtypes."""

import math

import pytest
import torch
import torch.nn.functional as F
from models_to_capture import MODELS, Of, r
from torch import nn

from kernelskill.evaluation.worker.snapshot import Snapshot
from kernelskill.evaluation.worker.tree import encode
from kernelskill.evaluation.worker.twin import twin_result


def leaves_of(value):
    found = []
    encode(value, found, numbers=True)
    return [torch.as_tensor(item) for item in found]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_twin_of_higher_precision(name):
    model, args, kwargs = MODELS[name]
    before = Snapshot.of(model)
    with torch.no_grad():
        eager = leaves_of(model(*args, **kwargs))
    before.restore(model)
    result, note = twin_result(model, args, kwargs)
    assert note == ""
    assert before.changed(model) == ([], [])
    for one, exact in zip(eager, leaves_of(result), strict=True):
        if one.is_floating_point():
            assert exact.dtype is torch.float64
            torch.testing.assert_close(one.double(), exact, rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert one.dtype == exact.dtype
            assert torch.equal(one, exact)


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.linspace(0, 1, 7)
        self.hidden = torch.zeros(7)

    def forward(self, x):
        self.hidden.copy_(x[0])
        self.hidden = torch.tanh(self.hidden + x.sum(0)) / 3
        return self.hidden * self.table.exp()


def half_matmul(_, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear(x, x).float()


def buffers(_, x):
    out = torch.zeros(x.shape[0], 7)
    for k in range(x.shape[0]):
        out[k] = x[k] / 3
    acc = torch.empty(7)
    acc.copy_(out.sum(0))
    acc.mul_(1 / 3).add_(torch.full((7,), 0.1, dtype=torch.float32))
    return acc, out.new_zeros(7).index_add(0, torch.tensor([1, 2]), x[0, :2] / 7)


def out_argument(_, x):
    out = torch.empty(5, 7, dtype=torch.float32)
    torch.div(x, 3, out=out)
    return out


X = r(5, 7)
D = X.double()
FORMS = {
    "float": (Of(lambda _, x: (x.half().float() / 3).to(torch.float32)), D / 3),
    "dtype-argument": (Of(lambda _, x: x.softmax(1, dtype=torch.float32).sum(0, dtype=torch.float32)), D.softmax(1).sum(0)),
    "constants": (Of(lambda _, x: x / torch.tensor(3.0) + torch.ones(7) / 3), D / 3 + 1 / 3),
    "autocast": (Of(half_matmul), D @ D.t()),
    "attributes": (Keeps(), torch.tanh(D[0] + D.sum(0)) / 3 * torch.linspace(0, 1, 7).double().exp()),
    "in-place": (
        Of(buffers),
        ((D / 3).sum(0) / 3 + 0.1, torch.zeros(7).double().index_add(0, torch.tensor([1, 2]), D[0, :2] / 7)),
    ),
    "out": (Of(out_argument), D / 3),
    "type-as": (Of(lambda _, x: (x / 3).type_as(torch.zeros(1, dtype=torch.bfloat16)).type(torch.FloatTensor)), D / 3),
    "numpy-like": (Of(lambda _, x: torch.stack([torch.as_tensor(float(v)) for v in x[0] / 3])), D[0] / 3),
    "scatter": (
        Of(lambda _, x: torch.zeros(5, 7).scatter_add_(1, torch.zeros(5, 7, dtype=torch.int64), x / 3)),
        F.pad((D / 3).sum(1, keepdim=True), (0, 6)),
    ),
    "rms-norm": (
        Of(lambda _, x: F.rms_norm(x * 1e-3, (7,))),
        (D * 1e-3) / ((D * 1e-3).square().mean(1, keepdim=True) + torch.finfo(torch.float32).eps).sqrt(),
    ),
    "sdpa": (
        Of(lambda _, x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])[0, 0]),
        (D @ D.t() / math.sqrt(7)).softmax(-1) @ D,
    ),
    "complex": (Of(lambda _, x: torch.fft.rfft(x).abs()), torch.fft.rfft(D).abs()),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMS)
def test_single_precision_does_not_come_back(name):
    model, due = FORMS[name]
    before = Snapshot.of(model)
    result, note = twin_result(model, [X], {})
    assert note == ""
    for got, want in zip(leaves_of(result), leaves_of(due), strict=True):
        tolerance = 3e-8 if name in ("in-place", "numpy-like") else 1e-14
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    assert before.changed(model) == ([], [])


def test_a_batch_norm_is_computed_and_its_buffers_stay():
    model = nn.BatchNorm1d(7)
    result, _ = twin_result(model, [X], {})
    due = (D - D.mean(0)) / (D.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(result, due, rtol=1e-12, atol=1e-12)
    assert int(model.num_batches_tracked) == 0


class Refuses(nn.Module):
    def __init__(self, also_double):
        super().__init__()
        self.fc = nn.Linear(7, 2)
        self.also_double = also_double
        self.copied = False

    def __deepcopy__(self, memo):
        fresh = Refuses(self.also_double)
        fresh.fc.load_state_dict(self.fc.state_dict())
        fresh.copied = True
        return fresh

    def forward(self, x):
        if x.dtype is torch.float64 and (self.also_double or not self.copied):
            raise TypeError("single precision only")
        return self.fc(x)


def test_where_widening_fails_a_double_copy_answers_and_says_so():
    model = Refuses(also_double=False)
    result, note = twin_result(model, [X], {})
    assert "single precision only" in note
    torch.testing.assert_close(
        result, F.linear(D, model.fc.weight.double(), model.fc.bias.double()).detach(), rtol=1e-12, atol=1e-12
    )


def test_where_both_fail_the_reason_is_told():
    from kernelskill.evaluation.worker.protocol import Failure

    with pytest.raises(Failure, match="no float64 twin: TypeError: single precision only"):
        twin_result(Refuses(also_double=True), [X], {})
