"""What class of work a task is, by the heaviest operator that it dispatches."""

from __future__ import annotations

from kernelskill.records import Graph
from kernelskill.records.operators import family

HEAVIEST_FIRST = (
    "recurrent", "attention", "conv", "matmul", "scan", "pool", "sort", "norm", "softmax", "reduction",
    "elementwise", "copy",
)  # fmt: skip
TEXT = (
    ("recurrent", ("nn.LSTM", "nn.GRU", "nn.RNN")),
    ("attention", ("scaled_dot_product_attention", "MultiheadAttention")),
    ("conv", ("nn.Conv", "F.conv")), ("matmul", ("nn.Linear", "matmul", "einsum", "torch.bmm", "torch.mm")),
)  # fmt: skip
"""For a reference that cannot be captured: what its text mentions."""
OTHER = "other"


def work_of(graph: Graph | None, source: str = "") -> str:
    """The class, e.g. "matmul"; convolutions that upsample and fused chains count by their heaviest operator.

    Args:
        graph: of the captured reference, or None.
        source: the reference's text, read where there is no graph.
    """
    if graph is None:
        return next((name for name, words in TEXT if any(word in source for word in words)), OTHER)
    seen = {family(node.op) for node in graph.nodes}
    return next((name for name in HEAVIEST_FIRST if name in seen), OTHER)
