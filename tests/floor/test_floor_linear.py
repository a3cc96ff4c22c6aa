"""What linearity saves is not counted, and what it cannot save is."""

import pytest
import torch
from hand_graphs import captured, workload
from test_floor_bounds import MACHINE
from torch import nn

from kernelskill.floor import floor_of
from kernelskill.floor.model import minimal, node_works
from kernelskill.floor.traffic import layouts


class Apply(nn.Module):
    """A function of modules and inputs."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *args):
        return self.function(*self.parts, *args)


def least(model, *shapes):
    return floor_of(workload(captured(model, *map(torch.randn, shapes))), MACHINE).flops


def written(model, *shapes):
    graph = minimal(captured(model, *map(torch.randn, shapes)))
    return sum(work.flops for work in node_works(graph, layouts(graph)).values())


M, K, N = 32, 64, 128


@pytest.mark.parametrize(
    ("fold", "products"),
    [
        (lambda linear, x: linear(x).sum(1), M),
        (lambda linear, x: linear(x).sum(0), N),
        (lambda linear, x: (linear(x) * 0.5 + 1).mean(), 1),
        (lambda linear, x: linear(x).view(M, N // 4, 4).sum(2), M * N // 4),
        (lambda linear, x: nn.functional.avg_pool1d(linear(x)[None], 8), M * N // 8),
    ],
    ids=["columns", "rows", "scaled, all", "parts of rows", "pooled"],
)
def test_a_sum_goes_through_the_product_before_it(fold, products):
    model = Apply(fold, nn.Linear(K, N))
    assert least(model, (M, K)) == 2 * K * products


def test_a_mean_goes_through_a_convolution():
    model = Apply(lambda conv, x: conv(x).mean((2, 3)), nn.Conv2d(3, 8, 3))
    assert least(model, (2, 3, 18, 18)) == 2 * 16 * 3 * 9
    pooled = Apply(lambda conv, x: nn.functional.avg_pool2d(conv(x), 4), nn.Conv2d(3, 8, 3))
    assert least(pooled, (2, 3, 18, 18)) == 2 * 2 * 8 * 16 * 3 * 9


def test_stored_statistics_are_linear_and_those_of_the_batch_are_not():
    model = Apply(lambda linear, norm, x: norm(linear(x)).mean(1), nn.Linear(K, N), nn.BatchNorm1d(N))
    assert least(model.eval(), (M, K)) == 2 * K * M
    assert least(model.train(), (M, K)) >= 2 * K * M * N


@pytest.mark.parametrize(
    "fold",
    [
        lambda linear, x: linear(x).relu().sum(1),
        lambda linear, x: linear(x).amax(1),
        lambda linear, x: linear(x).softmax(1).sum(0),
        lambda linear, x: (linear(x) * torch.sin(linear(x))).sum(1),
        lambda linear, x: (linear(x), linear(x).sum(1)),
    ],
    ids=["activation", "maximum", "softmax", "product of both", "another use"],
)
def test_what_is_not_linear_keeps_its_product(fold):
    assert least(Apply(fold, nn.Linear(K, N)), (M, K)) >= 2 * M * K * N


def test_a_chain_is_grouped_the_cheapest_way():
    rows = 1000
    narrow = Apply(lambda a, b, x: b(a(x)), nn.Linear(K, N), nn.Linear(N, 8))
    assert least(narrow, (rows, K)) == 2 * rows * K * 8
    low_rank = Apply(lambda a, b, x: b(a(x)), nn.Linear(K, 8), nn.Linear(8, N))
    assert least(low_rank, (rows, K)) == 2 * rows * 8 * (K + N), "as written is the cheapest here"
    bent = Apply(lambda a, b, x: b(a(x).relu()), nn.Linear(K, N), nn.Linear(N, 8))
    assert least(bent, (rows, K)) >= 2 * rows * (K * N + N * 8)


def test_a_shared_projection_may_sink_into_all_that_use_it():
    parts = [nn.Linear(16, 512, bias=False), nn.Linear(512, 512, bias=False), nn.Linear(512, 512, bias=False)]
    model = Apply(lambda a, b, c, x: b(a(x)).relu() * c(a(x)).tanh(), *parts)
    assert least(model, (1000, 16)) == pytest.approx(2 * 2 * 1000 * 512 * 16, rel=0.1)


def test_scores_of_one_projection_need_both_of_its_sides():
    """Queries and keys may be regrouped as x M x', which pays for thin inputs only."""

    def scores(linear, x):
        query, key = linear(x).chunk(2, 1)
        return (query @ key.T).softmax(1)

    wide, thin = Apply(scores, nn.Linear(256, 128)), Apply(scores, nn.Linear(4, 128))
    assert least(wide, (64, 256)) >= 2 * (64 * 256 * 128 + 64 * 64 * 64)
    assert least(thin, (64, 4)) < 2 * 64 * 64 * 64 < written(thin, (64, 4))


def test_a_separable_convolution_is_cheaper_apart():
    model = nn.Sequential(nn.Conv2d(16, 16, 3, groups=16, bias=False), nn.Conv2d(16, 32, 1, bias=False))
    assert least(model, (2, 16, 16, 16)) == written(model, (2, 16, 16, 16))


def test_added_products_that_share_a_factor_count_once():
    model = Apply(lambda a, b, x: a(x) + 2 * b(x), nn.Linear(K, N), nn.Linear(K, N))
    assert least(model, (M, K)) == 2 * M * K * N
    apart = Apply(lambda a, b, x, y: a(x) + b(y), nn.Linear(K, N), nn.Linear(K, N))
    assert least(apart, (M, K), (M, K)) == 2 * 2 * M * K * N


def test_copies_of_a_row_are_computed_once_and_copies_of_a_matrix_are_not():
    model = Apply(lambda linear, x: linear(x.expand(100, K)).relu(), nn.Linear(K, N))
    assert least(model, (1, K)) == pytest.approx(2 * K * N + 100 * N)
    batched = Apply(lambda x, w: (x @ w).relu())
    assert least(batched, (8, M, K), (K, N)) >= 2 * 8 * M * K * N


def test_known_zeros_are_neither_multiplied_nor_read():
    size = 64
    pairs = size * (size + 1) // 2
    upper = Apply(lambda a, b: torch.triu(a) @ b)
    assert least(upper, (size, size), (size, N)) == 2 * pairs * N
    diagonal = Apply(lambda a, b: torch.diag(a) @ b)
    assert least(diagonal, (size,), (size, N)) == 2 * size * N
    found = floor_of(workload(captured(upper, torch.randn(size, size), torch.randn(size, N))), MACHINE)
    assert found.bytes_min == 4 * (pairs + 2 * size * N)
    shifted = Apply(lambda a, b: torch.tril(a, -2) @ b)
    assert least(shifted, (size, size), (size, N)) == 2 * N * (size - 2) * (size - 1) / 2


def test_a_mask_from_data_keeps_everything():
    model = Apply(lambda a, b, mask: torch.where(mask > 0, a, 0.0) @ b)
    assert least(model, (M, K), (K, N), (M, K)) >= 2 * M * K * N


def test_a_long_chain_of_products_is_no_problem():
    deep = nn.Sequential(*[nn.Linear(K, K) for _ in range(40)])
    assert least(deep, (M, K)) <= 2 * M * K * K
