"""Program -> one readable Python file that defines `ModelNew`.

Order of the file: what it is; imports; the kernels' C++ text; how it is built; one thin function a kernel, under
further names where equal kernels share it; the reference's helpers; `ModelNew` with the reference's own constructor and
a forward that reads as a straight line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program import cpp
from kernelskill.program.arguments import attribute, folded, spelled
from kernelskill.program.cuda import graphed
from kernelskill.program.cuda.printed import Printed, printed
from kernelskill.program.docstring import Reads, docstring, reads_of
from kernelskill.program.equal_kernels import other_names, printed_as
from kernelskill.program.forward import Forward
from kernelskill.program.guard import IS_LIKE, IS_LIKE_ON_GPU, IS_WATCHED, NEED_GRAD, constructed, guard
from kernelskill.program.program import Kernel, Program
from kernelskill.program.reference_text import ReferenceText, cut, renamed
from kernelskill.records import Task, TensorSpec, Workload

BUILD = '''\
def _build(source):
    """Compile the kernels once per content, into a private folder, and load them."""
    command = ["g++", "-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"]
    command += ["-Wno-psabi", "-shared", "-fPIC"]
    processor = Path("/proc/cpuinfo").read_text().partition("\\n\\n")[0] if Path("/proc/cpuinfo").exists() else ""
    features = [line for line in processor.splitlines() if line.startswith(("model name", "flags", "Features"))]
    name = hashlib.sha256("\\n".join([*command, *features, source]).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"kernelskill-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise RuntimeError(f"{folder} is not a folder that only you can write to")
    library = folder / f"{name}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as private:
            text, built = Path(private, "kernels.cpp"), Path(private, "kernels.so")
            text.write_text(source)
            try:
                done = subprocess.run([*command, str(text), "-o", str(built)], capture_output=True, text=True)
            except FileNotFoundError:
                raise RuntimeError("g++ is needed to build the kernels: apt-get install g++") from None
            if done.returncode:
                raise RuntimeError(f"the kernels do not compile:\\n{done.stderr}")
            built.replace(library)
    return ctypes.CDLL(str(library))
'''

STANDARD_IMPORTS = """\
import ctypes
import hashlib
import os
import stat
import subprocess
import tempfile
from pathlib import Path"""


def _cpp_sections(kernels: tuple[Kernel, ...], reads: Reads) -> list[str]:
    """The C++ text, how it is built, and a thin function a kernel."""
    bound = ["_library = _build(KERNELS)", *(_argtypes(kernel) for kernel in kernels)]
    text = f'KERNELS = r"""\n{cpp.source(kernels)}"""'
    return [text, BUILD.rstrip(), "\n".join(bound), *(_wrapper(kernel, reads) for kernel in kernels)]


@dataclass(frozen=True)
class Target:
    """What a candidate's file needs to know of the language its kernels are printed in."""

    sections: Callable[[tuple[Kernel, ...], Reads], list[str]]
    """Kernels, and the layouts that they read -> texts in order; each kernel is a function of its name in the end."""
    standard_imports: str = ""
    """Of the standard library."""
    imports: tuple[str, ...] = ()
    """Of packages, besides torch."""
    on_gpu: bool = False


CPP = Target(sections=_cpp_sections, standard_imports=STANDARD_IMPORTS)


def write(program: Program, task: Task, workload: Workload, target: Target = CPP) -> str:
    """The candidate's source.

    Raises:
        ProgramError: the program cannot be spelled.
    """
    reference = _reference(task, workload)
    if program.wrapper == "compile":
        return _compiled(task, reference)
    replayed = program.wrapper == "graph"
    if replayed and _is_unchanged(program, workload):
        return _graphed(task, workload)
    parameters = list(reference.parameters) if reference else _parameters(workload)
    forward = Forward(program, workload, parameters, indexed=reference is not None, on_gpu=target.on_gpu)
    body = forward.lines()
    kernels = program.kernels
    needed = [graphed.REPLAY] if replayed else []
    needed += [printed("launcher")] if any(kernel.schedule.gpu.cluster for kernel in kernels) else []
    parts = [_title(task, program), _imports(reference, target if kernels else None, needed)]
    for module in needed:
        module.require_no_clash((*reference.definitions, reference.entry) if reference else ())
        parts.append(module.body)
    if kernels:
        printed_names = set(printed_as(kernels).values())
        once = tuple(kernel for kernel in kernels if kernel.name in printed_names)
        parts += target.sections(once, reads_of(program))
        parts += [text for text in [other_names(kernels)] if text]
    if reference:
        parts += [
            (IS_LIKE_ON_GPU if target.on_gpu else IS_LIKE).rstrip(),
            IS_WATCHED.rstrip(),
            NEED_GRAD.rstrip(),
        ]
        parts += [text for text in reference.definitions]
    parts.append(_model(program, task, workload, reference, parameters, body, target))
    return "\n\n\n".join(parts) + "\n"


