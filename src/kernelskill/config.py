"""Settings, and the only place that picks implementations.

Values come from defaults, then a TOML file (`kernelskill.toml` in the working folder, or `--config FILE`), then
flags. Unknown keys are refused. The whole configuration is written into the run.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import platformdirs
from pydantic import Field, ValidationError

from kernelskill.errors import ConfigError, MissingExtraError, SandboxError, WorkerError
from kernelskill.records import Budget, Json, Precision, Record, Scalar, Task, Weights, Workload
from kernelskill.records.evaluation import Label
from kernelskill.records.model import ModelSettings

if TYPE_CHECKING:
    from kernelskill.evaluation.sandbox import Sandbox
    from kernelskill.loop import Parts
    from kernelskill.protocols import Evaluator, FloorModel

APP = "kernelskill"
SETTINGS_FILE = "kernelskill.toml"
TARGETS = {
    "cpu": "",
    "cuda": "",
    "hip": "AMD GPUs are not supported; use --target cpu",
}
"""Target -> why it cannot be used ("" = it can)."""


class Config(Record):
    """Everything a person can set."""

    target: str = "cpu"
    """Device to write for: cpu, or cuda for an NVIDIA GPU."""
    gpu: int = 0
    """Which GPU, as torch counts them."""
    precision: Precision = Precision.MATCH
    """Accuracy owed: match = as accurate as eager as the task runs it."""
    weights: Weights = "live"
    """live = parameters may change between calls; frozen = they never do, and stock arms may fold them in as well."""
    threads: int | None = None
    """Threads of every arm; default: all cores."""
    allow: tuple[Label, ...] = ()
    """Labels that may win (custom, library, compile, algebraic, ...); default: all that is correct."""
    tolerance: Literal["relative", "kernelbench", "kernelbench-v0"] = "relative"
    """relative = error against fp64 in units of eager's own; kernelbench = allclose at 1e-4, and kernelbench-v0 =
    at 1e-2, to compare."""
    require_sandbox: Literal["full", "partial", "plain"] = "plain"
    """Least sandbox level that candidates may run under."""
    promotion_sets: int | None = Field(default=None, ge=2)
    """Fresh process sets in which the winner is re-timed; default: 6 on a CPU, 4 on a GPU, whose times scatter less."""
    budget: Budget = Budget()
    runs: Path = Path("runs")
    """Folder that run folders are made in."""
    suites: Path = platformdirs.user_data_path(APP) / "suites"
    """Folder that keeps which suites were added, and clones of those that came from an address."""
    cache: Path = platformdirs.user_cache_path(APP)
    """Machine ceilings and the compile arm's own cache."""
    evidence: Path | None = platformdirs.user_data_path(APP) / "evidence.sqlite"
    """Long-term evidence; None keeps none."""
    skills: tuple[Path, ...] = ()
    """Further skill folders."""
    counters: bool = True
    """Read hardware counters of each base on a GPU, where ncu may: about eight seconds for each."""
    agents: tuple[Literal["expert", "llm"], ...] = Field(default=("expert",), min_length=1, max_length=2)
    """Who plays the roles: the expert (needs no model), a language model, or it after the expert."""
    search: Literal["greedy", "beam", "evolutionary", "bandit"] = "greedy"
    """What is worked on next: the newest base, the fastest few in turn, an archive of kinds, or skills as a bandit."""
    without: tuple[Literal["long-term", "short-term", "gate"], ...] = ()
    """Parts of the memory that this run does not have, to measure what they are worth."""
    llm: ModelSettings = ModelSettings()
    """Which language model, and what it may cost."""


def load_config(file: Path | None = None, **flags: Json) -> Config:
    """Settings from defaults, file and flags (a flag that is None was not given).

    Raises:
        ConfigError: the file cannot be read, a key is unknown or a value is out of range.
    """
    path = file or Path(SETTINGS_FILE)
    values: dict[str, Json] = {}
    if file is not None or path.exists():
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConfigError(f"settings file {path} does not exist") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"settings file {path} is not TOML: {error}") from error
    budget = {**values.pop("budget", {}), **_given(flags.pop("budget", {}))}
    llm, given = values.pop("llm", {}), _given(flags.pop("llm", {}))
    limits = {**llm.get("limits", {}), **_given(given.pop("limits", {}))}
    values = {**values, **_given(flags), "llm": {**llm, **given, "limits": limits}}
    try:
        config = Config.model_validate({**values, "budget": budget})
    except ValidationError as error:
        raise ConfigError(_explain(error, path if file or path.exists() else None)) from error
    return _checked(config)


def changed_config(config: Config, **changed: Any) -> Config:
    """Settings with some of them changed, checked as those of a file are.

    Raises:
        ConfigError: a value is out of range.
    """
    try:
        return _checked(Config.model_validate({**config.model_dump(), **changed}))
    except ValidationError as error:
        raise ConfigError(_explain(error, None)) from error


