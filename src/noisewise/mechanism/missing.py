"""The value that a missing record stands for."""

import math
import re
from collections.abc import Sequence
from numbers import Real
from typing import Literal

from noisewise.errors import UnsupportedCombination
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family

DROP: Literal["drop"] = "drop"
"""In place of a value: a record without one is no record, and how many have one is released."""
Missing = float | bool | Literal["drop"] | None
"""What a missing record stands for; None for what the family takes without a word."""
DROPPED = "Missing records are no records; the count is of those that have a value."
"""What becomes of missing records that are dropped, for whoever reads the release."""
DROPPED_LABELS = "Records that are missing or unlisted are no records."
"""The same of records with labels."""
_COUNTS_AS = re.compile(r"Missing records are treated as records with the value (\S+)\.")
"""The note of a release in which a missing record counts as a number."""


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


def said_of_missing(notes: Sequence[str], family: Family, bounds: Bounds | None) -> str | None:
    """From a release's notes what a missing record counts as, in the column's units: a clause. None
    where the notes do not say; a note from a file may hold what steers a terminal.
    """
    told = (one for one in notes if "missing" in one.lower() and one.isprintable())
    note = next(told, None)
    if note is None:
        return None
    value = _COUNTS_AS.fullmatch(note)
    if value is None:
        return note[0].lower() + note[1:].rstrip(".")
    return f"records without a value count as {value[1]}{_which(value[1], family, bounds)}"


def _which(value: str, family: Family, bounds: Bounds | None) -> str:
    """Whether that is the value halfway between the bounds."""
    usual = None if bounds is None else substitute_for(family, bounds, None)
    if bounds is None or usual is None or value != f"{usual:g}":
        return ""
    middle = family.middle_of(bounds)
    if middle != bounds.middle:
        return ", the middle of the bounds on the family's own scale"
    rounded = ", rounded down" if family.integer and middle != math.floor(middle) else ""
    return f", the middle of the bounds{rounded}"
