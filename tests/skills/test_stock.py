"""The bundled stock: every skill of the plan, each as an expert would sign it."""

import re

import pytest

from kernelskill.skills.card import SECTIONS
from kernelskill.skills.library import read_cards
from kernelskill.skills.sources import BUNDLED

STRUCTURAL = {
    "fuse-elementwise", "fuse-reduction", "fuse-row-normalization", "online-softmax", "single-pass-scan",
    "direct-pooling", "simplify-algebra", "remove-dead-code", "channels-last", "library-compile", "cuda-graphs",
    "fuse-siblings", "persistent-recurrence",
}  # fmt: skip
MICRO = {
    "tune-threads", "widen-vectors", "unroll-accumulate", "block-inner", "stream-stores", "split-rows",
    "size-gpu-tile", "choose-gpu-warps", "share-gpu-rows", "cheaper-math", "merge-kernels", "batch-gpu-rows",
    "reduce-unrolling", "cuda-cluster-rows", "pipeline-loads", "raise-occupancy", "loop-fission", "tune-grain",
    "narrow-vectors",
}  # fmt: skip
KNOWLEDGE = {
    "stop-at-floor", "remove-host-sync", "overlap-streams", "persistent-kernel",
    "coalesce-access", "align-vector-access", "tile-shared-memory", "pad-shared-memory",
    "register-tiling", "simplify-index-arithmetic", "shorten-live-ranges", "uniform-control-flow",
    "approximate-transcendentals", "pack-half-math", "tensor-core-matmul", "split-k-matmul", "structured-matmul",
    "fuse-matmul-epilogue", "fused-attention", "implicit-gemm-convolution", "direct-convolution",
    "transposed-convolution-phases", "privatize-atomics", "fuse-convolution-epilogue",
    "restructure-batch-norm", "collapse-linear-fold", "leave-single-pass", "slice-before-computing",
}  # fmt: skip
CARDS = read_cards([BUNDLED])


def test_the_stock_is_complete():
    kinds = {
        kind: {card.id for card in CARDS if card.kind == kind}
        for kind in ("structural", "micro", "knowledge")
    }
    assert kinds == {"structural": STRUCTURAL, "micro": MICRO, "knowledge": KNOWLEDGE}


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_a_card_answers_every_question_with_substance(card):
    for heading in SECTIONS:
        assert len(card.section(heading)) > 80, heading
    assert len(re.findall(r"^\d\. ", card.section("Steps"), re.MULTILINE)) >= 3
    assert len(re.findall(r"^- ", card.section("Check that it was really done"), re.MULTILINE)) >= 2
    assert len(re.findall(r"\d", card.section("Worked example"))) >= 10, "an example has numbers"
    assert len(card.hazards) >= 2
    assert max(map(len, card.body.splitlines())) <= 132


def test_micro_skills_wait_for_a_measured_headroom():
    for card in CARDS:
        assert card.kind == "knowledge" or ("unknown" in card.tiers) == (card.kind == "structural"), card.id
