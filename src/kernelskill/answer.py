"""The text of a run's answer: the winner's source, or the reference under its best stock recipe."""

from __future__ import annotations

from kernelskill.errors import RunError
from kernelskill.records import Run

COMPILED = {"compile": "self.compile()", "compile+graph": 'self.compile(mode="reduce-overhead")'}
"""Arm -> statement that ends the constructor."""
RECIPES = {
    "compile": "under torch.compile",
    "graph": "under a CUDA graph",
    "compile+graph": "under torch.compile with CUDA graphs",
}
GRAPHED = '''
    def forward(self, *args):
        """Replay one captured call on inputs copied in; other inputs, and autograd, get the plain forward."""
        like = [(arg.shape, arg.dtype, arg.device) if isinstance(arg, torch.Tensor) else arg for arg in args]
        if torch.is_grad_enabled() or like != self.__dict__.setdefault("_like", like):
            return super().forward(*args)
        if not hasattr(self, "_replay"):
            self._own = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside), torch.no_grad():
                for _ in range(3):
                    super().forward(*self._own)
            torch.cuda.current_stream().wait_stream(aside)
            self._replay = torch.cuda.CUDAGraph()
            with torch.no_grad(), torch.cuda.graph(self._replay):
                self._result = super().forward(*self._own)
        for own, arg in zip(self._own, args):
            if isinstance(own, torch.Tensor):
                own.copy_(arg)
        self._replay.replay()
        return torch.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, self._result)
'''


def best_source(run: Run) -> str:
    """Source text of the answer.

    Raises:
        RunError: the run has not ended.
    """
    if run.result is None:
        raise RunError(f"run {run.id} has not ended; resume it with: kernelskill resume {run.id}")
    for attempt in run.attempts:
        if attempt.candidate.id == run.result.winner_id:
            return attempt.candidate.source
    reference, arm = run.task.reference, run.result.winner_arm
    source = reference.source or (run.workload.class_source if run.workload else "")
    entry = reference.entry or "Model"
    if not source:
        return f"# Best stock is the answer: {run.task.origin} {RECIPES.get(arm, 'as it is')}.\n"
    if arm not in RECIPES:
        ending = f"# Nothing beat the reference as it is.\nModelNew = {entry}\n"
    elif reference.kind == "module":
        ending = _wrapped(entry, arm)
    else:
        options = ', mode="reduce-overhead"' if arm == "compile+graph" else ""
        called = entry if arm == "graph" else f"torch.compile({entry}{options})"
        ending = f"# Best stock is the answer: {entry} {RECIPES[arm]}.\nModelNew = {called}\n"
    return f"{source.rstrip()}\n\n\n{ending}"


def _wrapped(entry: str, arm: str) -> str:
    head = f'class ModelNew({entry}):\n    """Best stock is the answer: {entry} {RECIPES[arm]}."""\n'
    if arm == "graph":
        return head + GRAPHED
    return (
        f"{head}\n    def __init__(self, *args, **kwargs):\n"
        f"        super().__init__(*args, **kwargs)\n        {COMPILED[arm]}\n"
    )
