"""One role a file. The expert roles need no model: they execute skills."""

from kernelskill.agents.diagnoser import ExpertDiagnoser
from kernelskill.agents.forecast import Forecast
from kernelskill.agents.generator import ExpertGenerator
from kernelskill.agents.optimizer import ExpertOptimizer
from kernelskill.agents.planner import ExpertPlanner
from kernelskill.agents.repairer import ExpertRepairer

__all__ = [
    "ExpertDiagnoser", "ExpertGenerator", "ExpertOptimizer", "ExpertPlanner", "ExpertRepairer", "Forecast",
]  # fmt: skip
