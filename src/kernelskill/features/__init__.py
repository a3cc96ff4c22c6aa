"""Program, profile and floor -> facts."""

from kernelskill.features.catalog import CATALOG
from kernelskill.features.entry import FactEntry
from kernelskill.features.reader import ExpertFeatureReader

__all__ = ["CATALOG", "ExpertFeatureReader", "FactEntry"]
