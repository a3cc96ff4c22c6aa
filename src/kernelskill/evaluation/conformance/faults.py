"""Candidates that do not cheat but break: each ends its worker or wastes a resource; the judge must outlive all."""

from __future__ import annotations

from dataclasses import dataclass

from kernelskill.evaluation.conformance.case import BUILD, HEAD, Target
from kernelskill.records import Candidate, Status

TASK = "small"
"""Reference that they are offered for; it runs on every device."""
_BOTH: tuple[Target, ...] = ("cpu", "cuda")
_ENDED = frozenset({Status.BUILD_ERROR, Status.CRASHED, Status.TIMEOUT, Status.OUT_OF_MEMORY})
"""What may be said of a file that uses something up while it is imported: which limit is met first is chance."""


@dataclass(frozen=True)
class Fault:
    """One way to break."""

    name: str
    source: str
    statuses: frozenset[Status]
    """Verdicts that are right."""
    targets: tuple[Target, ...] = _BOTH

    @property
    def candidate(self) -> Candidate:
        """What the judge is given."""
        return Candidate(id=self.name.replace(" ", "-"), source=self.source, author="conformance")


def _model(body: str, head: str = "") -> str:
    return f"{HEAD}{head}\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        {body}\n"


def _launched(kernel: str) -> str:
    """A module that launches a Triton kernel of one program on its result."""
    head = f"import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(y):\n    {kernel}\n"
    return _model("y = torch.ones_like(x)\n        kernel[(1,)](y)\n        return y", head)


GOOD = Candidate(id="good", source=_model("return torch.clamp(x, min=0) + 1"), author="conformance")
_SPINNING = 'extern "C" void spin() { for (volatile long i = 0;; i = i + 1) {} }'
FAULTS = (
    Fault("segfault on import", "import ctypes\nctypes.string_at(0)\n", frozenset({Status.CRASHED})),
    Fault(
        "segfault in a call",
        _model("return ctypes.string_at(0)", "import ctypes"),
        frozenset({Status.CRASHED}),
    ),
    Fault("endless loop in Python", _model("while True: pass"), frozenset({Status.TIMEOUT})),
    Fault(
        "endless loop in C++",
        _model("native.spin()", BUILD.format(code=_SPINNING)),
        frozenset({Status.TIMEOUT}),
        ("cpu",),
    ),
    Fault(
        "endless loop on the GPU",
        _launched("while tl.load(y, volatile=True) > -1e30:\n        pass"),
        frozenset({Status.TIMEOUT}),
        ("cuda",),
    ),
    Fault(
        "illegal address",
        _launched("tl.store(y + (1 << 44), 1.0)"),
        frozenset({Status.RUNTIME_ERROR, Status.CRASHED}),
        ("cuda",),
    ),
    Fault("memory bomb", "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 28))\n", _ENDED, ("cpu",)),
    Fault(
        "memory bomb of many processes",
        "import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        hoard = bytearray(1 << 28)\n"
        "        hoard[::4096] = bytes(len(hoard[::4096]))\n        time.sleep(60)\ntime.sleep(2)\nraise SystemExit\n",
        _ENDED,
        ("cpu",),
    ),
    Fault(
        "memory bomb on the GPU",
        _model(
            "hoard = []\n        while True:\n            hoard.append(torch.empty(1 << 30, device=x.device))"
        ),
        frozenset({Status.OUT_OF_MEMORY}),
        ("cuda",),
    ),
    Fault(
        "fork bomb",
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        break\nraise SystemExit\n",
        _ENDED | {Status.INTEGRITY},
    ),
    Fault(
        "full disk",
        "import os\nnumber = 0\nwhile True:\n    with open(f'{number}.bin', 'wb') as file:\n"
        "        file.write(bytes(1 << 26))\n    number += 1\n",
        _ENDED,
    ),
    Fault("exit 0", "import os\nos._exit(0)\n", frozenset({Status.CRASHED})),
    Fault(
        "1 GB of stdout",
        "import os\nfor _ in range(1024):\n    os.write(1, b'x' * (1 << 20))\nraise SystemExit\n",
        _ENDED,
    ),
)


def faults(target: Target) -> tuple[Fault, ...]:
    """Those that a target can show."""
    return tuple(fault for fault in FAULTS if target in fault.targets)
