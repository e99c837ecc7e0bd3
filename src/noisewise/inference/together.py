"""Which releases may stand together: those of different records."""

from collections.abc import Sequence

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination


def check_spends(releases: Sequence[Release]) -> None:
    """Refuse a release that is given twice."""
    spends = [
        (one.privacy.spend, one.group)
        for one in releases
        if one.privacy is not None and one.privacy.spend is not None
    ]
    if len(set(spends)) < len(spends):
        raise UnsupportedCombination(
            "a release is given twice (one spend id stands in two of them); leave one out."
        )


def check_together(releases: Sequence[Release]) -> None:
    """Refuse releases that cannot be combined: of different families, or of the same records."""
    if any(one.family != releases[0].family for one in releases):
        kinds = ", ".join(sorted({one.family.kind for one in releases}))
        raise UnsupportedCombination(
            f"the releases are of different families ({kinds}); infer from each by itself."
        )
    for position, one in enumerate(releases):
        if one in releases[:position]:
            raise UnsupportedCombination(
                "a release is given twice; it would count twice. Leave one out."
            )
    known = [one for one in releases if one.dataset is not None]
    twice = next(
        (
            a.dataset
            for i, a in enumerate(known)
            for b in known[:i]
            if a.dataset == b.dataset and not disjoint(a, b)
        ),
        None,
    )
    if twice is not None:
        raise UnsupportedCombination(
            f"two releases are of one dataset, {twice!r}: the same records are no independent "
            "observations. Infer from one of them."
        )


def disjoint(a: Release, b: Release) -> bool:
    """Whether they are different groups of one table, which share no record."""
    return (
        a.group is not None
        and b.group is not None
        and a.group[0] == b.group[0]
        and a.group[1] != b.group[1]
    )


def assumptions(releases: Sequence[Release]) -> tuple[str, ...]:
    """What is taken for granted of releases that are combined."""
    if len(releases) > 1 and any(one.dataset is None for one in releases):
        return ("releases without a dataset are taken to be of different records",)
    return ()
