"""Kernels that hold rows in clusters of blocks, compiled for the CPU and run there thread by thread."""

import ctypes
import re
import subprocess
from pathlib import Path

import clustered
import torch

from kernelskill.program.cuda import on_chip
from kernelskill.program.cuda.rows import ClusterRows

SHARED = "extern __shared__ __align__(16) unsigned char tile[];"
TILE = "unsigned char* tile = on_host::block().tile;"
TYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "bool": torch.bool,
}


def run(source, inputs, folder, parts, **gpu):
    """What both forms of the kernel of a text's `Model` give, and what the model gives in float64."""
    program, *_ = clustered.traced(source, inputs)
    rows = ClusterRows(clustered.in_clusters(program, parts, **gpu).kernels[0])
    names = {}
    exec(source, names)
    due = names["Model"]()(*(x.double() if x.is_floating_point() else x for x in inputs))
    given = dict(zip((item.name for item in program.graph.inputs), inputs, strict=True))
    taken = [given[item.name].data_ptr() for item in rows.region.inputs]
    library = ctypes.CDLL(str(_compiled(rows, folder)))
    found = []
    for form in (library.aligned, library.unaligned):
        found.append(torch.full(due.shape, 77.0).to(TYPES[rows.region.outputs[0].dtype]))
        addresses = [*taken, found[-1].data_ptr()]
        form((ctypes.c_void_p * len(addresses))(*addresses))
    return found, due


def _compiled(rows, folder):
    text = rows.text().removeprefix(on_chip.TEXT).replace(SHARED, TILE)
    text = re.sub(r"__shared__ (\S+) slots_(\d+)\[33\];", r"auto& slots_\2 = on_host::slots<\1>(\2);", text)
    assert "__shared__" not in text
    numbers = f"{rows.blocks}, {rows.plan.parts}, {rows.plan.threads}"
    starts = [
        f'extern "C" void {form}(void** addresses) {{ on_host::launch({name}, addresses, {numbers}); }}'
        for form, name in (("aligned", rows.name), ("unaligned", f"{rows.name}_unaligned"))
    ]
    header = Path(__file__).with_name("on_host.h").read_text()
    source, made = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text("\n".join([on_chip.ACCESSES, header, on_chip.FOLDING, text, *starts]))
    options = ["-std=c++20", "-D__device__=", "-pthread", "-shared", "-fPIC"]
    subprocess.run(["g++", *options, source, "-o", made], check=True)
    return made
