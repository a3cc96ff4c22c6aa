"""Rows held by clusters of blocks, against float64 on the same GPU."""

import clustered
import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

LIMITS = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
"""Largest root mean square error, relative to that of the result."""


@pytest.fixture(autouse=True)
def needs_clusters():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("clusters need compute capability 9.0")


def on_gpu(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def never(*args):
    raise AssertionError("the reference was called for what the kernel was proven on")


def run(source, inputs, folder, parts=None):
    names = clustered.candidate(source, inputs, folder, parts)
    model = names["ModelNew"]().cuda()
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    names["ModelNew"]._reference_forward, kept = never, names["ModelNew"]._reference_forward
    torch.full_like(inputs[0], 77)  # the allocator hands this memory out again: what is not written shows
    with torch.no_grad():
        found = model(*inputs)
        names["ModelNew"]._reference_forward = kept
        due = model.double()._reference_forward(*(x.double() if x.is_floating_point() else x for x in inputs))
    return found, due


def check(found, due, dtype):
    assert found.dtype == dtype
    assert torch.equal(found.isnan(), due.isnan())
    found, due = found.double().nan_to_num(), due.nan_to_num()
    error = (found - due).square().mean().sqrt() / due.square().mean().sqrt()
    assert error <= LIMITS[dtype], error.item()


@pytest.mark.parametrize("parts", [2, 4, 8, 16])
@pytest.mark.parametrize("length", [20000, 20001, 49152, 100000])
def test_every_size_of_cluster(parts, length, tmp_path):
    x = on_gpu(7, length)
    check(*run(clustered.SOFTMAX, [x], tmp_path, parts), torch.float32)


@pytest.mark.parametrize("length", [16385, 65536, 65542, 131071, 393216, 800000])
@pytest.mark.parametrize("source", ["SOFTMAX", "LOG_SOFTMAX", "RMS", "SCALED"])
def test_long_rows(length, source, tmp_path):
    x = on_gpu(5, length)
    check(*run(getattr(clustered, source), [x], tmp_path), torch.float32)


@pytest.mark.parametrize(
    "result",
    [
        "torch.softmax(torch.tanh(x), -1)",
        "x.exp() / x.exp().sum(-1, keepdim=True)",
        "torch.softmax(x, -1) * x.mean(-1, keepdim=True)",
    ],
)
@pytest.mark.parametrize("length", [65536, 70001])
def test_what_stays_on_chip_or_is_folded_beside_a_softmax(length, result, tmp_path):
    check(*run(clustered.forward("x", result), [on_gpu(5, length)], tmp_path), torch.float32)


def test_a_maximum_that_comes_last_and_one_that_comes_first(tmp_path):
    up = torch.linspace(-90, 90, 100000, device="cuda").repeat(2, 1)
    up[1] = up[1].flip(0)
    check(*run(clustered.SOFTMAX, [up], tmp_path), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [32768, 50001, 262144])
def test_half_precision_storage(dtype, length, tmp_path):
    check(*run(clustered.RMS, [on_gpu(6, length, dtype=dtype)], tmp_path), dtype)


def test_a_mask_beside_the_row(tmp_path):
    x = on_gpu(4, 70000)
    check(*run(clustered.MASKED, [x, torch.rand(4, 70000, device="cuda") > 0.5], tmp_path), torch.float32)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("nn.LayerNorm(65536)", (5, 65536)),
        ("nn.LayerNorm((16, 64, 65))", (3, 16, 64, 65)),
        ("nn.GroupNorm(2, 16)", (3, 16, 64, 65)),
        ("nn.InstanceNorm2d(3)", (2, 3, 255, 257)),
    ],
)
def test_norms(text, shape, tmp_path):
    x = on_gpu(*shape) + 100.0
    found, due = run(clustered.layer(text), [x], tmp_path)
    error = (found.double() - due).square().mean().sqrt() / due.square().mean().sqrt()
    assert error < 2e-5, "float32 inputs around 100 leave so much"


def test_layouts_and_addresses(tmp_path):
    odd = on_gpu(4 * 40000 + 1)[1:].view(4, 40000)
    between = on_gpu(4, 3, 40000)[:, 1]
    wide = on_gpu(4, 40003)[:, :40000]
    spread = on_gpu(1, 40000).expand(4, 40000)
    for x in (odd, between, wide, spread):
        check(*run(clustered.SOFTMAX, [x], tmp_path), torch.float32)
    assert odd.data_ptr() % 16, "so that the element-wise form runs"


def test_rows_that_are_not_finite(tmp_path):
    x = on_gpu(9, 30000)
    x[0], x[1, 77], x[2, 5], x[3, 9], x[4] = -torch.inf, torch.inf, torch.nan, -torch.inf, 3e38
    x[5, :20000], x[6, 8], x[6, 30], x[7, 0], x[8] = -torch.inf, torch.nan, torch.inf, -3e38, torch.nan
    check(*run(clustered.SOFTMAX, [x], tmp_path), torch.float32)


def test_ten_runs_agree_bit_for_bit_and_follow_the_stream(tmp_path):
    x = on_gpu(64, 60000)
    model = clustered.candidate(clustered.SOFTMAX, [x], tmp_path)["ModelNew"]().cuda()
    with torch.no_grad():
        first = model(x)
        assert all(torch.equal(first, model(x)) for _ in range(10))
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            beside = model(x)
        torch.cuda.synchronize()
        assert torch.equal(first, beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            inner = model(x)
        x.mul_(2)
        graph.replay()
        assert torch.equal(inner, model(x))


def test_no_rows_run_the_reference(tmp_path):
    model = clustered.candidate(clustered.SOFTMAX, [on_gpu(4, 30000)], tmp_path)["ModelNew"]().cuda()
    with torch.no_grad():
        assert model(on_gpu(0, 30000)).shape == (0, 30000)


def test_more_than_two_to_the_31_elements(tmp_path):
    rows, length = 4800, 450000
    if torch.cuda.mem_get_info()[0] < 4 * rows * length * 2 * 2:
        pytest.skip("needs 17 GB of GPU memory")
    x = torch.empty(rows, length, device="cuda", dtype=torch.bfloat16).normal_()
    model = clustered.candidate(clustered.SOFTMAX, [x], tmp_path)["ModelNew"]().cuda()
    with torch.no_grad():
        found = model(x)
        for row in (0, 1, 2400, 4771, 4772, 4773, rows - 1):
            check(found[row], torch.softmax(x[row].double(), -1), torch.bfloat16)


def test_one_read_and_one_write_of_memory(tmp_path):
    """Not a race against a clock: the same bytes moved twice take longer than once, whatever the machine."""
    x = on_gpu(1024, 393216)
    model = clustered.candidate(clustered.SOFTMAX, [x], tmp_path)["ModelNew"]().cuda()

    def best_ms(call):
        times = []
        for _ in range(5):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        return min(times)

    with torch.no_grad():
        model(x)
        ours, copy, eager = (
            best_ms(lambda: model(x)),
            best_ms(lambda: x * 2),
            best_ms(lambda: torch.softmax(x, -1)),
        )
    moved = 2 * x.nbytes / 1e6
    print(
        f"softmax 1024 x 393216: ours {ours:.3f} ms = {moved / ours:.0f} GB/s, x * 2 {copy:.3f} ms, eager {eager:.3f} ms"
    )
    assert ours < eager
