"""Frozen nouns of the field. No room's records import another room; none needs torch."""

from kernelskill.records.base import Json, Record, Scalar
from kernelskill.records.candidate import Candidate, Edit, Plan
from kernelskill.records.evaluation import (
    Baselines,
    Comparison,
    Evaluation,
    FamilyError,
    Interval,
    Labels,
    Status,
    Timing,
)
from kernelskill.records.facts import Ceilings, Fact, Facts, Floor, Profile, StepProfile
from kernelskill.records.graph import Arg, Graph, GraphInput, GraphState, Node, NonFinite, Ref
from kernelskill.records.run import (
    Attempt,
    Budget,
    Declined,
    Diagnosis,
    GateDecision,
    Outcome,
    Result,
    Retrieval,
    Round,
    Run,
    Seeds,
    StopReason,
)
from kernelskill.records.suite import (
    Answer,
    Foreign,
    GroupScore,
    SecondVerdict,
    Spread,
    StockTime,
    StockTimes,
    Suite,
    SuiteComparison,
    SuiteKind,
    SuiteManifest,
    SuiteScore,
    SuiteSession,
    SuiteTask,
    TaskChange,
    TaskOutcome,
    TaskResult,
)
from kernelskill.records.task import (
    Finding,
    InputLaw,
    Precision,
    Reference,
    StateSpec,
    Task,
    Weights,
    Workload,
)
from kernelskill.records.tensors import (
    DTYPE_BYTES,
    FLOATING,
    TensorSpec,
    contiguous_stride,
)

__all__ = [
    "DTYPE_BYTES", "FLOATING", "Answer", "Arg", "Attempt", "Baselines", "Budget", "Candidate", "Ceilings",
    "Comparison", "Declined", "Diagnosis", "Edit", "Evaluation", "Fact", "Facts", "FamilyError", "Finding", "Floor",
    "Foreign", "GateDecision", "Graph", "GraphInput", "GraphState", "GroupScore", "InputLaw", "Interval",
    "Json", "Labels", "Node", "NonFinite", "Outcome", "Plan", "Precision", "Profile", "Record", "Ref",
    "Reference", "Result", "Retrieval", "Round", "Run", "Scalar", "SecondVerdict", "Seeds", "Spread",
    "StateSpec", "Status", "StepProfile", "StockTime", "StockTimes", "StopReason", "Suite", "SuiteComparison",
    "SuiteKind", "SuiteManifest", "SuiteScore", "SuiteSession", "SuiteTask", "Task", "TaskChange", "TaskOutcome",
    "TaskResult", "TensorSpec", "Timing", "Weights", "Workload", "contiguous_stride",
]  # fmt: skip
