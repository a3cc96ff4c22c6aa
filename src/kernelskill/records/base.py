"""What every record shares: frozen, strict, and written as strict JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

Scalar = bool | int | float | str | None
Json = Any
"""A JSON value. Pydantic has no recursive alias that stays readable in errors."""


class Record(BaseModel):
    """A frozen noun of the field. Unknown fields are refused; NaN and infinity never reach a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
