"""The value that a missing record stands for."""

import math
from numbers import Real
from typing import Literal

from noisewise.errors import UnsupportedCombination
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family

DROP: Literal["drop"] = "drop"
"""In place of a value: a record without one is no record, and how many have one is released."""
Missing = float | bool | Literal["drop"] | None
"""What a missing record stands for; None for what the family takes without a word."""


def missing_note(missing: float | None) -> str:
    """What becomes of a missing record, for whoever reads the release; None under redact."""
    if missing is None:
        return "Missing records contribute 0, like records outside the bounds."
    return f"Missing records are treated as records with the value {missing:g}."


def substitute_for(family: Family, bounds: Bounds, missing: float | bool | None) -> float | None:
    """The value within the bounds: the given one, or else the one halfway. None under redact."""
    if bounds.outside == "redact":
        if missing is not None:
            raise UnsupportedCombination(
                "under redact a missing record contributes 0; leave missing= out, say "
                "missing='drop', or use outside='clamp'."
            )
        return None
    if missing is not None and not isinstance(missing, Real):
        raise UnsupportedCombination(
            f"missing must be a number or 'drop', got {type(missing).__name__}."
        )
    value = family.middle_of(bounds) if missing is None else float(missing)
    if family.integer and missing is not None and value != math.floor(value):
        raise UnsupportedCombination(
            f"missing must be a whole number for the {family.kind} family, got {missing}."
        )
    if not bounds.lower <= value <= bounds.upper:  # NaN fails too
        raise UnsupportedCombination(
            f"missing must lie within the bounds, got {missing}; a missing record stands for that "
            "value."
        )
    return (
        float(min(max(math.floor(value), math.ceil(bounds.lower)), math.floor(bounds.upper)))
        if family.integer
        else value
    )
