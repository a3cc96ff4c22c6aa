"""Graph to graph: dead code, no-ops, point-wise algebra."""

from kernelskill.program.rewrite.dead import dead_nodes, remove_dead
from kernelskill.program.rewrite.simplify import Change, Level, simplify

__all__ = ["Change", "Level", "dead_nodes", "remove_dead", "simplify"]
