"""Small tasks in KernelBench's form: `python benchmarks/small_tasks.py FOLDER` writes them where a suite is read from.

A call takes 0.2 to 5 ms in eager on two cores, so that a whole suite can be searched on a processor. Kinds of work and
sizes are mixed on purpose: what pays for one in the cache need not pay for one beyond it. The first ten are of the kind
that level 1 of KernelBench is made of, at smaller shapes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

FIRST_TEN = 10
"""Tasks at the head of the table that stand for level 1."""
FILE = """import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):{init}
    def forward(self, {names}):
        return {result}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
CONSTRUCTOR = """
    def __init__(self):
        super().__init__()
        {line}
"""


class SmallTask(NamedTuple):
    """One line of the table."""

    family: str
    """Kind of work: tasks of one family have like contexts."""
    names: str
    """Arguments of forward."""
    result: str
    inputs: str
    init: str = ""
    """Line of the constructor that makes the layers; "" = there are none."""

    @property
    def source(self) -> str:
        """The task's file."""
        init = CONSTRUCTOR.format(line=self.init) if self.init else ""
        return FILE.format(init=init, names=self.names, result=self.result, inputs=self.inputs)


def _of(*shapes: str) -> str:
    return ", ".join(f"torch.randn({shape})" for shape in shapes)


def _like(count: int, shape: str, law: str = "randn") -> str:
    return ", ".join([f"torch.{law}({shape})"] * count)


