"""What columns are counted in, as a person says it: `minutes`, or `bp=mmHg age=years`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.model.columns import Number
from noisewise.model.families.moments import Moments
from noisewise.model.families.table import Table

IN_UNITS = ("mean", "median", "sd")
"""Quantities of one column that are counted as the column is."""
_OF_COLUMN = re.compile(r"(mean|sd)\[(.*)\]", re.DOTALL)
"""A quantity of one of several columns."""
_BEFORE_A_NAME = re.compile(r"\s+(?=[^\s=]+=)")
"""Between the units of two columns."""


@final
@dataclass(frozen=True, slots=True)
class Units:
    """Of every column, or of each by name; "" where nobody says."""

    every: str = ""
    named: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Sequence[str], whose: str | None = None) -> "Units":
        """From a person's words. A unit without a name is that of `whose` alone, if given."""
        pieces = [piece for word in words for piece in _BEFORE_A_NAME.split(word.strip())]
        named = dict(piece.split("=", 1) for piece in pieces if "=" in piece)
        plain = " ".join(piece for piece in pieces if "=" not in piece)
        return cls(plain, named) if whose is None or not plain else cls("", {whose: plain} | named)

    @classmethod
    def asked(cls, words: Sequence[str], release: Release, outcome: str | None = None) -> "Units":
        """The same for a release, or the regression of an outcome from it; what belongs to no
        column, or to any of several, is refused with what to type.
        """
        units = cls.of(words, outcome)
        family = release.family
        if not isinstance(family, Moments | Table):
            return units
        columns = [one.name for one in family.parts]
        strange = [name for name in units.named if name not in columns]
        if strange:
            raise UnsupportedCombination(
                f"--unit names {strange[0]!r}, which is no column of the release; it has: "
                f"{', '.join(columns)}."
            )
        numbers = [one.name for one in family.parts if isinstance(one, Number)]
        if units.every and len(numbers) > 1:
            raise UnsupportedCombination(
                f"--unit {units.every}: of which column? Say it of each, such as "
                f"{numbers[0]}={units.every}."
            )
        return units

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
