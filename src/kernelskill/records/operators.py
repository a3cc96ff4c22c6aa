"""Families of ATen operators: one table for all rooms that need to know what kind of work a node is."""

from __future__ import annotations

from typing import Literal

Family = Literal[
    "view", "copy", "creation", "elementwise", "reduction", "softmax", "norm", "scan", "pool", "conv", "matmul",
    "attention", "recurrent", "sort", "random", "check", "kernel", "other",
]  # fmt: skip
"""`view` moves no data; `copy` moves data without arithmetic; `other` is an operator that the table doesn't know."""

_NAMES: dict[Family, str] = {
    "view": """view reshape _unsafe_view permute transpose t expand expand_as broadcast_to squeeze unsqueeze slice
        select narrow alias detach diagonal as_strided split split_with_sizes unsafe_split unbind chunk view_as unfold
        movedim flatten unflatten swapaxes real imag view_as_real view_as_complex lift_fresh""",
    "copy": """clone contiguous _to_copy to copy cat stack repeat tile constant_pad_nd pad reflection_pad1d
        reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d flip roll rot90 index
        index_select embedding gather scatter scatter_add scatter_reduce index_put index_add index_copy masked_select
        masked_scatter select_scatter slice_scatter diagonal_scatter take take_along_dim triu tril repeat_interleave
        im2col col2im upsample_nearest1d upsample_nearest2d upsample_nearest3d pixel_shuffle pixel_unshuffle
        channel_shuffle diag_embed diag one_hot lift_fresh_copy expand_copy permute_copy view_copy nonzero""",
    "creation": """full full_like zeros zeros_like ones ones_like empty empty_like empty_strided arange scalar_tensor
        linspace logspace eye new_zeros new_ones new_full new_empty tril_indices triu_indices empty_permuted""",
    "random": """bernoulli rand randn rand_like randn_like randint randint_like randperm normal native_dropout dropout
        multinomial exponential uniform rrelu_with_noise poisson normal_functional rrelu_with_noise_functional""",
    "reduction": """sum mean prod amax amin argmax argmin any all var std var_mean std_mean norm linalg_vector_norm
        linalg_norm count_nonzero nansum nanmean aminmax trace nll_loss_forward nll_loss2d_forward nll_loss nll_loss_nd
        cross_entropy_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
        binary_cross_entropy_with_logits kl_div hinge_embedding_loss triplet_margin_loss cosine_similarity
        cosine_embedding_loss dist pairwise_distance _cdist_forward cdist""",
    "softmax": "_softmax softmax _log_softmax log_softmax logsumexp _safe_softmax special_logsumexp",
    "norm": """native_layer_norm layer_norm native_group_norm group_norm _native_batch_norm_legit
        _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _batch_norm_with_update
        _batch_norm_with_update_functional _batch_norm_no_update native_batch_norm batch_norm instance_norm rms_norm
        _fused_rms_norm renorm""",
    "scan": "cumsum cumprod cummax cummin _cummax _cummin logcumsumexp",
    "pool": """avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices
        max_pool2d_with_indices max_pool3d_with_indices adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
        fractional_max_pool2d fractional_max_pool3d""",
    "conv": """convolution _convolution convolution_overrideable mkldnn_convolution conv1d conv2d conv3d
        conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc""",
    "matmul": """mm bmm addmm baddbmm addbmm addmv mv dot vdot inner matmul linear einsum _addmm_activation bilinear
        chain_matmul tensordot addr outer ger""",
    "attention": """scaled_dot_product_attention _scaled_dot_product_flash_attention
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math
        _scaled_dot_product_efficient_attention""",
    "recurrent": """lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell mkldnn_rnn_layer""",
    "sort": """sort topk argsort kthvalue median nanmedian mode msort unique _unique2 unique_dim searchsorted bucketize
        bincount histc""",
    "check": "_assert_async _functional_assert_async _assert_scalar sym_constrain_range_for_size sym_size sym_numel",
    "elementwise": """add sub rsub mul div true_divide floor_divide fmod remainder addcmul addcdiv lerp neg abs sign sgn
        signbit reciprocal sqrt rsqrt square pow exp exp2 expm1 log log2 log10 log1p sigmoid log_sigmoid
        log_sigmoid_forward logit tanh sinh cosh asinh acosh atanh sin cos tan asin acos atan atan2 erf erfc erfinv
        lgamma digamma logaddexp logaddexp2 xlogy special_xlog1py softplus mish silu gelu elu selu celu relu relu6
        leaky_relu prelu _prelu_kernel rrelu threshold hardtanh hardsigmoid hardswish hardshrink softshrink glu floor
        ceil round trunc frac maximum minimum fmax fmin clamp clamp_min clamp_max clip where masked_fill eq ne lt le gt
        ge isnan isinf isfinite logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor
        bitwise_not bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ hypot copysign
        nan_to_num softsign tanhshrink heaviside fill upsample_bilinear2d upsample_linear1d upsample_trilinear3d
        upsample_bicubic2d grid_sampler_2d""",
}
_FAMILY: dict[str, Family] = {name: family for family, names in _NAMES.items() for name in names.split()}
_FOLDED_OVERLOADS = frozenset({"default", "dim", "names_dim", "dim_max", "unary_out"})
"""`max.dim` and `max.default` fold; `max.other` compares two tensors."""


def function(op: str) -> str:
    """The operator without namespace and overload: "mul" for "aten.mul.Tensor", "" for what is not ATen."""
    parts = op.split(".")
    return parts[1] if len(parts) >= 2 and parts[0] == "aten" else ""


def family(op: str) -> Family:
    """What kind of work an operator is ("aten.mul.Tensor" -> "elementwise", "kernel:<name>" -> "kernel")."""
    if op.startswith("kernel:"):
        return "kernel"
    name = function(op)
    if name in {"max", "min"}:
        overload = op.rpartition(".")[2]
        return "reduction" if overload in _FOLDED_OVERLOADS else "elementwise"
    return _FAMILY.get(name, "other")
