"""Seeds of each posterior's own, from the seed, the content of its releases and its position in the
call.
"""

import secrets
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from noisewise.artifact import Release

DRAWS, SAMPLER = 0, 1
"""Purposes of a posterior's seeds: its draws, and the method's own sampling."""


class Streams:
    """One seed serves any number of releases, also in separate calls, and their draws are
    independent: twins with equal numbers get different ones.
    """

    def __init__(
        self,
        seed: int | None,
        releases: Sequence[Sequence[Release]],
        positions: Sequence[int] | None = None,
    ) -> None:
        self.entropy = secrets.randbits(128) if seed is None else seed
        self.releases = releases
        self.positions = range(len(releases)) if positions is None else positions

    def at(self, positions: Sequence[int]) -> "Streams":
        """Those of some of the releases."""
        return Streams(self.entropy, self.releases, positions)

    def of(self, group: int, purpose: int = DRAWS) -> np.random.SeedSequence:
        """The seeds of one posterior; `purpose` tells a sampler's from those of the draws."""
        position = self.positions[group]
        content = sha256(repr([_content(one) for one in self.releases[position]]).encode()).digest()
        words = [int.from_bytes(content[k : k + 4], "little") for k in range(0, 32, 4)]
        return np.random.SeedSequence([self.entropy, position, purpose, *words])

    def sampler(self, group: int) -> np.random.Generator:
        """The generator of a method that samples one posterior."""
        return np.random.default_rng(self.of(group, SAMPLER))


def _content(release: Release) -> tuple[object, ...]:
    spend = None if release.privacy is None else release.privacy.spend
    known = (
        release.n,
        release.count,
        release.statistic,
        release.noise,
        release.bounds,
        release.coordinates,
    )
    return (
        release.family.describe(),
        *known,
        release.dataset,
        release.column,
        release.group,
        spend,
    )