def _checked(config: Config) -> Config:
    if config.target not in TARGETS:
        known = ", ".join(name for name, why in TARGETS.items() if not why)
        raise ConfigError(f"unknown target {config.target!r}; known: {known}")
    if TARGETS[config.target]:
        raise ConfigError(TARGETS[config.target])
    if len(config.agents) > 1 and config.agents != ("expert", "llm"):
        raise ConfigError(
            f"agents {','.join(config.agents)}: known are expert, llm, and expert,llm "
            "(the expert edits programs, so it cannot go on from what a model wrote)"
        )
    return config


def build_evaluator(config: Config, task: Task) -> Evaluator:
    """The judge of a task on the configured target.

    Raises:
        MissingExtraError: PyTorch is not installed.
        SandboxError: the machine cannot give the sandbox level asked for.
        WorkerError: there is no GPU to write for.
    """
    require_torch()
    from kernelskill.evaluation.judge import Judge
    from kernelskill.evaluation.sandbox import Sandbox

    if config.target == "cuda":
        from kernelskill.evaluation.cuda.judge import cuda_judge

        judge = cuda_judge(task, index=config.gpu, **_judge_settings(config))
        _require_level(judge.sandbox, config)
        return judge
    sandbox = Sandbox.probe()
    _require_level(sandbox, config)
    return Judge(task, sandbox=sandbox, **_judge_settings(config))


def _judge_settings(config: Config) -> dict[str, Any]:
    return {
        "threads": threads_of(config),
        "allow": frozenset(config.allow),
        "tolerance": config.tolerance,
        "cache_dir": config.cache,
        "promotion_sets": config.promotion_sets,
    }


def _require_level(sandbox: Sandbox, config: Config) -> None:
    order = ("plain", "partial", "full")
    if order.index(sandbox.level) < order.index(config.require_sandbox):
        raise SandboxError(
            f"the sandbox here is {sandbox.level} ({', '.join(sandbox.layers)}), "
            f"--require-sandbox {config.require_sandbox} was asked for; see: kernelskill doctor"
        )


def build_floor(config: Config) -> FloorModel:
    """The floor model of the device that is written for."""
    from kernelskill.evaluation.cuda.lease import alone_on
    from kernelskill.floor import MachineFloor

    gpu = gpu_name(config) if config.target == "cuda" else ""
    return MachineFloor(config.cache, threads_of(config), gpu, config.gpu, alone_on)


def build_parts(
    config: Config, task: Task, workload: Workload, evaluator: Evaluator, folder: Path | None = None
) -> Parts:
    """One implementation per role; `folder` is the run's, where calls of language models are recorded."""
    from kernelskill import agents, features, loop, memory, profiling, program, search, skills
    from kernelskill.program import triton

    on_gpu = config.target == "cuda"
    floor = build_floor(config)
    device = gpu_name(config) if on_gpu else device_name()
    printer = triton.CudaPrinter() if on_gpu else program.CpuPrinter()
    store = skills.EvidenceStore(config.evidence) if config.evidence else None
    library = skills.library_without(config.without)(store, extra=config.skills, device=device)
    forgets = "short-term" in config.without
    run_memory = memory.ForgetfulMemory() if forgets else memory.RunMemory()
    planner = agents.ExpertPlanner(library, search.Tuner())
    reader = features.ExpertFeatureReader(floor.ceilings(), config.target)
    parts = loop.Parts(
        floor=floor,
        profiler=profiling.GpuProfiler(evaluator, counters=config.counters)
        if on_gpu
        else profiling.CpuProfiler(evaluator),
        features=reader,
        library=library,
        memory=run_memory,
        generator=agents.ExpertGenerator(library, agents.Forecast(reader, floor)),
        planner=memory.ForgetfulPlanner(planner) if forgets else planner,
        optimizer=agents.ExpertOptimizer(library, printer, task, workload),
        diagnoser=agents.ExpertDiagnoser(),
        repairer=agents.ExpertRepairer(library, run_memory, workload),
        strategy=search.STRATEGIES[config.search](),
    )
    return parts if "llm" not in config.agents else _with_model(parts, config, task, workload, folder)


