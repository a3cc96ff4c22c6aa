"""Start real workers for the tests of this room."""

from kernelskill.evaluation.channel import Slot
from kernelskill.evaluation.process import Limits, Worker

LIMITS = Limits(memory_bytes=6 << 30, cpu_s=60, processes=64, file_bytes=32 << 20, start_s=60)
TIMEOUT_S = 30


def start(sandbox, role="candidate", **changes):
    return Worker(role, sandbox=sandbox, limits=changes.pop("limits", LIMITS), threads=2, **changes)


def load(worker, source, entry="ModelNew", init=None, timeout_s=TIMEOUT_S):
    return worker.call(
        "load_candidate", timeout_s=timeout_s, source=source, entry=entry, init_tree=init, threads=2
    )


def spec(*shape, dtype="float32", stride=None):
    if stride is None:
        stride, step = [], 1
        for size in reversed(shape):
            stride.insert(0, step)
            step *= max(size, 1)
    return {"shape": list(shape), "dtype": dtype, "stride": list(stride)}


class Bound:
    """`count` calls of one float32 vector in, one out."""

    def __init__(self, worker, numel=8, count=3):
        import torch

        self.worker, self.count = worker, count
        self.slots = Slot(4 * numel * count), Slot(4 * numel * count)
        self.inputs, self.outputs = (
            torch.frombuffer(slot.view(), dtype=torch.float32).view(count, numel) for slot in self.slots
        )
        self.inputs.copy_(torch.randn(count, numel))
        self.outputs.fill_(float("nan"))
        source, target = worker.give(self.slots[0], writable=False), worker.give(self.slots[1], writable=True)
        leaf = {"spec": spec(numel), "offset": 0, "step": 4 * numel}
        worker.call(
            "bind",
            timeout_s=TIMEOUT_S,
            inputs=[leaf | {"slot": source}],
            outputs=[leaf | {"slot": target}],
            count=count,
        )

    def run(self, command="run", order=None, timeout_s=TIMEOUT_S):
        return self.worker.call(command, timeout_s=timeout_s, order=order or list(range(self.count)))
