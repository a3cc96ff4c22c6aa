"""How many bytes of tensors are alive at a time, operator by operator; what an operator needs inside is not seen."""

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Meter(TorchDispatchMode):
    """Within it, `alive()` counts the tensors that were touched and live; `peak` is the most after any operator."""

    def __init__(self):
        super().__init__()
        self.peak, self.step = 0, ""
        self._seen = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor) and not isinstance(leaf, FakeTensor) and leaf.is_cpu:
                storage = leaf.untyped_storage()
                if storage._cdata not in self._seen or self._seen[storage._cdata][0].expired():
                    self._seen[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        if self.alive() > self.peak:
            self.peak, self.step = self.alive(), str(func)
        return result

    def alive(self):
        """Bytes now."""
        self._seen = {key: item for key, item in self._seen.items() if not item[0].expired()}
        return sum(nbytes for _, nbytes in self._seen.values())
