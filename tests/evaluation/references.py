"""Run the reference side of a worker in this process: load, describe, draw."""

import textwrap

from kernelskill.evaluation.worker.examine import handle_describe
from kernelskill.evaluation.worker.reference import handle_load_reference
from kernelskill.evaluation.worker.session import Session
from kernelskill.records import Reference, Workload

HEAD = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def reference(body, **changes):
    """A KernelBench-style file."""
    source = HEAD + textwrap.dedent(body)
    init = "get_init_inputs" if "def get_init_inputs" in source else ""
    fields = {"loader": "source", "kind": "module", "entry": "Model", "source": source, "init_entry": init,
              "inputs_entry": "get_inputs"}  # fmt: skip
    return Reference(**fields | changes)


def session(tmp_path, spec, arm="eager"):
    made = Session("reference", tmp_path, 1)
    handle_load_reference(made, {"reference": spec.model_dump(mode="json"), "arm": arm})
    return made


def describe(tmp_path, spec, seed=5):
    return Workload.model_validate(handle_describe(session(tmp_path, spec), {"seed": seed}))


def codes(workload):
    return {finding.code: finding.fatal for finding in workload.findings}
