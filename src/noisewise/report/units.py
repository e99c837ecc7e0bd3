"""What columns are counted in, as a person says it: `minutes`, or `bp=mmHg age=years`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

IN_UNITS = ("mean", "median", "sd")
"""Quantities of one column that are counted as the column is."""
_OF_COLUMN = re.compile(r"(mean|sd)\[(.*)\]", re.DOTALL)
"""A quantity of one of several columns."""


@final
@dataclass(frozen=True, slots=True)
class Units:
    """Of every column, or of each by name; "" where nobody says."""

    every: str = ""
    named: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Sequence[str]) -> "Units":
        """From a person's words."""
        named = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        return cls(" ".join(plain), named)

    def column(self, name: str | None) -> str:
        """Of a column."""
        return self.named.get(name or "", self.every)

    def quantity(self, title: str, column: str | None, family: str) -> str:
        """Of a number in a summary, by its title there."""
        found = _OF_COLUMN.fullmatch(title)
        if found is not None:
            return self.column(found.group(2))
        if title in IN_UNITS or (title, family) == ("rate", "poisson"):
            return self.column(column)
        unit = self.column(column)
        return (
            f"per {unit.removesuffix('s')}"
            if unit and (title, family) == ("rate", "exponential")
            else ""
        )


def rounded(prior: object) -> str:
    """A prior as text, its long numbers cut to four digits."""
    return re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found.group()):.4g}", str(prior))


def with_unit(text: str, unit: str) -> str:
    """13.9 minutes."""
    return f"{text} {unit}" if unit else text


def figure_text(value: float | None, digits: int = 4) -> str:
    """Some digits, without an exponent where that can be."""
    if value is None:
        return "none"
    text = f"{value:.{digits}g}"
    if "e" in text and 1e-10 < abs(value) < 1e12:
        text = f"{float(text):.13f}".rstrip("0").rstrip(".")
    if len(text.lstrip("-")) > 5 and text.lstrip("-").isdigit():
        text = f"{int(text):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return text.replace("-", "\N{MINUS SIGN}")
