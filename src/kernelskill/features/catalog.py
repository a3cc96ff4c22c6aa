"""Every fact that exists: its name, unit, origin, type, range and meaning. Gates may use these names and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernelskill.features import catalog_entries
from kernelskill.features.entry import FactEntry, Subject
from kernelskill.records import Fact, Scalar

CATALOG: dict[str, FactEntry] = {entry.name: entry for entry in catalog_entries.ENTRIES}
"""Name -> entry. A name has one meaning, but may be a fact of kernels and of operators alike."""

_TOLD_NAMES = """base_ms best_stock_ratio floor_ms footprint_bytes bandwidth_gb_per_s bytes flops transcendentals passes
    inner_length registers shared_bytes gathers is_training has_state_updates gpu_num_stages
    schedule_threads schedule_vector_bits schedule_unroll schedule_accumulators schedule_block
    schedule_split counted_us counted_launches dram_bytes issue_pct eligible_warps tensor_pct l1_hit_pct
    l2_hit_pct top_stall top_stall_pct expected_bound fill_ratio access_bits global_accesses async_copies
    matrix_instructions atomics barriers local_accesses special_functions issue_share_ratio
    conv_stride product_depth"""
TOLD = frozenset(_TOLD_NAMES.split())
"""Facts that people and models are told, and that no gate has to read."""


def fact(name: str, value: Scalar, subject: str = "") -> Fact:
    """A fact as the catalog declares it.

    Raises:
        KeyError: the catalog has no such name.
        ValueError: the value is outside the declared type or range.
    """
    entry = CATALOG[name]
    if value is not None:
        entry.check(value)
    return Fact(name=name, value=value, origin=entry.origin, unit=entry.unit, subject=subject)


def facts_of(values: Mapping[str, Scalar], subject: str = "") -> Iterator[Fact]:
    """The facts whose value is known."""
    for name, value in values.items():
        if value is not None:
            yield fact(name, value, subject)


def names(subject: Subject | None = None) -> tuple[str, ...]:
    """Names of all facts, or of those that a kind of subject may have."""
    return tuple(entry.name for entry in CATALOG.values() if subject is None or subject in entry.subjects)


def measured() -> tuple[str, ...]:
    """Names of the facts that come from a clock."""
    return tuple(entry.name for entry in CATALOG.values() if entry.origin == "measured")


def vocabularies() -> dict[str, Sequence[Scalar]]:
    """Name -> all values, of the facts that can only have some."""
    return {entry.name: entry.choices for entry in CATALOG.values() if entry.choices}


__all__ = ["CATALOG", "FactEntry", "fact", "facts_of", "measured", "names", "vocabularies"]