def _title(task: Task, program: Program) -> str:
    skills = ", ".join(dict.fromkeys(program.skills)) or "none"
    scope = "Calls of other shapes or layouts, and those that need a gradient, run the reference."
    text = f'"""{task.name} in kernels of its own, for inference.\n\n{scope}\nSkills: {skills}.\n"""'
    return "\n".join(line for part in text.splitlines() for line in (textwrap.wrap(part, 110) or [""]))


def _imports(
    reference: ReferenceText | None, target: Target | None, printed_modules: Sequence[Printed] = ()
) -> str:
    """The file's imports; no target where it has no kernels."""
    own = list(reference.imports) if reference else []
    if not any(line.strip() == "import torch" for line in own):
        own.insert(0, "import torch")
    if not any(line.strip() in {"import torch.nn as nn", "from torch import nn"} for line in own):
        own.append("from torch import nn")
    own += target.imports if target else ()
    own += [line for module in printed_modules for line in module.packages]
    standard = [target.standard_imports] if target and target.standard_imports else []
    needed = dict.fromkeys(line for module in printed_modules for line in module.standard)
    standard += ["\n".join(needed)] if needed else []
    return "\n\n".join([*standard, "\n".join(dict.fromkeys(own))])


def _argtypes(kernel: Kernel) -> str:
    printed = cpp.kernel_function(kernel)
    count = len(printed.inputs) + len(printed.outputs)
    return (
        f"_library.{kernel.name}.argtypes = [ctypes.c_void_p] * {count} + [ctypes.c_int]\n"
        f"_library.{kernel.name}.restype = None"
    )


def _wrapper(kernel: Kernel, reads: Reads) -> str:
    printed = cpp.kernel_function(kernel)
    inputs = [name for name, _ in printed.inputs]
    outputs = [name for name, _ in printed.outputs]
    lines = folded(f"def {kernel.name}({', '.join(inputs)}):")
    lines += docstring(kernel, inputs, outputs, reads.get(kernel.name, ()))
    lines += [f"    {name} = {_allocation(spec)}" for name, spec in zip(outputs, kernel.outputs, strict=True)]
    pointers = ", ".join(f"{name}.data_ptr()" for name in (*inputs, *outputs))
    lines += folded(f"    _library.{kernel.name}({pointers}, torch.get_num_threads())")
    lines.append(f"    return {', '.join(outputs)}")
    return "\n".join(lines)


def _allocation(spec: TensorSpec) -> str:
    # Spelled out: a user's default dtype or device must not decide how much memory a kernel writes to, or where.
    given = f'dtype=torch.{spec.dtype}, device="cpu"'
    if spec.is_contiguous:
        return f"torch.empty({spelled(spec.shape)}, {given})"
    return f"torch.empty_strided({spelled(spec.shape)}, {spelled(spec.stride)}, {given})"


