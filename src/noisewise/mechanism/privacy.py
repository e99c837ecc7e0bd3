"""Privacy arithmetic: costs as exact decimals.

A cost is pure epsilon, or rho of zero-concentrated privacy (zCDP; Bun & Steinke 2016). Either adds
up over releases about the same people. An epsilon counts as rho = epsilon^2/2 (their Proposition
1.4); a rho is no pure epsilon at all.
"""

import math
import re
from dataclasses import dataclass
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
)
from functools import lru_cache
from numbers import Real
from typing import Literal, final

import numpy as np

DIGITS = 50
"""Of a cost that a person writes: far more than anybody needs, and few enough for exact sums."""
DIGITS_OF_TOTAL = 4 * DIGITS
"""Of a cost that we compute: a rho plus half the square of an epsilon, which together have more
digits than either. A sum that has more than this is refused.
"""
_LEAST, _MOST = Decimal("1e-100"), Decimal("1e100")
"""A cost lies between them, and so its square, and its reciprocal's, is a float."""
_FAULTS = [InvalidOperation, DivisionByZero, Overflow]
"""What never happens unnoticed, in any of our arithmetic."""
_EXACT = Context(
    prec=600,
    rounding=ROUND_HALF_EVEN,
    Emin=-999999,
    Emax=999999,
    capitals=1,
    clamp=0,
    traps=[*_FAULTS, Inexact],
)
"""Raises rather than rounds. Costs between 1e-100 and 1e100 of DIGITS digits, and their squares,
add up within 600 digits, however many they are.
"""
_ROUNDED = Context(
    prec=DIGITS,
    rounding=ROUND_HALF_EVEN,
    Emin=-999999,
    Emax=999999,
    capitals=1,
    clamp=0,
    traps=_FAULTS,
)
"""For what need not be exact. The caller's own decimal context has no say in either."""
NUMERAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")
"""A number as people write it. Python would also take 1_0, or digits of other scripts."""
Number = float | int | str | Decimal
"""How a person may give a cost."""
Currency = Literal["epsilon", "rho"]
"""What costs are counted in."""
Relation = Literal["replace_one", "add_remove", "move"]
"""Which tables are neighbours: one record is replaced by another, or is added or removed. Where
records are in groups whose sizes are not public, one may be replaced by one of another group: it
may move.
"""
NEIGHBOURS: tuple[Relation, ...] = ("replace_one", "add_remove")
"""The relations that a person may ask for; whether records move follows from the groups."""
MOST_RECORDS_PER_PERSON = 10**6
"""More records of one person would leave nothing but noise, and their square still fits."""


def exact_epsilon(value: Number, name: str = "epsilon", digits: int = DIGITS) -> Decimal:
    """epsilon as the decimal that a person wrote: 0.1 is one tenth, not the nearest binary
    fraction.
    """
    # not shown: it may be a column given by mistake
    if isinstance(value, bool) or not isinstance(value, (str, Real, Decimal)):
        raise ValueError(f"{name} must be a number, got {type(value).__name__}.")
    epsilon = _decimal(value, name)
    if not epsilon.is_finite() or not epsilon > 0:
        raise ValueError(
            f"{name} must be a positive number, got {value}; smaller is more private, and 0 would "
            "release nothing."
        )
    if not _LEAST < epsilon < _MOST or len(epsilon.as_tuple().digits) > digits:
        raise ValueError(
            f"{name} must lie between 1e-100 and 1e100 and have at most {digits} digits."
        )
    return epsilon


def is_zero(value: object, name: str) -> bool:
    """Whether a person wrote 0, in whatever way."""
    return (
        isinstance(value, (str, Real, Decimal))
        and not isinstance(value, bool)
        and not _decimal(value, name)
    )


def _decimal(value: str | Real | Decimal, name: str) -> Decimal:
    """The decimal that a person wrote."""
    if isinstance(value, Decimal):
        return value
    written = repr(float(value)) if isinstance(value, float) else str(value)
    try:
        if isinstance(value, str) and NUMERAL.fullmatch(value) is None:
            raise InvalidOperation
        return Decimal(written, _EXACT)
    except InvalidOperation:
        raise ValueError(
            f"{name} must be a number with a decimal point, such as 0.5; got {value!r}."
        ) from None


@final
@dataclass(frozen=True, slots=True)
class Cost:
    """What a release costs, or what a dataset may cost in all."""

    currency: Currency
    amount: Decimal

    def __str__(self) -> str:
        return f"{self.currency} = {text(self.amount)}"

    def counted_in(self, currency: str) -> Decimal:
        """The amount in another currency; ValueError where there is none."""
        if currency == self.currency:
            return self.amount
        if currency != "rho":
            raise ValueError("a cost in rho has no pure epsilon.")
        return half(_EXACT.multiply(self.amount, self.amount))


def pure(epsilon: Number) -> Cost:
    """A cost in epsilon."""
    return Cost("epsilon", exact_epsilon(epsilon))


def concentrated(rho: Number) -> Cost:
    """A cost in rho."""
    return Cost("rho", exact_epsilon(rho, "rho"))


def exact_delta(value: Number) -> Decimal:
    """delta, a probability strictly between 0 and 1."""
    delta = exact_epsilon(value, "delta")
    if not delta < 1:
        raise ValueError(
            f"delta must lie between 0 and 1, far below one over the number of people; got {value}."
        )
    return delta


@lru_cache
def implied_epsilon(rho: Decimal, delta: Decimal) -> float:
    """The epsilon that rho implies with delta (Canonne, Kamath & Steinke 2020, Proposition 12), to
    about five digits.

    It is the least over a > 1 of a rho + log(1/(a delta))/(a - 1) + log(1 - 1/a).
    """
    excess = np.logspace(-8, 60, 100_001)  # a - 1
    log_a = np.log1p(excess)
    least = (
        (1 + excess) * float(rho)
        + (-math.log(float(delta)) - log_a) / excess
        + np.log(excess)
        - log_a
    )
    return float(least.min())


def compose(*amounts: Decimal) -> Decimal:
    """The cost of several releases about the same people, all in one currency: their exact sum."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def half(amount: Decimal) -> Decimal:
    """Exactly half."""
    return _EXACT.divide(amount, Decimal(2))


def remaining(limit: Decimal, spent: Decimal) -> Decimal:
    """limit - spent, exactly."""
    return _EXACT.subtract(limit, spent)


def quotient(amount: Decimal | int, by: Decimal | int) -> float:
    """amount / by, rounded to the nearest float or its neighbour."""
    return float(_ROUNDED.divide(Decimal(amount), Decimal(by)))


def text(amount: Decimal) -> str:
    """The decimal in plain digits, without an exponent or trailing zeros."""
    plain = format(amount, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def within(found: float, cost: Decimal) -> bool:
    """Whether a float is at most the cost, exactly."""
    return Decimal.from_float(found) <= cost
