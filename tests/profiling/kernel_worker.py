"""Runs or compiles the kernels that are recorded, in a process of its own: Triton's interpreter is chosen beforehand.

python kernel_worker.py interpret RESULTS
python kernel_worker.py compile RESULTS
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

HERE = Path(__file__).parent
sys.path[:0] = [
    str(HERE.parents[1] / "benchmarks"), str(HERE.parent / "program"), str(HERE.parent / "program" / "triton"),
]  # fmt: skip


def interpreted() -> dict[str, float]:
    """Kernel -> largest difference from PyTorch."""
    import profiled_rows as rows
    import profiled_triton as plain

    torch.manual_seed(0)
    random = torch.randn
    batch, wide = random(4, 3, 8, 8), random(2, 4096)
    parts, pieces = batch.view(2, 2, 3, 64), wide.view(2, 4, 1024)
    high = pieces.amax(2)
    image, small = random(2, 8, 8, 16), random(3, 256)
    keep, decay = torch.randint(0, 2, (3, 256), dtype=torch.int8), torch.rand(256)
    lines, matrix, flat = random(2, 16, 64), random(64, 32), random(2048)
    pairs, half = torch.zeros(2048, 2), random(2048).half()
    scale, shift = torch.rand(2048), torch.rand(2048)
    dropped = plain.dropout(flat)
    tokens = torch.tensor([0, 2, 2, 1, 0, 2], dtype=torch.int32)
    rows_of, bins = random(6, 32), torch.randint(0, 4, (2048,), dtype=torch.int32)
    a, b, tall, thin = random(64, 64), random(64, 32), random(256, 32), random(32, 16)
    states = [torch.zeros(256)]
    for line in small:
        states.append(decay * states[-1] + line)
    compared = {
        "batch_statistics": (
            rows.statistics(batch, 2), torch.stack([parts.sum((1, 3)), parts.square().sum((1, 3))], -1)
        ),
        "softmax_pieces": (
            rows.softmax_pieces(wide, 4), torch.stack([high, (pieces - high[..., None]).exp().sum(2)], -1)
        ),
        "row_argmax": (rows.row_argmax(wide), wide.argmax(1)),
        "average_pool": (rows.average_pool(image), F.avg_pool2d(image, 2)),
        "group_norm": (rows.group_norm(image, 4), F.group_norm(image, 4)),
        "masked_scan": (rows.masked_scan(small, keep), (small * keep).cumsum(1)),
        "spilling_norm": (rows.spilling_norm(small), F.layer_norm(small, (256,))),
        "column_softmax": (rows.column_softmax(lines), lines.softmax(1)),
        "recurrence": (rows.recurrence(small, decay), torch.stack(states[1:])),
        "transposed_read": (plain.transposed_read(matrix), matrix.t()),
        "strided_write": (plain.strided_write(flat, pairs), torch.stack([flat, torch.zeros(2048)], 1)),
        "half_silu": (plain.half_silu(half), F.silu(half)),
        "outer_sum": (plain.outer_sum(flat[:4], flat[:64]), flat[:4, None] + flat[None, :64]),
        "fused_map": (plain.fused_map(flat, scale, shift), F.relu(flat * scale + shift)),
        "dropout": (dropped, 2 * flat * (dropped != 0)),
        "dropout, share that is kept": ((dropped != 0).float().mean(), torch.tensor(0.5)),
        "scatter_add": (
            plain.scatter_add(rows_of, tokens, torch.zeros(3, 32)), torch.zeros(3, 32).index_add(0, tokens, rows_of)
        ),
        "few_bins": (plain.few_bins(bins, torch.zeros(4, dtype=torch.int32)), torch.bincount(bins, minlength=4)),
        "tf32_product": (plain.product(a, b, (32, 16, 32), 4), a @ b),
        "tall_product": (plain.tall_product(tall, thin), tall @ thin),
    }  # fmt: skip
    return {name: float((got.double() - want.double()).abs().max()) for name, (got, want) in compared.items()}


def compiled() -> dict[str, dict[str, Any]]:
    """Case -> its work, registers and bytes of stack of a thread, warps of all programs, and PTX facts, for an H200."""
    import triton
    from profiled_made import made_cases
    from triton.runtime.jit import JITFunction
    from triton_worker import FakeDriver, usage

    from kernelskill.profiling.ptx import code_facts

    # Only shapes and types count, so that nothing is drawn.
    for name in ("randn", "rand"):
        setattr(torch, name, lambda *size, **_: torch.empty(*size))
    torch.randint = lambda low, high, size, device=None, dtype=torch.int64: torch.empty(size, dtype=dtype)
    triton.runtime.driver.set_active(FakeDriver(90))
    launch, seen = JITFunction.run, []

    def recorded(self: Any, *args: Any, warmup: bool = False, **kwargs: Any) -> Any:
        kernel = launch(self, *args, warmup=True, **kwargs)
        seen.append((kernel, math.prod(kwargs["grid"])))
        return kernel

    JITFunction.run = recorded
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as place:
        for case in made_cases(torch.empty(1 << 25)):
            seen.clear()
            case.call()
            ((kernel, programs),) = seen
            work = ("read_bytes", "written_bytes", "transcendentals", "flops", "is_map")
            found[case.name] = {
                **usage(kernel.asm["cubin"], Path(place)),
                **{name: getattr(case, name) for name in work},
                "warps": programs * kernel.metadata.num_warps,
                "shared": kernel.metadata.shared,
                "code": code_facts(kernel.asm["ptx"]),
            }
    return found


if __name__ == "__main__":
    kind, results = sys.argv[1:]
    Path(results).write_text(json.dumps(interpreted() if kind == "interpret" else compiled()))
