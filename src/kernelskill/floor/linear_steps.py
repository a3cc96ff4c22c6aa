"""Which operators are linear in which operands."""

from __future__ import annotations

from collections.abc import Mapping

from kernelskill.records import Node, Ref, TensorSpec
from kernelskill.records.operators import family, function

Specs = Mapping[Ref, TensorSpec]

_MOVES = """clone contiguous _to_copy cat stack repeat constant_pad_nd flip roll index_select pixel_shuffle
    channel_shuffle pixel_unshuffle diagonal diag_embed triu tril upsample_nearest1d upsample_nearest2d
    upsample_nearest3d expand_copy permute_copy view_copy lift_fresh_copy"""
"""Copies whose result holds elements of the operand and constants."""
_SUMS = """sum mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    _adaptive_avg_pool2d _adaptive_avg_pool3d cumsum upsample_bilinear2d upsample_linear1d upsample_trilinear3d"""
"""Weighted sums of elements, with weights that the graph fixes."""
_ADDS = frozenset({"add", "sub", "rsub", "neg"})
_SCALES = frozenset({"mul", "div"})
_FIXED_NORMS = "_native_batch_norm_legit_no_training _batch_norm_no_update"
"""Normalisation by stored statistics: a scale and a shift for each channel."""
_IN_THE_FIRST = frozenset(f"{_MOVES} {_SUMS} {_FIXED_NORMS}".split())


def is_contraction(node: Node) -> bool:
    """Whether a node is a product or a convolution."""
    return family(node.op) in {"matmul", "conv"}


def linear_operands(node: Node, specs: Specs) -> tuple[Ref, ...]:
    """The operands in each of which a node is linear or affine while the others stay."""
    refs = [ref for ref in dict.fromkeys(node.refs()) if ref in specs]
    return tuple(ref for ref in refs if not takes_whole(node, ref, specs))


def takes_whole(node: Node, ref: Ref, specs: Specs) -> bool:
    """Whether a node is not linear in an operand, so that each of its elements is needed."""
    name, first = function(node.op), node.args[0] if node.args else None
    if is_contraction(node):
        return list(node.refs()).count(ref) > 1
    if family(node.op) == "view" or name in _ADDS or name in {"cat", "stack"}:
        return False
    if name in _SCALES:
        return not _is_scaled(node, ref, specs)
    if name in _IN_THE_FIRST:
        return first != ref
    return True


def is_affine(node: Node, specs: Specs) -> bool:
    """Whether a node is a scale, a shift or a change of sign of its only large operand."""
    out = node.outputs[0] if node.outputs else None
    if function(node.op) not in _ADDS | _SCALES or out is None:
        return False
    large = [ref for ref in dict.fromkeys(node.refs()) if ref in specs and specs[ref].numel == out.numel]
    return len(large) == 1 and not takes_whole(node, large[0], specs)


def _is_scaled(node: Node, ref: Ref, specs: Specs) -> bool:
    """Whether a product or quotient scales an operand by numbers that at least two of its elements share.

    Factors of their own for all elements leave nothing to save behind a sum.
    """
    out = node.outputs[0] if node.outputs else None
    if out is None or len(node.args) < 2 or "rounding_mode" in node.kwargs or node.args[0] == node.args[1]:
        return False
    if function(node.op) == "div" and node.args[0] != ref:
        return False
    other = node.args[1] if node.args[0] == ref else node.args[0]
    return not isinstance(other, Ref) or (other in specs and specs[other].numel < out.numel)
