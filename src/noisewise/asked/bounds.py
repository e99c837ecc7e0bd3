"""Bounds, a missing record's value and a guessed truth, as a person types them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noisewise.asked.numbers import number
from noisewise.errors import NoisewiseError

if TYPE_CHECKING:
    from noisewise.mechanism.missing import Missing
    from noisewise.model.bounds import Bounds

NO_OUTSIDE = (
    "bounds need --outside redact (records outside count 0) or --outside clamp (count as "
    "the bound)."
)
"""Said where bounds stand without a rule for what lies beyond them."""


def asked_bounds(limits: tuple[float, float] | None, outside: str | None) -> "Bounds | None":
    """The values that count, and what becomes of others."""
    from noisewise.model.bounds import Bounds

    if limits is None:
        if outside is not None:
            raise NoisewiseError("--outside goes with --bounds.")
        return None
    if outside is None:
        raise NoisewiseError(NO_OUTSIDE)
    return Bounds(*limits, outside=outside)  # type: ignore[arg-type]


def asked_missing(given: str | None) -> "Missing":
    """What a missing record stands for."""
    if given is None:
        return None
    return "drop" if given == "drop" else number(given, "--missing")


def asked_truth(words: Sequence[str]) -> dict[str, float]:
    """A guess: rate=0.07, or mean[age]=50 sd[age]=18."""
    found = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        if not equals or not name:
            raise NoisewiseError(f"--truth takes NAME=VALUE, such as rate=0.07; got {word!r}.")
        found[name] = number(value, f"--truth {name}")
    return found
