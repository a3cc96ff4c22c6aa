"""Folders of small task files, written where a test wants them."""

import textwrap
from pathlib import Path

HEAD = "import torch\nfrom torch import nn\n"
TAIL = """

def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return []
"""


def task_text(forward, head=""):
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    return f"{HEAD}{head}\n\nclass Model(nn.Module):\n    def forward(self, x):\n{body}\n{TAIL}"


GATE = task_text("return torch.tanh(x) * torch.exp(-x * x)")
DEGENERATE = task_text("top = x.amax(dim=1, keepdim=True)\nreturn top - top.mean(dim=1, keepdim=True)")
BROKEN = task_text("return x", head="import a_package_that_is_not_there\n")
"""Ends within a second or two, before torch is loaded."""


def write_suite(folder, files):
    """Files by path below the folder -> text."""
    for name, text in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def broken_suite(folder, count):
    """So many tasks that end at once, each with a text of its own."""
    return write_suite(
        folder, {f"{number}_Broken.py": f"{BROKEN}# {number}\n" for number in range(1, count + 1)}
    )
