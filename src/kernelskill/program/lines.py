"""Text of C++ with indentation."""

from __future__ import annotations


class Lines:
    """Text with indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1

    def add(self, *lines: str) -> None:
        """Add lines at the current depth; pragmas keep it too."""
        self._lines.extend("  " * self._depth + line if line else "" for line in lines)

    def open(self, line: str) -> None:
        """Add a line that opens a block."""
        self.add(f"{line} {{" if line else "{")
        self._depth += 1

    def close(self, ending: str = "") -> None:
        """Close the block."""
        self._depth -= 1
        self.add("}" + ending)

    def text(self) -> str:
        """All lines."""
        return "\n".join(self._lines)
