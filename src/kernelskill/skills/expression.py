"""The gate's expression language: conditions over facts that never mistake ignorance for truth.

A small part of Python's syntax, read with `ast` and never executed:

    condition := condition and condition | condition or condition | not condition
               | quantity (== != < <= > >=) quantity ... | quantity [not] in (literal, ...) | name
    quantity  := name | number | "text" | True | False | quantity (+ - * /) quantity | -quantity
               | min(quantity, ...) | max(quantity, ...)

A name is a fact. The logic has three values: a comparison that reads a missing fact is unknown, and so is a division by
zero. `unknown and False` is False and `unknown or True` is True; everything else that is unknown stays unknown. An
answer carries the parts that decided it, with the facts that they read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernelskill.errors import SkillError
from kernelskill.records import Fact, Facts, Scalar

LONGEST = 2000
"""Characters of an expression; longer ones are mistakes."""
DEEPEST = 40
"""Levels of nesting."""

Value = bool | int | float | str
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_FUNCTIONS = {"min", "max"}


class FactIndex:
    """Facts by name and subject; a kernel's missing fact is looked up for the whole program."""

    def __init__(self, facts: Facts) -> None:
        self._facts: dict[tuple[str, str], Fact] = {}
        for fact in facts.facts:
            self._facts.setdefault((fact.name, fact.subject), fact)

    def find(self, name: str, subject: str) -> Fact | None:
        """The fact, or None if it is missing or its value is unknown."""
        fact = self._facts.get((name, subject)) or self._facts.get((name, ""))
        return None if fact is None or fact.value is None else fact

    def has(self, name: str, subject: str) -> bool:
        """Whether this very subject has that fact, known or not."""
        return (name, subject) in self._facts


@dataclass(frozen=True)
class Part:
    """One comparison of a condition, as it was found."""

    text: str
    facts: tuple[Fact, ...]
    missing: tuple[str, ...]
    """Names that were read and not known."""

    def __str__(self) -> str:
        """The comparison with its values, e.g. `rows < threads (rows=1 parsed, threads=2 parsed)`."""
        found = [f"{fact.name}={show(fact.value)} {fact.origin}" for fact in self.facts]
        found += [f"{name} not known" for name in self.missing]
        return f"{self.text} ({', '.join(found)})" if found else self.text


