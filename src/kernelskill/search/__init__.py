"""How a run searches: what is worked on next, in which order skills are tried, which parameters come next."""

from kernelskill.protocols import Strategy
from kernelskill.search.bandit import BanditStrategy
from kernelskill.search.beam import BeamStrategy
from kernelskill.search.evolution import EvolutionStrategy
from kernelskill.search.greedy import GreedyStrategy
from kernelskill.search.tuner import Tuner

STRATEGIES: dict[str, type[Strategy]] = {
    "greedy": GreedyStrategy,
    "beam": BeamStrategy,
    "evolutionary": EvolutionStrategy,
    "bandit": BanditStrategy,
}
"""Name -> strategy, each with its defaults."""

__all__ = ["STRATEGIES", "BanditStrategy", "BeamStrategy", "EvolutionStrategy", "GreedyStrategy", "Tuner"]
