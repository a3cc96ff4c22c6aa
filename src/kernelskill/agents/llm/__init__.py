"""The roles played by a language model: typed answers, checked in code, asked again with the fault shown, bounded."""

from kernelskill.agents.llm.diagnoser import ModelDiagnoser
from kernelskill.agents.llm.feature_reader import ModelFeatureReader
from kernelskill.agents.llm.generator import ModelGenerator
from kernelskill.agents.llm.optimizer import ModelOptimizer
from kernelskill.agents.llm.planner import ModelPlanner
from kernelskill.agents.llm.repairer import ModelRepairer
from kernelskill.agents.llm.scene import Scene

__all__ = [
    "ModelDiagnoser",
    "ModelFeatureReader",
    "ModelGenerator",
    "ModelOptimizer",
    "ModelPlanner",
    "ModelRepairer",
    "Scene",
]
