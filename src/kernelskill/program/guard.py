"""The guard of `forward`: kernels answer only for what they were proven on, the original forward for all else."""

from __future__ import annotations

from collections.abc import Iterator

from kernelskill.program.arguments import attribute, bound_arguments, spelled, tensor_paths
from kernelskill.program.program import Program
from kernelskill.program.reference_text import ReferenceText
from kernelskill.records import Json, Ref, TensorSpec, Workload

IS_LIKE = '''\
def _is_like(tensor, shape, stride, dtype):
    """Whether this is a plain tensor, laid out as those that the kernels were proven on."""
    if type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.is_neg():
        return False
    return tensor.shape == shape and tensor.stride() == stride and tensor.dtype is dtype and tensor.is_cpu
'''
IS_LIKE_ON_GPU = '''\
def _is_like(tensor, shape, stride, dtype):
    """Whether this is a plain tensor, laid out as those that the kernels were proven on, where kernels are launched."""
    if type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.is_neg():
        return False
    here = tensor.is_cuda and tensor.get_device() == torch.cuda.current_device()
    return here and tensor.shape == shape and tensor.stride() == stride and tensor.dtype is dtype
'''
IS_WATCHED = '''\
def _is_watched():
    """Whether a trace or forward-mode autograd looks on: a kernel would leave nothing in either."""
    return torch.jit.is_tracing() or torch.autograd.forward_ad._current_level >= 0
'''
NEED_GRAD = '''\
def _need_grad(*tensors):
    """Whether autograd has to record a call on these."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
'''
CONSTRUCTED = '''
    def __new__(cls, *args, **kwargs):
        """Note whether the constructor's arguments are those that are compiled into the kernels."""
        self = super().__new__(cls)
        self._as_proven = (args, kwargs) == {given}
        return self
'''
MODE_DEPENDENT = ("batch_norm", "dropout", "instance_norm", "rrelu")


def guard(program: Program, workload: Workload, reference: ReferenceText, is_module: bool) -> list[str]:
    """Statements that send everything but proven calls to the original forward."""
    given = bound_arguments(workload, list(reference.parameters))
    checks = ["not _is_watched()"]
    checks += ["self._as_proven"] if is_module and constructed(workload) else []
    checks += [check for name, part in given.items() for check in _checks(part, name, workload)]
    checks += [_equals(name, text) for name, text in reference.defaults.items() if name not in given]
    if is_module and _depends_on_mode(workload):
        checks.append("self.training" if program.graph.training else "not self.training")
    checks += _state_checks(program)
    tensors = [path for name, part in given.items() for _, path in tensor_paths(part, name)]
    listed = ", ".join([*tensors, *(["*self.parameters()"] if is_module and workload.state else [])])
    if listed:
        checks.append(f"not _need_grad({listed})")
    indent = " " * 8
    return [
        f"{indent}proven = (",
        *(f"{indent}    {'and ' if index else ''}{check}" for index, check in enumerate(checks)),
        f"{indent})",
        f"{indent}if not proven:",
        f"{indent}    return self._reference_forward({reference.passed_on})",
    ]


def constructed(workload: Workload) -> str:
    """A constructor that notes whether it got the recorded arguments; "" where there are none, or none to spell."""
    tree = workload.init_args
    if not isinstance(tree, dict) or not next(iter(tree.values()), None):
        return ""
    text = literal(tree)
    if text is None:
        return ""
    given = (
        f"((), {text})"
        if "dict" in tree
        else f"(tuple({text}), {{}})"
        if "list" in tree
        else f"({text}, {{}})"
    )
    return CONSTRUCTED.format(given=given)


def literal(tree: Json) -> str | None:
    """Python text of a tree of plain values; None where it holds anything else."""
    if not isinstance(tree, dict):
        return None
    if set(tree) == {"value"}:
        return repr(tree["value"])
    if set(tree) == {"dict"}:
        parts = {key: literal(item) for key, item in tree["dict"].items()}
        if None in parts.values():
            return None
        return "{" + ", ".join(f"{key!r}: {text}" for key, text in parts.items()) + "}"
    for word, (before, after) in {"list": ("[", "]"), "tuple": ("(", ",)")}.items():
        if set(tree) == {word}:
            items = [literal(item) for item in tree[word]]
            known = [text for text in items if text is not None]
            if len(known) < len(items):
                return None
            return f"{before}{', '.join(known)}{after if known else after[-1]}"
    return None


def _checks(part: Json, path: str, workload: Workload) -> Iterator[str]:
    if "tensor" in part:
        spec: TensorSpec = workload.inputs[part["tensor"]]
        yield f"_is_like({path}, {spelled(spec.shape)}, {spelled(spec.stride)}, torch.{spec.dtype})"
    elif "value" in part:
        yield _equals(path, repr(part["value"]))
    for kind in ("list", "tuple"):
        if kind in part:
            yield f"len({path}) == {len(part[kind])}"
            for index, item in enumerate(part[kind]):
                yield from _checks(item, f"{path}[{index}]", workload)
    for key, item in part.get("dict", {}).items():
        yield from _checks(item, f"{path}[{key!r}]", workload)


def _equals(path: str, text: str) -> str:
    return f"{path} is {text}" if text in {"None", "True", "False"} else f"{path} == {text}"


def _depends_on_mode(workload: Workload) -> bool:
    """Whether the reference computes something else in evaluation mode."""
    graph = workload.graph
    return graph is not None and (
        bool(graph.updates) or any(word in node.op for node in graph.nodes for word in MODE_DEPENDENT)
    )


def _state_checks(program: Program) -> list[str]:
    """Every tensor of the module that kernels read by its address; who replaces one may give it another layout."""
    read = {ref for node in program.graph.nodes if node.op.startswith("kernel:") for ref in node.refs()}
    return [
        f"_is_like({attribute(state.path)}, {spelled(state.spec.shape)}, {spelled(state.spec.stride)}, "
        f"torch.{state.spec.dtype})"
        for state in program.graph.state
        if state.kind != "constant" and Ref(node=state.name) in read
    ]
