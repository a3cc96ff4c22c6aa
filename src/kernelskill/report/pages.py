"""The templates of the pages: one environment, strict about names, with filters that print numbers as everywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from kernelskill.report import numbers


def template(name: str, **filters: Callable[..., Any]) -> Template:
    """A template of this room, e.g. "report.html.j2", with filters of its own beside those that all have."""
    environment = _environment().overlay()
    environment.filters = {**environment.filters, **filters}
    return environment.get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kernelskill.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ms=numbers.milliseconds,
        ratio=numbers.ratio,
        interval=numbers.interval,
        percent=numbers.percent,
        count=numbers.count,
        error=numbers.error,
        seconds=numbers.seconds,
        significant=lambda value: numbers.significant(value) if isinstance(value, float) else value,
    )
    return environment
