"""Whether a histogram is one of the column, the bounds and the records of another release."""

import math

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.model.bounded_statistic import interval
from noisewise.model.columns import Cut
from noisewise.model.families.table import Table

CLOSE = 1e-9
"""An edge is at a bound if it is as near, in widths of the bounds."""


def histogram_of(release: Release, histogram: Release) -> Cut:
    """The histogram's column; refused, with what to do, if it cannot check the release."""
    for one in (release, histogram):
        if not isinstance(one, Release):
            raise UnsupportedCombination(
                f"a check needs two noisewise releases, got {type(one).__name__}; load() reads one."
            )
    _check_release(release, histogram)
    cut = _column(release, histogram)
    _check_edges(release, cut)
    _check_records(release, histogram)
    return cut


def _check_release(release: Release, histogram: Release) -> None:
    family = release.family
    if family.statistic_kind == "sums":
        return
    if isinstance(family, Table) and histogram.family.statistic_kind == "sums":
        raise UnsupportedCombination(
            "the histogram comes second: check(release, histogram, prior); swap the two."
        )
    if family.statistic_kind == "counts":
        raise UnsupportedCombination(
            f"the {family.kind} family lets its categories have any shares, which no histogram can "
            "contradict; check releases of families such as exponential or normal."
        )
    raise UnsupportedCombination(
        "moments of columns assume no shape that a histogram could contradict; check releases of "
        "one column and a family, such as exponential or normal."
    )


def _column(release: Release, histogram: Release) -> Cut:
    if not isinstance(histogram.family, Table):
        raise UnsupportedCombination(
            f"the second release is of the {histogram.family.kind} family and no histogram; "
            f"{_way(release)}."
        )
    parts = histogram.family.parts
    if len(parts) > 1:
        names = ", ".join(one.name for one in parts)
        raise UnsupportedCombination(
            f"the second release is a table of several columns ({names}); {_way(release)}."
        )
    (cut,) = parts
    if not isinstance(cut, Cut):
        raise UnsupportedCombination(
            f"the table counts the levels of {cut.name!r} and has no bins; {_way(release)}."
        )
    if release.column is not None and release.column != cut.name:
        raise UnsupportedCombination(
            f"the release is of column {release.column!r}, the histogram of {cut.name!r}; "
            f"{_way(release)}."
        )
    return cut


def _way(release: Release) -> str:
    """How such a histogram is released."""
    low, high = interval(release.family, release.bounds)
    middle = low + (high - low) / 2
    name = release.column or "COLUMN"
    return (
        f"release one of the same records with --table {name}:{low:g}:{middle:g}:{high:g} (and "
        "more edges between)"
    )


def _check_edges(release: Release, cut: Cut) -> None:
    """The bins hold what lies within the bounds: neither more, nor in other units."""
    low, high = interval(release.family, release.bounds)
    first, last = cut.bins.edges[0], cut.bins.edges[-1]
    if release.family.integer:
        fits = math.ceil(first) == low and math.floor(last) == high
    else:
        slack = CLOSE * (high - low)
        fits = abs(first - low) <= slack and abs(last - high) <= slack
    if not fits:
        raise UnsupportedCombination(
            f"the bins run from {first:g} to {last:g}, the release's bounds from {low:g} to "
            f"{high:g}; {_way(release)}."
        )


def _check_records(release: Release, histogram: Release) -> None:
    """What is stated of whose records they are must agree; what is not is taken for the same."""
    told = {
        "dataset": (release.dataset, histogram.dataset),
        "group": (release.group, histogram.group),
    }
    for what, (one, other) in told.items():
        if one != other and (what == "group" or None not in (one, other)):
            raise UnsupportedCombination(
                f"the two releases are of different records: {what} {_said(one)} and "
                f"{_said(other)}. A check needs two releases of the same records."
            )


def _said(what: object) -> str:
    return "none" if what is None else " ".join(what) if isinstance(what, tuple) else repr(what)