def _model(
    program: Program,
    task: Task,
    workload: Workload,
    reference: ReferenceText | None,
    parameters: list[str],
    body: list[str],
    target: Target,
) -> str:
    indent = " " * 4
    declared = [reference.signature] if reference else parameters
    signature = f"    def forward({', '.join(['self', *declared])}):"
    if reference is None:
        lines = ["class ModelNew(nn.Module):", *_declared(workload), "", signature]
    elif task.reference.kind == "function":
        original = "\n".join(indent + line if line else "" for line in reference.entry.splitlines())
        name = task.reference.entry
        lines = [
            "class ModelNew(nn.Module):", "    @staticmethod",
            original.replace(f"def {name}(", "def _reference_forward(", 1), "", signature,
        ]  # fmt: skip
    else:
        written = renamed(reference.entry, task.reference.entry, "ModelNew").rstrip()
        lines = [written, *constructed(workload).rstrip().splitlines(), "", signature]
    if reference is not None:
        lines += guard(program, workload, reference, task.reference.kind == "module")
    if program.wrapper == "graph":
        lines += graphed.replayed(declared, reference.passed_on if reference else ", ".join(parameters))
    lines += [part for line in body for part in folded(indent * 2 + line)]
    return "\n".join(lines)


def _declared(workload: Workload) -> list[str]:
    """A constructor that declares the state by name, for references without text."""
    lines = ["    def __init__(self):", "        super().__init__()"]
    made: set[str] = set()
    for state in workload.state:
        *parents, leaf = state.path.split(".")
        for depth in range(1, len(parents) + 1):
            path = ".".join(parents[:depth])
            if path not in made:
                made.add(path)
                above = attribute(".".join(parents[: depth - 1]), indexed=False) if depth > 1 else "self"
                lines.append(f'        {above}.add_module("{parents[depth - 1]}", nn.Module())')
        owner = "self" if not parents else f'self.get_submodule("{".".join(parents)}")'
        shape, dtype = spelled(state.spec.shape), state.spec.dtype
        empty = f"torch.empty({shape}, dtype=torch.{dtype})"
        if state.kind == "parameter":
            lines.append(
                f'        {owner}.register_parameter("{leaf}", nn.Parameter({empty}, requires_grad=False))'
            )
        else:
            lines.append(f'        {owner}.register_buffer("{leaf}", {empty}, persistent={state.persistent})')
    return lines


def _parameters(workload: Workload) -> list[str]:
    tree = workload.inputs_tree
    if "dict" in tree:
        return list(tree["dict"])
    count = len(tree.get("list", tree.get("tuple", [tree])))
    return [f"x{index}" if count > 1 else "x" for index in range(count)]


def _reference(task: Task, workload: Workload) -> ReferenceText | None:
    source = task.reference.source or workload.class_source
    if not source or not task.reference.entry:
        return None
    if task.reference.loader == "pickle" and task.reference.kind == "module":
        # A ready object: its constructor's arguments are not known, its state is.
        return None
    try:
        return cut(source, task.reference.entry)
    except (ProgramError, SyntaxError):
        return None


def _compiled(task: Task, reference: ReferenceText | None) -> str:
    if reference is None or task.reference.kind == "function":
        raise ProgramError("torch.compile as a candidate needs the text of a module class")
    entry = task.reference.entry
    model = (
        f"class ModelNew({entry}):\n"
        f'    """{entry} under torch.compile (library-compile)."""\n\n'
        "    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n"
        "        self.compile()"
    )
    title = f'"""{task.name} under torch.compile.\n\nSkills: library-compile.\n"""'
    parts = [title, _imports(reference, None), *reference.definitions, reference.entry, model]
    return "\n\n\n".join(parts) + "\n"


def _is_unchanged(program: Program, workload: Workload) -> bool:
    """Whether the reference's own text does what the program does."""
    return not program.kernels and program.graph == (workload.graph or program.graph)


def _graphed(task: Task, workload: Workload) -> str:
    source, reference = task.reference.source or workload.class_source, task.reference
    if not source or not reference.entry or reference.loader == "pickle":
        raise ProgramError("a CUDA graph of the reference as it is needs its text")
    title = f"# {task.name} with its launches replayed as one CUDA graph.\n# Skills: cuda-graphs.\n"
    summary = f"{reference.entry}, replayed as one CUDA graph (cuda-graphs)."
    return title + graphed.around(source, reference.entry, reference.kind, summary)


class CpuPrinter:
    """`protocols.Printer` for the CPU target."""

    def source(self, program: object, task: Task, workload: Workload) -> str:
        """One readable file that defines `ModelNew`."""
        return write(Program.model_validate(program), task, workload)
