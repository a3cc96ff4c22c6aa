"""Which attempt becomes the base, and which parameters are tried next."""

from kernelskill.search.greedy import GreedyStrategy
from kernelskill.search.tuner import Tuner

__all__ = ["GreedyStrategy", "Tuner"]
