"""What tokens cost, dated: the user's file first, then the table that comes with pydantic-ai (genai-prices).

A price that is not known is None, never 0; under a limit in dollars such a model is refused before the first call.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import Field, ValidationError

from kernelskill.errors import ConfigError
from kernelskill.llm.spec import COMMAND, ModelSpec
from kernelskill.records import Record
from kernelskill.records.model import Usage

MILLION = 1e6


class Price(Protocol):
    """Of one model."""

    @property
    def source(self) -> str:
        """Where it is from, with its date."""
        ...

    def usd(self, usage: Usage) -> float:
        """Dollars that those tokens cost."""
        ...


class FixedPrice(Record):
    """A line of a price file: dollars per million tokens, and since when."""

    input_usd: float = Field(ge=0)
    output_usd: float = Field(ge=0)
    cached_usd: float | None = Field(default=None, ge=0)
    """Of input that the server's cache held; None = as other input."""
    as_of: str
    """ISO date."""
    source: str = ""

    def usd(self, usage: Usage) -> float:
        """Dollars that those tokens cost."""
        cached = self.input_usd if self.cached_usd is None else self.cached_usd
        fresh = usage.input_tokens - usage.cached_tokens
        total = fresh * self.input_usd + usage.cached_tokens * cached + usage.output_tokens * self.output_usd
        return total / MILLION


@dataclass(frozen=True)
class ListedPrice:
    """The price in the table of genai-prices, which knows steps by prompt size."""

    spec: ModelSpec
    source: str

    def usd(self, usage: Usage) -> float:
        """Dollars that those tokens cost.

        Raises:
            LookupError: the table does not know the model.
        """
        import genai_prices

        counted = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
        )
        provider = "aws" if self.spec.provider == "bedrock" else self.spec.provider
        return float(genai_prices.calc_price(counted, self.spec.name, provider_id=provider).total_price)


class PriceTable:
    """Prices by model.

    Args:
        file: TOML, one table a model: `["anthropic:NAME"]` with `input_usd` and `output_usd` (per million tokens) and
            `as_of`.

    Raises:
        ConfigError: the file cannot be read.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._own: dict[str, FixedPrice] = {}
        if file is None:
            return
        try:
            for name, line in tomllib.loads(file.read_text(encoding="utf-8")).items():
                price = FixedPrice.model_validate(line)
                source = price.source or f"{file.name}, {price.as_of}"
                self._own[name] = price.model_copy(update={"source": source})
        except OSError as error:
            raise ConfigError(f"price file {file} cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, ValidationError) as error:
            raise ConfigError(f"price file {file}: {' '.join(str(error).split())}") from error

    def find(self, spec: ModelSpec) -> Price | None:
        """The price of a model; None where none is known, as for programs and servers of one's own."""
        if spec.text in self._own:
            return self._own[spec.text]
        if spec.provider == COMMAND or spec.is_compatible:
            return None
        return _listed(spec)


def _listed(spec: ModelSpec) -> Price | None:
    try:
        version = importlib.metadata.version("genai-prices")
    except importlib.metadata.PackageNotFoundError:
        return None
    price = ListedPrice(spec, f"genai-prices {version}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            price.usd(Usage(input_tokens=1, output_tokens=1))
    except (LookupError, ValueError):
        return None
    return price
