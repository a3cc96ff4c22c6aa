"""Honest kernels for measurements of the judge: plain PyTorch, each over 50 microseconds on a large GPU."""

from __future__ import annotations

HEAD = "import torch\nfrom torch import nn\n\n\n"
BODY = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}

    def forward(self, {names}):
        return {result}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
ELEMENTWISE = ("        pass", "x", "x * torch.sigmoid(1.702 * x)", "torch.randn(8192, 8192)")
KINDS = {
    "elementwise": ELEMENTWISE,
    "gemm": ("        pass", "a, b", "a @ b", "torch.randn(2048, 2048), torch.randn(2048, 2048)"),
    "convolution": (
        "        self.conv = nn.Conv2d(64, 128, 3, padding=1)", "x", "self.conv(x)", "torch.randn(32, 64, 56, 56)",
    ),
    "launch_bound_network": (
        "        self.net = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(128, 128), nn.ReLU())))",
        "x", "self.net(x)", "torch.randn(16, 128)",
    ),
    "row_softmax": ("        pass", "x", "torch.softmax(x, -1)", "torch.randn(16384, 4096)"),
    "layer_norm": ("        self.norm = nn.LayerNorm(4096)", "x", "self.norm(x)", "torch.randn(8192, 4096)"),
    "full_sum": ("        pass", "x", "x.sum()", "torch.rand(1 << 28)"),
    "column_sum": ("        pass", "x", "x.sum(0)", "torch.rand(16384, 8192)"),
    "cumsum": ("        pass", "x", "torch.cumsum(x, 1)", "torch.randn(4096, 16384)"),
    "max_pool": ("        self.pool = nn.MaxPool2d(2)", "x", "self.pool(x)", "torch.randn(64, 64, 128, 128)"),
    "transposed_copy": ("        pass", "x", "x.t().contiguous()", "torch.randn(8192, 8192)"),
}  # fmt: skip
"""Name -> lines of the constructor, arguments, result, inputs."""
AA = ("elementwise", "gemm", "convolution", "launch_bound_network")
TIMED = tuple(name for name in KINDS if name != "launch_bound_network")


def source(name: str) -> str:
    """A task in KernelBench's form."""
    init, names, result, inputs = KINDS[name]
    return HEAD + BODY.format(init=init, names=names, result=result, inputs=inputs)


def same(name: str) -> str:
    """The task itself, offered as a candidate."""
    return source(name).replace("class Model(", "class ModelNew(")
