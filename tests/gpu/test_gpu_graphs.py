"""Calls replayed as CUDA graphs give what the module gives, and leave behind what it leaves behind."""

import copy
import time

import clustered
import graphed_models as models
import pytest
import torch

from kernelskill.program import write
from kernelskill.program.triton.printer import TRITON

pytestmark = pytest.mark.gpu


@pytest.fixture
def pair(tmp_path):
    def build(source):
        names = models.loaded(source, tmp_path)
        torch.manual_seed(1)
        plain = names["Model"]().cuda()
        graphed = names["ModelNew"]().cuda()
        graphed.load_state_dict(plain.state_dict())
        return plain, graphed

    return build


def captures(model):
    return model.__dict__["_replay"]._captures


def same(found, due):
    torch.testing.assert_close(found, due, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_running_statistics_are_those_of_as_many_plain_calls(pair):
    plain, graphed = pair(models.NORMALISED)
    for _ in range(5):
        x = torch.randn(4, 3, 9, 9, device="cuda")
        same(graphed(x), plain(x))
    assert len(captures(graphed)) == 1
    for (name, due), (_, found) in zip(plain.named_buffers(), graphed.named_buffers(), strict=True):
        torch.testing.assert_close(found, due, rtol=1e-5, atol=1e-6, msg=name)
    assert graphed.layers[1].num_batches_tracked.item() == 5


@torch.no_grad()
def test_results_are_fresh_and_follow_inputs_changed_in_place(pair):
    plain, graphed = pair(models.NORMALISED)
    x = torch.randn(4, 3, 9, 9, device="cuda")
    graphed(x), plain(x)
    first, due = graphed(x), plain(x)
    x.mul_(3)
    second = graphed(x)
    assert first.data_ptr() != second.data_ptr()
    same(first, due)
    same(second, plain(x))


@torch.no_grad()
def test_weights_changed_in_place_replaced_or_moved_are_followed(pair):
    plain, graphed = pair(models.NORMALISED)
    x = torch.randn(4, 3, 9, 9, device="cuda")

    def both(change):
        for model in (plain, graphed):
            change(model)
        for _ in range(3):
            same(graphed(x), plain(x))

    both(lambda model: None)
    both(lambda model: model.layers[0].weight.mul_(2))
    given = torch.randn(8, 3, 3, 3, device="cuda")
    both(lambda model: setattr(model.layers[0], "weight", torch.nn.Parameter(given.clone())))
    both(lambda model: setattr(model.layers[3].weight, "data", torch.ones(4, 8, 1, 1, device="cuda")))
    both(lambda model: model.layers.__setitem__(2, torch.nn.Tanh()))
    both(lambda model: model.layers[1].eval())
    both(lambda model: setattr(model.layers[4], "running_mean", torch.ones(4, device="cuda")))
    assert len(captures(graphed)) == 1


@torch.no_grad()
def test_each_mode_shape_and_layout_has_a_graph_of_its_own(pair):
    plain, graphed = pair(models.NORMALISED)
    x = torch.randn(4, 3, 9, 9, device="cuda")
    for given in (x, x[:2], x.transpose(2, 3), x.to(memory_format=torch.channels_last), x[:2]):
        for _ in range(2):
            same(graphed(given), plain(given))
    assert len(captures(graphed)) == 4
    for _ in range(3):
        same(graphed.eval()(x), plain.eval()(x))


@torch.no_grad()
def test_nested_results_and_arguments(pair):
    plain, graphed = pair(models.RECURRENT)
    x = torch.randn(4, 6, 8, device="cuda")
    start = tuple(torch.randn(2, 4, 16, device="cuda") for _ in range(2))
    for _ in range(3):
        for given in ({}, {"start": start}, {"scale": 2.0}, {"start": start, "scale": 3.0}):
            found, due = graphed(x, **given), plain(x, **given)
            assert found["steps"] == due["steps"]
            for part, other in zip((found["out"], *found["state"]), (due["out"], *due["state"]), strict=True):
                torch.testing.assert_close(part, other, rtol=1e-3, atol=1e-4)  # cuDNN's own TF32
    assert len(captures(graphed)) == 4


@pytest.mark.parametrize("name", ["REBINDING", "COUNTING"])
@torch.no_grad()
def test_state_kept_in_python_goes_on_as_it_is(pair, name):
    plain, graphed = pair(getattr(models, name))
    for _ in range(5):
        x = torch.randn(4, 8, device="cuda")
        same(graphed(x), plain(x))
    assert not captures(graphed)


@torch.no_grad()
def test_buffers_that_carry_over_are_right_from_the_first_call(pair):
    plain, graphed = pair(models.CARRYING)
    for _ in range(5):
        x = torch.randn(4, 8, device="cuda")
        same(graphed(x), plain(x))
    same(graphed.total, plain.total)
    assert len(captures(graphed)) == 1


@torch.no_grad()
def test_random_numbers_are_drawn_anew_and_as_eager_draws_them(pair):
    plain, graphed = pair(models.RANDOM)
    x = torch.ones(4, 8, device="cuda")
    torch.manual_seed(5)
    due = [plain(x) for _ in range(4)]
    torch.manual_seed(5)
    found = [graphed(x) for _ in range(4)]
    assert all(map(torch.equal, found, due))
    assert not captures(graphed)
    same(graphed.eval()(x), x)


@torch.no_grad()
def test_a_call_that_waits_for_the_device_goes_on_as_it_is(pair):
    plain, graphed = pair(models.WAITING)
    for sign in (1, -1, 1, -1):
        x = sign * torch.rand(4, 8, device="cuda")
        same(graphed(x), plain(x))
    assert not captures(graphed)
    same(torch.ones(3, device="cuda") + 1, torch.full((3,), 2.0, device="cuda"))


@torch.no_grad()
def test_a_capture_that_fails_leaves_nothing_behind(pair, monkeypatch):
    plain, graphed = pair(models.WAITING)
    names = type(graphed).forward.__globals__
    monkeypatch.setitem(names, "_without_waiting", lambda call, args, kwargs: None)
    for _ in range(3):
        x = torch.rand(4, 8, device="cuda")
        same(graphed(x), plain(x))
    assert not captures(graphed)
    torch.manual_seed(3)
    first = torch.rand(5, device="cuda")
    torch.manual_seed(3)
    same(torch.rand(5, device="cuda"), first)


def test_gradients_flow_through_the_plain_forward(pair):
    plain, graphed = pair(models.NORMALISED)
    x = torch.randn(4, 3, 9, 9, device="cuda")
    with torch.no_grad():
        graphed(x), plain(x), graphed(x), plain(x)
    for model in (plain, graphed):
        model(x).square().sum().backward()
    same(graphed.layers[0].weight.grad, plain.layers[0].weight.grad)


def test_inference_mode_autocast_and_other_inputs(pair):
    plain, graphed = pair(models.NORMALISED)
    x = torch.randn(4, 3, 9, 9, device="cuda")
    for _ in range(3):
        with torch.inference_mode():
            same(graphed(x), plain(x))
        with torch.no_grad():
            same(graphed(x), plain(x))
            wide = x[:1].expand(4, 3, 9, 9)
            same(graphed(wide), plain(wide))
            with torch.autocast("cuda"):
                assert graphed(x).dtype == plain(x).dtype
    graphed.cpu(), plain.cpu()
    with torch.no_grad():
        same(graphed(x.cpu()), plain(x.cpu()))


@torch.no_grad()
def test_streams_and_outer_captures(pair):
    plain, graphed = pair(models.NORMALISED)
    plain.eval(), graphed.eval()
    x = torch.randn(4, 3, 9, 9, device="cuda")
    due = plain(x)
    for _ in range(2):
        graphed(x)
    streams = [torch.cuda.Stream() for _ in range(4)]
    found = []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            found.append(graphed(x))
    torch.cuda.synchronize()
    for one in found:
        same(one, due)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inner = graphed(x)
    graph.replay()
    same(inner, due)


@torch.no_grad()
def test_copies_of_a_module_capture_their_own_calls(pair):
    plain, graphed = pair(models.NORMALISED)
    x = torch.randn(4, 3, 9, 9, device="cuda")
    graphed(x), graphed(x), plain(x), plain(x)
    twin = copy.deepcopy(graphed)
    twin.layers[0].weight.mul_(2)
    plain.layers[0].weight.mul_(2)
    for _ in range(3):
        same(twin(x), plain(x))
    assert captures(twin).keys() == captures(graphed).keys()
    assert captures(twin) is not captures(graphed)


@pytest.mark.parametrize("in_clusters", [False, True])
@torch.no_grad()
def test_kernels_of_our_own_inside_a_graph(in_clusters, tmp_path):
    if in_clusters and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("clusters need compute capability 9.0")
    x = torch.randn(6, 40000, device="cuda")
    program, task, workload = clustered.traced(clustered.LOG_SOFTMAX, [x])
    program = clustered.in_clusters(program) if in_clusters else program
    program = program.model_copy(update={"wrapper": "graph"})
    model = clustered.imported(write(program, task, workload, TRITON), tmp_path)["ModelNew"]()
    for _ in range(4):
        x = torch.randn(6, 40000, device="cuda")
        same(model(x), torch.log_softmax(x * 0.5 + 1, -1))
    assert len(captures(model)) == 1
    shorter = torch.randn(3, 40000, device="cuda")
    same(model(shorter), torch.log_softmax(shorter * 0.5 + 1, -1))
    assert len(captures(model)) == 1, "the reference answers for it, outside of the graph"


@torch.no_grad()
def test_a_deep_network_of_small_kernels_is_no_longer_bound_by_launching(pair):
    plain, graphed = pair(models.DEEP)
    x = torch.randn(8, 16, 14, 14, device="cuda")
    for _ in range(3):
        plain(x), graphed(x)
    (capture,) = captures(graphed).values()

    def best_ms(call):
        times = []
        for _ in range(20):
            torch.cuda.synchronize()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        return sorted(times)[len(times) // 2]

    eager, ours, bare = best_ms(lambda: plain(x)), best_ms(lambda: graphed(x)), best_ms(capture._graph.replay)
    began = time.perf_counter()
    for _ in range(100):
        capture.holds()
    check_us = 1e4 * (time.perf_counter() - began)
    print(
        f"60 x conv + norm: eager {eager:.3f} ms, ours {ours:.3f} ms, graph alone {bare:.3f} ms; check {check_us:.0f} us"
    )
    assert ours < eager
