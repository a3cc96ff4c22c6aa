"""Short-term memory of one run: what was tried on which base, and why it failed."""

from kernelskill.memory.forgetful import ForgetfulMemory, ForgetfulPlanner
from kernelskill.memory.lineage import ancestors, chain
from kernelskill.memory.run_memory import RunMemory

__all__ = ["ForgetfulMemory", "ForgetfulPlanner", "RunMemory", "ancestors", "chain"]
