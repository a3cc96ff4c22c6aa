"""Small models of many kinds, each with its arguments."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Of(nn.Module):
    """A module around a function, with submodules by name."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def r(*shape):
    return torch.randn(*shape)


def _attention():
    def forward(m, x):
        q, k, v = m.qkv(x).view(2, 8, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(4)
        mask = torch.ones(8, 8, dtype=torch.bool).triu(1)
        return m.out(
            (scores.masked_fill(mask, float("-inf")).softmax(-1) @ v).transpose(1, 2).reshape(2, 8, 8)
        )

    return Of(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))

    def forward(self, ids):
        self.steps += 1
        return self.head(self.embed(ids) * self.scale)


class Plain(nn.Module):
    """Tensors that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.offset = torch.arange(5.0)

    def forward(self, x):
        return x * self.offset + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])


def _inplace(m, x):
    y = x * 2
    y += 1
    y[:, 1:3] = 0
    F.relu(y, inplace=True)
    return y.sqrt_()


MODELS = {
    "mlp": (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4), nn.Softmax(-1)), [r(3, 8)], {}),
    "conv-bn-pool": (
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(True), nn.MaxPool2d(2), nn.AvgPool2d(2)),
        [r(2, 3, 8, 8)],
        {},
    ),
    "norms": (nn.Sequential(nn.LayerNorm(8), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4), nn.RMSNorm(8)), [r(2, 4, 8)], {}),
    "activations": (
        nn.Sequential(nn.SiLU(), nn.Mish(), nn.ELU(), nn.SELU(), nn.CELU(), nn.LeakyReLU(0.1), nn.PReLU(), nn.Softplus(),
                      nn.Hardswish(), nn.Hardsigmoid(), nn.LogSigmoid(), nn.Hardtanh(), nn.Softsign(), nn.Tanhshrink()),
        [r(4, 5)],
        {},
    ),
    "attention": (_attention(), [r(2, 8, 8)], {}),
    "sdpa": (Of(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), [r(1, 2, 8, 4) for _ in "qkv"], {}),
    "losses": (
        Of(lambda m, x, y, t: (F.cross_entropy(x, t), F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y),
                               F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"))),
        [r(6, 5), r(6, 5), torch.randint(0, 5, (6,))],
        {},
    ),
    "scan": (Of(lambda m, x, k: torch.cumsum(x * k, 1).flip(1) + torch.cumprod(x, 1)), [r(3, 7), r(3, 7) > 0], {}),
    "reductions": (
        Of(lambda m, x: {"max": x.max(1), "arg": x.argmin(0), "lse": x.logsumexp(1), "std": x.std(), "any": (x > 2).any(),
                         "norm": x.norm(dim=1), "top": torch.topk(x, 2)}),
        [r(5, 6)],
        {},
    ),
    "lstm": (Of(lambda m, x: m.rnn(x)[0][:, -1], rnn=nn.LSTM(4, 6, 2, batch_first=True)), [r(2, 5, 4)], {}),
    "gru": (Of(lambda m, x: m.rnn(x), rnn=nn.GRU(4, 6)), [r(5, 2, 4)], {}),
    "tied-buffers": (Tied(), [torch.randint(0, 11, (2, 4))], {}),
    "plain-tensors": (Plain(), [r(3, 5)], {}),
    "in-place": (Of(_inplace), [r(4, 5)], {}),
    "keywords": (Of(lambda m, x, alpha=1.0, *, y, z: x * alpha - y / z), [r(3, 4)], {"z": r(3, 4).exp(), "alpha": 0.5, "y": r(4)}),
    "mixed-inputs": (Of(lambda m, pair, flag, x: pair[0] @ pair[1] if flag else x), [(r(3, 4), r(4, 2)), True, r(1)], {}),
    "strided-inputs": (Of(lambda m, x, y, z: (x + y) * z), [r(4, 5).t(), r(1, 4).expand(5, 4), r(5, 8)[:, ::2]], {}),
    "channels-last": (nn.Conv2d(3, 4, 3), [r(2, 3, 6, 6).to(memory_format=torch.channels_last)], {}),
    "nested-result": (Of(lambda m, x: (x.exp(), [None, x > 0], {"n": x.sum().to(torch.int64), "x": x})), [r(3)], {}),
    "same-twice": (Of(lambda m, x: (x, x, x.t(), x * 0 + 1)), [r(3, 3)], {}),
    "einsum": (Of(lambda m, a, b: torch.einsum("bij,bkj->bik", a, b)), [r(2, 3, 4), r(2, 5, 4)], {}),
    "gather": (
        Of(lambda m, x, i: (x.gather(1, i), torch.zeros(3, 6).scatter_add(1, i, x), x[i[:, 0] % 3], F.one_hot(i, 6).sum(1))),
        [r(3, 4), torch.randint(0, 4, (3, 4))],
        {},
    ),
    "eval-mode": (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)).eval(), [r(3, 4)], {}),
    "autocast": (
        Of(lambda m, x: m.fc(x.float()), fc=nn.Linear(4, 4)), [r(3, 4).bfloat16()], {},
    ),
    "resize": (Of(lambda m, x: F.interpolate(x, scale_factor=2, mode="bilinear")), [r(1, 2, 4, 4)], {}),
    "pads": (Of(lambda m, x: F.pad(x, (1, 2), value=float("-inf")).amax(1) + F.pad(x, (1, 1), mode="reflect").sum(1)), [r(4, 5)], {}),
    "transposed-conv": (nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), [r(1, 3, 4, 4)], {}),
    "weight-norm": (nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), [r(2, 4)], {}),
    "transformer": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), [r(2, 5, 8)], {}),
}  # fmt: skip
