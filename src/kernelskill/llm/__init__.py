"""Access to language models: providers behind one string, budgets that hold, and a record that replays."""

from kernelskill.llm.access import ModelAccess
from kernelskill.llm.calls import CallFolder, read_calls
from kernelskill.llm.reach import open_access
from kernelskill.llm.spec import read_spec

__all__ = ["CallFolder", "ModelAccess", "open_access", "read_calls", "read_spec"]
