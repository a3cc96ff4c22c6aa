"""What is to be made faster.

Nested inputs and outputs are written as a tree of JSON:
`{"tensor": k}` the k-th tensor leaf, `{"value": v}` a Python number, string, bool or None,
`{"list": [...]}`, `{"tuple": [...]}`, `{"dict": {...}}`, `{"object": "Name", "fields": {...}}`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from kernelskill.records.base import Json, Record
from kernelskill.records.graph import Graph
from kernelskill.records.tensors import TensorSpec


class Precision(StrEnum):
    """What accuracy the answer owes: `match` = as accurate as eager as the task runs it."""

    MATCH = "match"
    FP32 = "fp32"
    TF32 = "tf32"
    REDUCED = "reduced"


class InputLaw(Record):
    """The law that fresh values of one tensor are drawn from, fitted to an example of it."""

    kind: Literal["normal", "uniform", "integer", "boolean", "constant", "fixed"]
    """`boolean` is also a float tensor of two values, `low` and `high`; `fixed` keeps the example itself."""
    spec: TensorSpec
    low: float = 0.0
    """Smallest value (uniform, integer)."""
    high: float = 1.0
    """Largest value (uniform), one past the largest (integer)."""
    mean: float = 0.0
    std: float = 1.0
    rate: float = 0.5
    """Share of True (boolean)."""


class Reference(Record):
    """How a worker builds the reference. Only a worker ever runs any of it."""

    loader: Literal["source", "import", "pickle"]
    """`source`: execute `source`; `import`: import `module`; `pickle`: load `path` (cloudpickle)."""
    kind: Literal["module", "function"]
    """Whether `entry` is an nn.Module class (or object, for pickle) or a plain function."""
    entry: str = ""
    """Name of the class or function in the module; empty for pickle."""
    source: str = ""
    module: str = ""
    path: str = ""
    search_path: tuple[str, ...] = ()
    """Folders put in front of sys.path while loading (for neighbours that the file imports)."""
    init_entry: str = ""
    """Name of the function giving constructor arguments (KernelBench: `get_init_inputs`)."""
    init_expression: str = ""
    """Or a Python expression giving them, evaluated in the worker with the module's names."""
    inputs_entry: str = ""
    """Name of the function giving inputs (KernelBench: `get_inputs`)."""
    inputs_expression: str = ""
    """Or a Python expression giving them (list of arguments, or dict of keyword arguments)."""
    laws: tuple[InputLaw, ...] = ()
    """Or fitted laws, one per tensor leaf of `inputs_tree`."""
    inputs_tree: Json = None
    """With `laws`: nesting of the arguments, `{"list": [...]}` or `{"dict": {...}}`."""


Weights = Literal["live", "frozen"]
"""live: parameters may change between calls, as eager takes it; frozen: they are set before the first call and stay."""


class Task(Record):
    """A reference to beat."""

    name: str
    """Short, readable, at most 60 characters."""
    hash: str
    """sha256 over everything that defines the task (source, entry, inputs, precision)."""
    reference: Reference
    origin: str
    """Where the user pointed: path or dotted name, as given."""
    precision: Precision = Precision.MATCH
    weights: Weights = "live"

    @property
    def id(self) -> str:
        """Name plus eight digits of the hash; safe as a file name."""
        return f"{self.name}-{self.hash[:8]}"


class StateSpec(Record):
    """One parameter or buffer of the reference."""

    path: str
    """Qualified name ("encoder.norm1.weight")."""
    spec: TensorSpec
    kind: Literal["parameter", "buffer"]
    persistent: bool = True
    """False for a buffer outside the state dict."""
    tied_to: str = ""
    """Path of the first name of the same tensor (tied weights)."""


class Finding(Record):
    """One thing that the audit noticed."""

    code: str
    """Short stable word: stochastic, constant-output, input-independent, mutates-inputs, overhead-bound,
    non-finite, empty-output, too-big, ..."""
    message: str
    fatal: bool
    """True if no speedup may be credited (the task can prove nothing)."""


class Workload(Record):
    """What the reference worker learnt by running the reference once: the judge fixes all shapes by it."""

    inputs: tuple[TensorSpec, ...]
    inputs_tree: Json
    outputs: tuple[TensorSpec, ...]
    outputs_tree: Json
    state: tuple[StateSpec, ...]
    updated_state: tuple[str, ...] = ()
    """Buffers that forward rewrites; they are compared like outputs."""
    init_args: Json = None
    """Constructor arguments as a tree (tensors are not allowed there), for the writer."""
    eager_ms: float
    """One warm call of the reference, milliseconds, in the worker (orientation only)."""
    findings: tuple[Finding, ...] = ()
    graph: Graph | None = None
    """None if capture failed; `capture_error` says why."""
    capture_error: str = ""
    class_source: str = ""
    """Text of the module that defines the entry, where the worker could find it (the writer copies __init__)."""
