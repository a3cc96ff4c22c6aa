"""Keys stay out of every file: whatever looks like one in the environment is blotted out of what is written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

SECRET = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)
SHORTEST = 8
"""A shorter value is no key, and may be a word of the text."""


def blotted(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text with the values of secret variables replaced by their names."""
    found = {
        value: name for name, value in environment.items() if SECRET.search(name) and len(value) >= SHORTEST
    }
    for value in sorted(found, key=len, reverse=True):
        text = text.replace(value, f"[{found[value]}]")
    return text