@dataclass(frozen=True)
class Answer:
    """Truth of a condition, and the parts that decided it."""

    value: bool | None
    """None = unknown."""
    parts: tuple[Part, ...]

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Facts that the deciding parts read, each once, in order."""
        return tuple(dict.fromkeys(fact for part in self.parts for fact in part.facts))

    @property
    def measured(self) -> bool:
        """Whether a measured fact took part in the decision."""
        return any(fact.origin == "measured" for fact in self.facts)

    @property
    def reason(self) -> str:
        """Words for people: what holds, what fails, or what is not known."""
        joined = ", ".join(str(part) for part in self.parts)
        if self.value is None:
            return f"cannot tell: {joined}"
        return joined if self.value else f"fails: {joined}"


def show(value: Scalar) -> str:
    """A fact's value in few characters."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Expression:
    """Text that passed the grammar. `where` names card and field in every error."""

    def __init__(self, text: str, where: str) -> None:
        self.text = " ".join(text.split())
        self.where = where
        self._root = self._parse()
        self.names = tuple(dict.fromkeys(node.id for node in self._nodes() if isinstance(node, ast.Name)))
        """Facts that the expression reads."""

    def fault(self, node: ast.AST, message: str) -> SkillError:
        """An error at a node: card, field, column, and the text found there."""
        column = getattr(node, "col_offset", 0) + 1
        return SkillError(f"{self.where}, column {column}: {message} (in: {self.text})")

    def _parse(self) -> ast.expr:
        if not self.text:
            raise SkillError(f"{self.where}: the expression is empty")
        if len(self.text) > LONGEST:
            raise SkillError(f"{self.where}: longer than {LONGEST} characters")
        try:
            root = ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            raise SkillError(
                f"{self.where}, column {error.offset or len(self.text) + 1}: {error.msg} (in: {self.text})"
            ) from error
        except (ValueError, RecursionError, MemoryError) as error:
            raise SkillError(f"{self.where}: cannot be parsed: {error}") from error
        level: list[ast.AST] = [root]
        for _ in range(DEEPEST):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            raise self.fault(root, f"nested more than {DEEPEST} levels")
        return root

    def _nodes(self) -> Iterator[ast.AST]:
        """Nodes in reading order, without names of functions."""
        called = {id(node.func) for node in ast.walk(self._root) if isinstance(node, ast.Call)}
        named = (node for node in ast.walk(self._root) if id(node) not in called)
        return iter(sorted(named, key=lambda node: getattr(node, "col_offset", 0)))

    def _check_quantity(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            return
        if isinstance(node, ast.Name):
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            self._check_quantity(node.left)
            self._check_quantity(node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self._check_quantity(node.operand)
        elif isinstance(node, ast.Call) and self._is_function(node):
            for argument in node.args:
                self._check_quantity(argument)
        else:
            raise self.fault(
                node, f"{ast.unparse(node)} is neither a fact, a literal, nor + - * / min max of such"
            )

    @staticmethod
    def _is_function(node: ast.Call) -> bool:
        named = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        return named and bool(node.args) and not node.keywords

    def _quantity(self, node: ast.expr, index: FactIndex, subject: str) -> Value | None:
        """Value of a quantity; None when a fact in it is missing or it divides by zero."""
        if isinstance(node, ast.Constant):
            constant: Value = node.value  # type: ignore[assignment]  # _check_quantity let no other type in
            return constant
        if isinstance(node, ast.Name):
            fact = index.find(node.id, subject)
            return None if fact is None else fact.value
        if isinstance(node, ast.BinOp):
            left, right = (self._number(item, index, subject) for item in (node.left, node.right))
            return None if left is None or right is None else _calculate(node.op, left, right)
        if isinstance(node, ast.UnaryOp):
            value = self._number(node.operand, index, subject)
            return None if value is None else -value
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        values = [self._number(item, index, subject) for item in node.args]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        return min(known) if node.func.id == "min" else max(known)

    def _number(self, node: ast.expr, index: FactIndex, subject: str) -> float | int | None:
        value = self._quantity(node, index, subject)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        raise self.fault(node, f"{ast.unparse(node)} is {value!r}, not a number")


class Quantity(Expression):
    """A number over facts, such as the weight of a bottleneck."""

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text, where)
        self._check_quantity(self._root)

    def value(self, index: FactIndex, subject: str = "") -> float | None:
        """The number, or None if it cannot be known.

        Raises:
            SkillError: a fact in it is not a number.
        """
        return self._number(self._root, index, subject)


class Condition(Expression):
    """A condition over facts."""

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text, where)
        self._check_condition(self._root)

    def ask(self, index: FactIndex, subject: str = "") -> Answer:
        """True, False or unknown for one subject, with what decided.

        Raises:
            SkillError: the condition compares a fact with a value of another type.
        """
        return self._ask(self._root, False, index, subject)

    def flags(self) -> frozenset[str]:
        """Facts that are read as true or false."""
        conditions = [node for node in ast.walk(self._root) if isinstance(node, ast.BoolOp | ast.UnaryOp)]
        inside = [child for node in conditions for child in ast.iter_child_nodes(node)]
        return frozenset(node.id for node in (self._root, *inside) if isinstance(node, ast.Name))

    def constants(self) -> dict[str, tuple[Value, ...]]:
        """Per fact, the literals of the comparisons that read it."""
        found: dict[str, list[Value]] = {name: [] for name in self.names}
        for node in ast.walk(self._root):
            if isinstance(node, ast.Compare):
                inside = list(ast.walk(node))
                literals = [item.value for item in inside if isinstance(item, ast.Constant)]
                for item in inside:
                    if isinstance(item, ast.Name) and item.id in found:
                        found[item.id] += literals  # type: ignore[arg-type]  # only checked literals
        return {name: tuple(dict.fromkeys(values)) for name, values in found.items()}

    def _check_condition(self, node: ast.expr) -> None:
        if isinstance(node, ast.BoolOp):
            for item in node.values:
                self._check_condition(item)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._check_condition(node.operand)
        elif isinstance(node, ast.Compare):
            self._check_comparison(node)
        elif not isinstance(node, ast.Name):
            raise self.fault(node, f"{ast.unparse(node)} is not a condition")

    def _check_comparison(self, node: ast.Compare) -> None:
        self._check_quantity(node.left)
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if type(operator) not in _COMPARISONS:
                raise self.fault(right, "only == != < <= > >= in and not in compare")
            if not isinstance(operator, ast.In | ast.NotIn):
                self._check_quantity(right)
            elif len(node.ops) > 1:
                raise self.fault(node, "`in` cannot be part of a chain")
            elif not (
                isinstance(right, ast.Tuple | ast.List | ast.Set)
                and right.elts
                and all(isinstance(item, ast.Constant) for item in right.elts)
            ):
                raise self.fault(right, "the right side of `in` must be a list of literals")
            else:
                for item in right.elts:
                    self._check_quantity(item)

    def _ask(self, node: ast.expr, negated: bool, index: FactIndex, subject: str) -> Answer:
        if isinstance(node, ast.UnaryOp):
            return self._ask(node.operand, not negated, index, subject)
        if isinstance(node, ast.BoolOp):
            answers = [self._ask(item, negated, index, subject) for item in node.values]
            # De Morgan: a negated `and` is an `or` of negated parts.
            return _joined(answers, deciding=isinstance(node.op, ast.And) == negated)
        value = self._truth(node, index, subject)
        names = dict.fromkeys(item.id for item in ast.walk(node) if isinstance(item, ast.Name))
        known = {name: index.find(name, subject) for name in names if name not in _FUNCTIONS}
        text = ast.unparse(node)
        part = Part(
            text=f"not {text}"
            if negated and isinstance(node, ast.Name)
            else f"not ({text})"
            if negated
            else text,
            facts=tuple(fact for fact in known.values() if fact is not None),
            missing=tuple(name for name, fact in known.items() if fact is None),
        )
        return Answer(value if value is None else value is not negated, (part,))

    def _truth(self, node: ast.expr, index: FactIndex, subject: str) -> bool | None:
        if isinstance(node, ast.Name):
            value = self._quantity(node, index, subject)
            if value is None or isinstance(value, bool):
                return value
            raise self.fault(node, f"{node.id} is {value!r}, not true or false; compare it with something")
        assert isinstance(node, ast.Compare)
        sides = [node.left, *node.comparators]
        links = [
            self._link(operator, left, right, index, subject)
            for operator, (left, right) in zip(node.ops, pairwise(sides), strict=True)
        ]
        return False if False in links else None if None in links else True

    def _link(
        self, operator: ast.cmpop, left: ast.expr, right: ast.expr, index: FactIndex, subject: str
    ) -> bool | None:
        value = self._quantity(left, index, subject)
        if value is None:
            return None
        if isinstance(operator, ast.In | ast.NotIn):
            assert isinstance(right, ast.Tuple | ast.List | ast.Set)
            found = any(
                self._compare(ast.Eq(), value, self._quantity(item, index, subject), item)
                for item in right.elts
            )
            return found == isinstance(operator, ast.In)
        return self._compare(operator, value, self._quantity(right, index, subject), right)

    def _compare(self, operator: ast.cmpop, left: Value, right: Value | None, node: ast.expr) -> bool | None:
        if right is None:
            return None
        if _sort(left) != _sort(right) or (
            _sort(left) == "truth" and not isinstance(operator, ast.Eq | ast.NotEq)
        ):
            raise self.fault(
                node, f"{left!r} cannot be compared with {right!r} by {_COMPARISONS[type(operator)]}"
            )
        if isinstance(operator, ast.Eq):
            return left == right
        if isinstance(operator, ast.NotEq):
            return left != right
        # Equal sorts were checked above, which the type checker cannot follow.
        if isinstance(operator, ast.Lt | ast.GtE):
            return (left < right) == isinstance(operator, ast.Lt)  # type: ignore[operator]
        return (left > right) == isinstance(operator, ast.Gt)  # type: ignore[operator]


def _joined(answers: Sequence[Answer], *, deciding: bool) -> Answer:
    """Kleene's `or` (deciding = True) or `and` (deciding = False) of answers."""
    values = [answer.value for answer in answers]
    result = deciding if deciding in values else None if None in values else not deciding
    parts = tuple(part for answer in answers if answer.value is result for part in answer.parts)
    return Answer(result, parts)


def _calculate(operator: ast.operator, left: float, right: float) -> float | None:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    return left / right if right else None


def _sort(value: Value) -> str:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"
