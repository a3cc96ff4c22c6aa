"""Arithmetic that linearity saves: sums pulled through products, products of products regrouped, equal factors shared.

A product or convolution is linear in each operand, and so is much of what follows it. Whoever uses that may compute
less than the graph as written does, so a bound must not count what can be saved:

- what is only summed, averaged or pooled needs one product term per sum, not one per element
  (`(x W).sum(1) = x (W 1)`);
- a chain may be grouped another way, `(x A) B = x (A B)`: all sets of intermediate results to leave out are tried, and
  the cheapest counts. What the product of the weights costs is left out, so the bound errs downwards;
- of products that are added and share an operand only the largest counts (`x A + x B = x (A + B)`);
- rows that are copies of each other are computed once, and linear steps beside a product may sink into its weights.

Training-mode normalisation, activations and maxima end a linear path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import combinations

from kernelskill.floor.linear_steps import is_affine, is_contraction, linear_operands, takes_whole
from kernelskill.floor.masks import kept_share
from kernelskill.floor.ops import Work
from kernelskill.floor.traffic import Demand, distinct
from kernelskill.records import Node, Ref
from kernelskill.records.operators import family, function

MOST_TRIED = 10
"""Intermediate results of one linear chain that are left out in all combinations; for more, each is taken as free."""


_BATCHED = frozenset({"bmm", "baddbmm"})
_BIASED = frozenset({"addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"})
"""Products whose first operand is what they are added to."""


def regrouped(demand: Demand, works: Mapping[str, Work]) -> dict[str, Work]:
    """The arithmetic of each node under the cheapest grouping that linearity allows.

    Args:
        demand: of the graph.
        works: of its nodes as written.
    """
    return _Regrouping(demand, works).works()


class _Regrouping:
    """One graph; `terms` are multiply-adds per element of a product's result."""

    def __init__(self, demand: Demand, works: Mapping[str, Work]) -> None:
        self.demand = demand
        self.written = works
        self.nodes = [
            node for node in demand.graph.nodes if is_contraction(node) and works[node.name].flops > 0
        ]
        self.products = {node.name: node for node in self.nodes}

    def works(self) -> dict[str, Work]:
        found = dict(self.written)
        for node in self.demand.graph.nodes:
            if self._sinks(node) or kept_share(node, self.demand.nodes) is not None:
                found[node.name] = Work(0.0, self.written[node.name].transcendentals)
        for chain in self._chains():
            cheapest = min(
                (self._costs(chain, set(left_out)) for left_out in self._choices(chain)),
                key=lambda costs: sum(costs.values()),
            )
            for name, flops in cheapest.items():
                found[name] = Work(flops * self._copies(name), 0.0)
        for name in self._absorbed_by_sums(found):
            found[name] = Work()
        return found

    # Which values are linear images of which products.

    @cached_property
    def behind(self) -> dict[Ref, frozenset[str]]:
        """Products that a value is a linear image of, no other product in between."""
        found: dict[Ref, frozenset[str]] = {}
        for node in self.demand.graph.nodes:
            names: frozenset[str] = frozenset()
            if node.name in self.products:
                names = frozenset({node.name})
            else:
                for ref in linear_operands(node, self.demand.specs):
                    names |= found.get(ref, frozenset())
            for index in range(len(node.outputs)):
                found[Ref(node=node.name, output=index)] = names
        return found

    @cached_property
    def before(self) -> dict[str, frozenset[str]]:
        """Products whose linear images each product multiplies."""
        found = {}
        for node in self.nodes:
            names: frozenset[str] = frozenset()
            for ref in linear_operands(node, self.demand.specs):
                names |= self.behind.get(ref, frozenset())
            found[node.name] = names
        return found

    # How many numbers of a product's result are needed.

    @cached_property
    def for_others(self) -> dict[Ref, float]:
        """Numbers of each value that something other than a further product needs."""
        return self._needs(for_products=False)

    @cached_property
    def for_all(self) -> dict[Ref, float]:
        """Numbers of each value that are needed, where products multiply it as it is."""
        return self._needs(for_products=True)

    def _needs(self, *, for_products: bool) -> dict[Ref, float]:
        """Linear functions of each value that are needed: its elements, or fewer where they are only summed."""
        demand = self.demand
        needs: dict[Ref, float] = {}

        def need(ref: Ref) -> float:
            most = float(demand.elements(ref))
            if ref in demand.results:
                return most
            total = 0.0
            for user in demand.users[ref]:
                if takes_whole(user, ref, demand.specs):
                    total += most
                elif is_contraction(user):
                    total += most if for_products else 0.0
                else:
                    total += sum(
                        needs.get(Ref(node=user.name, output=index), 0.0)
                        for index in range(len(user.outputs))
                    )
            return min(most, total)

        for node in reversed(demand.graph.nodes):
            for index, out in enumerate(node.outputs):
                if out is not None:
                    ref = Ref(node=node.name, output=index)
                    needs[ref] = need(ref)
        return needs

    # Chains of products.

    def _chains(self) -> Iterator[list[str]]:
        """Products that are connected by linear paths, in the graph's order."""
        chain_of: dict[str, list[str]] = {}
        for node in self.nodes:
            joined = [node.name]
            for name in self.before[node.name]:
                if chain_of[name] is not joined:
                    joined = [*chain_of[name], *joined]
                    for member in joined:
                        chain_of[member] = joined
            for member in joined:
                chain_of[member] = joined
        seen: set[int] = set()
        for node in self.nodes:
            chain = chain_of[node.name]
            if id(chain) not in seen:
                seen.add(id(chain))
                members = set(chain)
                yield [name for name in self.products if name in members]

    def _choices(self, chain: list[str]) -> Iterator[tuple[str, ...]]:
        """Sets of products whose results are never made: only further products use them."""
        used = {name for member in chain for name in self.before[member]}
        free = [
            name
            for name in chain
            if name in used and self.for_others[Ref(node=name)] < self.demand.elements(Ref(node=name))
        ]
        if len(free) > MOST_TRIED:
            yield tuple(free)
            return
        for count in range(len(free) + 1):
            yield from combinations(free, count)

    def _costs(self, chain: list[str], left_out: set[str]) -> dict[str, float]:
        """Operations of each product if those left out are multiplied into what follows them."""
        terms: dict[str, float] = {}
        free = len(left_out) > MOST_TRIED
        costs = {}
        for name in chain:
            before = self.before[name]
            through = [terms[other] * self._groups_met(other, name) for other in before]
            direct = [self._terms(name)] if free or not before & left_out else []
            terms[name] = min([*direct, *through])
            numbers = self.for_others if name in left_out else self.for_all
            costs[name] = 2.0 * terms[name] * numbers[Ref(node=name)]
            if not direct:
                costs[name] += self._on_both_sides(name, left_out, terms[name])
        return costs

    def _on_both_sides(self, name: str, left_out: set[str], terms: float) -> float:
        """Operations of x M, if both operands of x M y' are linear images of products that are left out."""
        node = self.products[name]
        sides, out = _factors(node), node.outputs[0]
        if (
            len(sides) < 2
            or out is None
            or not all(self.behind.get(ref, frozenset()) & left_out for ref in sides)
        ):
            return 0.0
        fewer = out.numel / max(out.shape[-1], out.shape[-2]) if len(out.shape) > 1 else 0.0
        return 2.0 * fewer * terms**2

    def _groups_met(self, before: str, name: str) -> float:
        """Groups of a grouped convolution whose results meet in one result of the next convolution."""
        first, second = (_groups(self.products[item]) for item in (before, name))
        return max(1.0, first / second) if family(self.products[name].op) == "conv" else 1.0

    def _terms(self, name: str) -> float:
        elements = self.demand.elements(Ref(node=name))
        return self.written[name].flops / (2.0 * elements) if elements else 0.0

    # Copies, masks, sums of products, and linear steps beside products.

    def _copies(self, name: str) -> float:
        """Share of a product's terms that are neither copies of others nor known zeros."""
        node = self.products[name]
        out = node.outputs[0]
        batch = out.shape[0] if function(node.op) in _BATCHED and out is not None else 1
        share, masked, same = 1.0, 0, bool(batch)
        for ref in _factors(node):
            whole = self.demand.specs[ref].numel
            kept, is_masked = self._origin(ref)
            same = same and kept * batch <= whole
            # A matrix that all of a batch multiply is copied, yet each product with it is another.
            share *= min(1.0, kept * batch / max(whole, 1))
            masked += is_masked
        share /= batch if same and batch > 1 else 1
        # Two triangles meet in a sixth of the terms, not in a quarter.
        return share * (2 / 3 if masked > 1 else 1.0)

    def _origin(self, ref: Ref) -> tuple[float, bool]:
        """Elements that a value was copied from, known zeros left out, and whether there are such."""
        least, masked = float(distinct(self.demand.specs[ref])), False
        while (node := self.demand.nodes.get(ref.node)) is not None:
            if family(node.op) == "creation":
                return min(least, 1.0), masked
            share = kept_share(node, self.demand.nodes)
            if share is not None:
                inner = [arg for arg in node.args[1:3] if isinstance(arg, Ref)]
                sources = [float(distinct(self.demand.specs[item])) for item in inner]
                return min(least * share, max(1.0, sum(sources))), share < 1.0
            if family(node.op) not in {"view", "copy"} or not node.args or not isinstance(node.args[0], Ref):
                break
            ref = node.args[0]
            least = min(least, float(distinct(self.demand.specs[ref])))
        return least, masked

    def _absorbed_by_sums(self, works: Mapping[str, Work]) -> set[str]:
        """Products that are only added to a larger one with which they share an operand."""
        absorbed: set[str] = set()
        for node in self.demand.graph.nodes:
            if function(node.op) not in {"add", "sub"}:
                continue
            added = sorted(self._added(node), key=lambda name: -works[name].flops)
            for index, name in enumerate(added):
                larger = [other for other in added[:index] if other not in absorbed]
                if any(self._share_an_operand(name, other) for other in larger):
                    absorbed.add(name)
        return absorbed

    def _added(self, node: Node) -> set[str]:
        """Products that reach a sum by linear steps and nothing else."""
        found = set()
        for ref in linear_operands(node, self.demand.specs):
            for name in self.behind.get(ref, frozenset()):
                if self._reaches_only(Ref(node=name), node):
                    found.add(name)
        return found

    def _reaches_only(self, ref: Ref, end: Node) -> bool:
        while len(users := self.demand.users[ref]) == 1 and ref not in self.demand.results:
            user = users[0]
            if user.name == end.name:
                return True
            if is_contraction(user) or len(user.outputs) != 1 or takes_whole(user, ref, self.demand.specs):
                return False
            ref = Ref(node=user.name)
        return False

    def _share_an_operand(self, one: str, other: str) -> bool:
        alike = family(self.products[one].op) == family(self.products[other].op)
        return alike and bool(self._roots(one) & self._roots(other))

    def _roots(self, name: str) -> set[Ref]:
        """Values that a product multiplies, seen through views."""
        roots = set()
        for ref in _factors(self.products[name]):
            while (node := self.demand.nodes.get(ref.node)) is not None and family(node.op) == "view":
                if not isinstance(node.args[0], Ref):
                    break
                ref = node.args[0]
            roots.add(ref)
        return roots

    def _sinks(self, node: Node) -> bool:
        """Whether a linear step may be done on the weights of a product before or behind it, or on a sum behind it."""
        if node.name in self.products or not self.written[node.name].flops:
            return False
        operands = linear_operands(node, self.demand.specs)
        if any(self.behind.get(ref) for ref in operands):
            return True
        if not is_affine(node, self.demand.specs):
            return False
        out = Ref(node=node.name)
        users = self.demand.users[out]
        onward = all(not takes_whole(user, out, self.demand.specs) for user in users)
        return out not in self.demand.results and bool(users) and onward


def _factors(node: Node) -> tuple[Ref, ...]:
    """The two tensors that a product or convolution multiplies; its bias is neither."""
    refs = list(node.refs())
    return tuple(refs[1:3] if function(node.op) in _BIASED and len(refs) > 2 else refs[:2])


def _groups(node: Node) -> int:
    """Groups of a convolution; 1 for a product."""
    groups = node.args[8] if function(node.op) == "convolution" and len(node.args) > 8 else 1
    return groups if isinstance(groups, int) else 1