TASKS = {
    "Swish": SmallTask("dear map", "x", "x * torch.sigmoid(x)", _of("448, 1024")),
    "Softsign": SmallTask("cheap map", "x", "x / (1 + torch.abs(x))", _of("512, 2048")),
    "NewGelu": SmallTask(
        "dear map", "x", "0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3))))", _of("384, 768"),
    ),
    "Softmax": SmallTask("row", "x", "torch.softmax(x, dim=1)", _of("256, 4096")),
    "LayerNorm": SmallTask("row", "x", "self.norm(x)", _of("8, 64, 2048"), "self.norm = nn.LayerNorm(2048)"),
    "RMSNorm": SmallTask(
        "row", "x", "x / torch.sqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-5)", _of("512, 1536"),
    ),
    "MaxPool2d": SmallTask("pool", "x", "self.pool(x)", _of("4, 16, 64, 64"), "self.pool = nn.MaxPool2d(3, 2, 1)"),
    "ReverseCumsum": SmallTask("scan", "x", "torch.cumsum(x.flip(1), dim=1).flip(1)", _of("256, 2048")),
    "MSELoss": SmallTask("loss", "p, t", "torch.mean((p - t) ** 2)", _like(2, "512, 2048")),
    "TripletMarginLoss": SmallTask(
        "loss", "a, p, n", "self.loss(a, p, n)", _like(3, "256, 2048"), "self.loss = nn.TripletMarginLoss(1.0)",
    ),
    "Mish": SmallTask("dear map", "x", "x * torch.tanh(F.softplus(x))", _of("256, 1024")),
    "MishBeyondCache": SmallTask("dear map", "x", "x * torch.tanh(F.softplus(x))", _of("768, 1024")),
    "SwiGLU": SmallTask("dear map", "a, b", "F.silu(a) * b", _like(2, "320, 1024")),
    "GeGLU": SmallTask("dear map", "a, b", "F.gelu(a) * b", _like(2, "256, 1024")),
    "TanhGelu": SmallTask("dear map", "x", "F.gelu(x, approximate='tanh') + 0.1 * x", _of("448, 1024")),
    "SeluMix": SmallTask("dear map", "x", "F.selu(x) * torch.sigmoid(x) + torch.erf(x)", _of("320, 1024")),
    "LogSigmoidGate": SmallTask(
        "dear map", "a, b", "torch.exp(F.logsigmoid(a)) * torch.tanh(b)", _like(2, "320, 1024"),
    ),
    "GaussianFeatures": SmallTask("dear map", "x, c", "torch.exp(-0.5 * (x - c) ** 2)", _of("640, 768", "768")),
    "EluShift": SmallTask("dear map", "x", "F.elu(x * 1.5 + 0.2) - 0.3 * x", _of("448, 1024")),
    "SoftCap": SmallTask("dear map", "x", "30.0 * torch.tanh(x / 30.0)", _of("1152, 1024")),
    "GatedDecay": SmallTask(
        "dear map", "h, g", "h * torch.exp(-F.softplus(g)) + torch.sigmoid(g)", _like(2, "256, 768"),
    ),
    "LogCosh": SmallTask("dear map", "x", "x + F.softplus(-2.0 * x) - 0.6931472", _of("448, 1024")),
    "HardSwish": SmallTask("cheap map", "x", "x * F.relu6(x + 3) / 6", _of("1024, 1024")),
    "HardSwishInCache": SmallTask("cheap map", "x", "x * F.relu6(x + 3) / 6", _of("192, 1024")),
    "ResidualRelu": SmallTask("cheap map", "x, y", "torch.relu(x + y) * 0.5 + x", _like(2, "768, 1024")),
    "ScaleShiftLeaky": SmallTask(
        "cheap map", "x, s, b", "F.leaky_relu(x * s + b, 0.2)", _of("8, 32, 64, 64", "32, 1, 1", "32, 1, 1"),
    ),
    "ClampLerp": SmallTask("cheap map", "x, y", "torch.clamp(x + 0.3 * (y - x), -1.0, 1.0)", _like(2, "512, 1024")),
    "HardTanhScale": SmallTask("cheap map", "x", "F.hardtanh(x * 2.0) - 0.25 * x", _of("1280, 1024")),
    "MaskedBlend": SmallTask("cheap map", "x, y", "torch.where(x > y, x * 0.9, y * 1.1)", _like(2, "256, 1024")),
    "SquaredRelu": SmallTask("cheap map", "x", "torch.square(torch.relu(x)) + 0.01 * x", _of("384, 1536")),
    "LogSoftmax": SmallTask("row", "x", "F.log_softmax(x, dim=-1)", _of("1024, 512")),
    "TemperedSoftmax": SmallTask("row", "x", "torch.softmax(x / 0.7, dim=-1) * 2.0", _of("96, 8192")),
    "GroupNorm": SmallTask("row", "x", "self.norm(x)", _of("8, 32, 48, 48"), "self.norm = nn.GroupNorm(8, 32)"),
    "InstanceNorm": SmallTask("row", "x", "self.norm(x)", _of("8, 24, 64, 64"), "self.norm = nn.InstanceNorm2d(24)"),
    "L2Normalize": SmallTask("row", "x", "x / torch.norm(x, p=2, dim=1, keepdim=True)", _of("1024, 1024")),
    "ResidualLayerNorm": SmallTask(
        "row", "x, y", "F.gelu(self.norm(x + y))", _like(2, "512, 1024"), "self.norm = nn.LayerNorm(1024)",
    ),
    "GatedRMSNorm": SmallTask(
        "row", "x, g", "F.silu(g) * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", _like(2, "384, 768"),
    ),
    "KLDivLoss": SmallTask(
        "loss", "p, q", "torch.sum(q * (torch.log(q + 1e-6) - torch.log(p + 1e-6))) / 256",
        _like(2, "256, 2048", "rand"),
    ),
    "HuberLoss": SmallTask("loss", "p, t", "F.smooth_l1_loss(p, t)", _like(2, "512, 1024")),
    "HingeLoss": SmallTask("loss", "p, t", "torch.mean(torch.clamp(1 - p * t, min=0))", _like(2, "768, 2048")),
    "CosineLoss": SmallTask("loss", "p, t", "torch.mean(1 - F.cosine_similarity(p, t, dim=1))", _like(2, "256, 3072")),
    "LogitsLoss": SmallTask(
        "loss", "x, t", "torch.mean(torch.relu(x) - x * t + F.softplus(-torch.abs(x)))", _like(2, "320, 1024", "rand"),
    ),
    "LogCoshLoss": SmallTask("loss", "p, t", "torch.mean(torch.log(torch.cosh(p - t)))", _like(2, "256, 1024")),
    "CharbonnierLoss": SmallTask("loss", "p, t", "torch.mean(torch.sqrt((p - t) ** 2 + 1e-6))", _like(2, "1024, 1024")),
    "RowLogSumExp": SmallTask("fold", "x", "torch.logsumexp(x * 0.5, dim=1)", _of("512, 2048")),
    "RowAbsSum": SmallTask("fold", "x", "torch.sum(torch.abs(x - 0.5), dim=1)", _of("1024, 1536")),
    "ColumnMean": SmallTask("fold", "x", "torch.mean(torch.relu(x) * 2.0, dim=0)", _of("1024, 1024")),
    "ColumnSquares": SmallTask("fold", "x", "torch.sum(x * x, dim=0)", _of("4096, 384")),
    "MiddleMax": SmallTask("fold", "x", "torch.amax(x * 1.5 - 0.5, dim=1)", _of("16, 256, 384")),
    "ChannelEnergy": SmallTask("fold", "x", "torch.mean(torch.tanh(x) ** 2, dim=1)", _of("8, 32, 2048")),
    "ExclusiveCumsum": SmallTask("scan", "x", "torch.cumsum(x, dim=1) - x", _of("512, 1024")),
    "MaskedCumsum": SmallTask("scan", "x, m", "torch.cumsum(x * (m > 0), dim=1)", _like(2, "192, 2048")),
    "ScaledCumsum": SmallTask("scan", "x", "torch.cumsum(x * 0.1, dim=-1) * 0.5 + 1.0", _of("64, 16384")),
    "CumsumOfExp": SmallTask("scan", "x", "torch.cumsum(torch.exp(-torch.abs(x)), dim=1)", _of("384, 1024")),
    "CumulativeMean": SmallTask(
        "scan", "x, n", "torch.cumsum(x, dim=1) / n", "torch.randn(256, 1536), torch.arange(1.0, 1537.0)",
    ),
    "AvgPool2d": SmallTask("pool", "x", "self.pool(x)", _of("8, 16, 80, 80"), "self.pool = nn.AvgPool2d(2)"),
    "MaxPool1d": SmallTask("pool", "x", "self.pool(x)", _of("8, 32, 4096"), "self.pool = nn.MaxPool1d(4, 2, 1)"),
    "AvgPool1d": SmallTask("pool", "x", "self.pool(x)", _of("8, 32, 2048"), "self.pool = nn.AvgPool1d(4, 2)"),
    "ReluMaxPool2d": SmallTask(
        "pool", "x", "self.pool(torch.relu(x * 0.5 + 0.1))", _of("2, 32, 64, 64"), "self.pool = nn.MaxPool2d(2)",
    ),
    "OverlappingAvgPool2d": SmallTask(
        "pool", "x", "self.pool(x) * 2.0", _of("4, 16, 72, 72"), "self.pool = nn.AvgPool2d(3, stride=2)",
    ),
    "LinearGelu": SmallTask(
        "product", "x", "F.gelu(self.fc(x)) * 0.5", _of("512, 256"), "self.fc = nn.Linear(256, 768)",
    ),
    "LinearSwishScale": SmallTask(
        "product", "x", "F.silu(self.fc(x)) * 1.7 + 0.1", _of("384, 192"), "self.fc = nn.Linear(192, 1024)",
    ),
    "MatmulSoftmax": SmallTask("product", "a, b", "torch.softmax(a @ b * 0.125, dim=-1)", _of("512, 64", "64, 1024")),
    "ConvMish": SmallTask(
        "product", "x", "F.mish(self.conv(x)) + 0.1",
        _of("4, 8, 64, 64"), "self.conv = nn.Conv2d(8, 16, 3)",
    ),
    "ConvReluScale": SmallTask(
        "product", "x", "torch.relu(self.conv(x)) * 0.8 + 0.1",
        _of("4, 16, 56, 56"), "self.conv = nn.Conv2d(16, 32, 3)",
    ),
}  # fmt: skip
"""Name -> task, in the order of their numbers."""


def write(folder: Path) -> list[Path]:
    """Write every task as `level1/NN_Name.py` below a folder; returns the files. What is there already stays."""
    level = folder / "level1"
    level.mkdir(parents=True, exist_ok=True)
    files = []
    for number, (name, task) in enumerate(TASKS.items(), 1):
        files.append(level / f"{number:02d}_{name}.py")
        if not files[-1].exists():  # another process may be reading it
            partial = files[-1].with_suffix(f".{os.getpid()}")
            partial.write_text(task.source, encoding="utf-8")
            partial.replace(files[-1])
    return files


def main() -> None:
    """Write the tasks."""
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/small_tasks.py FOLDER")
    print(f"{len(write(Path(sys.argv[1])))} tasks in {sys.argv[1]}/level1")


if __name__ == "__main__":
    main()
