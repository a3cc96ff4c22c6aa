"""The cases of the GPU tests serve here too: printed and compiled, not run."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "gpu"))
