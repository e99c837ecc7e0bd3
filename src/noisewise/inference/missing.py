"""What the records without a value are to an answer."""

from collections.abc import Sequence

from noisewise.artifact import Release
from noisewise.mechanism.missing import said_of_missing


def said_of_missing_in(releases: Sequence[Release]) -> str | None:
    """A clause for each release that differs in that; None where nothing is known of them."""
    said = [said_of_missing(one.notes, one.family, one.bounds) for one in releases]
    return "; ".join(dict.fromkeys(one for one in said if one is not None)) or None