def _with_model(parts: Parts, config: Config, task: Task, workload: Workload, folder: Path | None) -> Parts:
    """The roles played by a language model, alone or in turn with the expert."""
    from kernelskill.agents import llm, turns
    from kernelskill.llm import open_access

    scene = llm.Scene(
        model=open_access(config.llm, folder),
        settings=config.llm,
        task=task,
        workload=workload,
        ceilings=parts.floor.ceilings(),
        shelf=parts.library,  # type: ignore[arg-type] # the library of skills is one
        memory=parts.memory,
        target=config.target,
        machine=describe_gpu(config) if config.target == "cuda" else describe_processor(),
        repairs=config.budget.repairs,
        forgets="short-term" in config.without,
        unread="long-term" in config.without,
    )
    generator = llm.ModelGenerator(scene, parts.library)
    optimizer, repairer = llm.ModelOptimizer(scene), llm.ModelRepairer(scene)
    diagnoser = llm.ModelDiagnoser(scene, parts.diagnoser)
    features = llm.ModelFeatureReader(scene, parts.features)
    planner = llm.ModelPlanner(
        scene, lambda: parts.library.retrieve(features.graph) if features.graph else None
    )
    if config.agents == ("llm",):
        return replace(
            parts, generator=generator, planner=planner, optimizer=optimizer, diagnoser=diagnoser,
            repairer=repairer, features=features,
        )  # fmt: skip
    return replace(
        parts,
        generator=turns.GeneratorsInTurn(parts.generator, generator),
        successors=(planner,),
        optimizer=turns.OptimizerByAuthor(parts.optimizer, optimizer),
        diagnoser=turns.DiagnoserByAuthor(parts.diagnoser, diagnoser),
        repairer=turns.RepairerByAuthor(parts.repairer, repairer),
        features=features,
    )


def require_model(config: Config) -> None:
    """Fail before any work where a model is to play, and its name, key, package or price is missing.

    Raises:
        ConfigError: no model is named, or a limit in dollars meets a model without a price.
        ModelError: a key is missing; the message names it.
        MissingExtraError: the provider's package is not installed.
    """
    if "llm" in config.agents:
        from kernelskill.llm import open_access

        open_access(config.llm, None)


def describe_processor() -> dict[str, Scalar]:
    """What code for this processor depends on."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    flags = set(text.partition("flags")[2].partition("\n")[0].split())
    known = ("avx2", "fma", "avx512f", "avx512vl", "avx512_bf16", "amx_tile", "asimd", "sve")
    caches = {
        f"cache_l{level}": _first_line(Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size"))
        for index, level in ((0, "1d"), (2, "2"), (3, "3"))
    }
    return {
        "processor": device_name(),
        "vector instructions": ", ".join(n for n in known if n in flags),
        "compiler": compiler(),
        **caches,
    }


def compiler() -> str | None:
    """Name and version of the C++ compiler that candidates are built with."""
    try:
        done = subprocess.run(["g++", "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.partition("\n")[0] or None


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return None


def threads_of(config: Config) -> int:
    """Threads that every arm runs with."""
    return config.threads or len(os.sched_getaffinity(0))


def device_name() -> str:
    """Model name of the processor, as the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


def gpu_name(config: Config) -> str:
    """Model name of the GPU to write for.

    Raises:
        WorkerError: torch sees no such GPU.
    """
    import torch

    if not torch.cuda.is_available() or config.gpu >= torch.cuda.device_count():
        raise WorkerError(
            f"no GPU {config.gpu}: torch sees {torch.cuda.device_count()}; see: kernelskill doctor"
        )
    return str(torch.cuda.get_device_name(config.gpu))


GPU_SIZES = {
    "multiprocessors": "multi_processor_count",
    "cache_l2_bytes": "L2_cache_size",
    "registers_per_multiprocessor": "regs_per_multiprocessor",
    "shared_bytes_per_multiprocessor": "shared_memory_per_multiprocessor",
    "shared_bytes_per_block": "shared_memory_per_block_optin",
}
"""What a kernel's shape depends on -> torch's name of it."""


def describe_gpu(config: Config) -> dict[str, Scalar]:
    """What numbers measured on the GPU depend on."""
    import torch

    properties = torch.cuda.get_device_properties(config.gpu)
    triton = importlib.util.find_spec("triton")
    return {
        "gpu_uuid": str(getattr(properties, "uuid", "")),
        "gpu_memory_bytes": properties.total_memory,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "cuda_version": torch.version.cuda,
        "triton_version": importlib.metadata.version("triton") if triton else None,
        "driver_version": _driver_version(),
        **{name: getattr(properties, told, None) for name, told in GPU_SIZES.items()},
    }


def _driver_version() -> str | None:
    try:
        told = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", told)
    return found[0] if found else None


def require_torch() -> None:
    """Fail early, with the command that helps.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch is not installed: pip install 'kernelskill[torch]'")


def _given(flags: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in flags.items() if value is not None}


def _explain(error: ValidationError, path: Path | None) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "settings"
    said = first["msg"]
    if first["type"] == "extra_forbidden":
        said += f"; known settings: {', '.join(Config.model_fields)}"
    if first["type"] in ("literal_error", "enum"):
        said = f"{first['input']!r} is not known; it is one of: {first['ctx']['expected']}"
    return f"{f'{path}: ' if path else ''}{where}: {said}"
