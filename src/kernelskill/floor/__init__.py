"""The time below which no program can go on this machine."""

from kernelskill.floor.ceilings import load_ceilings
from kernelskill.floor.model import MachineFloor, estimate_text, floor_of, nothing_to_gain

__all__ = ["MachineFloor", "estimate_text", "floor_of", "load_ceilings", "nothing_to_gain"]
