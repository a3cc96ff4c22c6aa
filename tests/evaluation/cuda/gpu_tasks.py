"""A task and candidates for it, by their bodies."""

from kernelskill.records import Candidate, Reference, Task

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x)) * 1.5
def get_init_inputs():
    return [512]
def get_inputs():
    return [torch.randn(2048, 512)]
"""


def task_of(source=REFERENCE, name="gelu-linear"):
    reference = Reference(
        loader="source",
        kind="module",
        entry="Model",
        source=source,
        init_entry="get_init_inputs",
        inputs_entry="get_inputs",
    )
    return Task(name=name, hash=name, reference=reference, origin=f"{name}.py")


def candidate_of(source, name="candidate"):
    return Candidate(id=name, source=source)
