"""What `infer_many` returns: many posteriors, and their figures as one table."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.posterior import Posterior, Summary, existing
from noisewise.inference.solution import Batch
from noisewise.model.arrays import FloatArray


class Posteriors(Sequence[Posterior]):
    """Posteriors in the order of their releases."""

    def __init__(self, posteriors: Sequence[Posterior]) -> None:
        self._posteriors = posteriors

    @overload
    def __getitem__(self, index: int) -> Posterior: ...
    @overload
    def __getitem__(self, index: slice) -> "Posteriors": ...
    def __getitem__(self, index: int | slice) -> "Posterior | Posteriors":
        if isinstance(index, slice):
            return Posteriors(self._posteriors[index])
        return self._posteriors[index]

    def __len__(self) -> int:
        return len(self._posteriors)

    def __iter__(self) -> Iterator[Posterior]:
        return iter(self._posteriors)

    def cdf(self, name: str, x: float | Sequence[float] | FloatArray) -> FloatArray:
        """For each posterior the probability that the parameter is at most x, (groups,); x is one
        number for all, or one for each. Those that were found together are asked together.
        """
        at = np.broadcast_to(np.asarray(x, dtype=float), (len(self),))
        out = np.empty(len(self))
        for batch, members, places in self._batches():
            first = self._posteriors[members[0]]
            if batch is None:
                out[members] = first.cdf(name, at[members[0]])
                continue
            if name in first.names:
                marginal = batch.marginals()[first.names.index(name)]
            else:
                own = batch.marginal_of(first.derived_of(name))
                if own is None:
                    asked_alone = [self._posteriors[i].cdf(name, at[i]) for i in members]
                    out[members] = asked_alone
                    continue
                marginal = own
            asked = np.full(marginal.groups, at[members[0]])
            asked[places] = at[members]
            out[members] = marginal.cdf(asked)[places]
        return out

    def draw(self, size: int, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Fresh draws of every posterior, (groups, size) or (groups, size, k) for each parameter of
        one family.
        """
        drawn = [posterior.draw(size, rng) for posterior in self._posteriors]
        return {name: np.stack([one[name] for one in drawn]) for name in self._posteriors[0].names}

    def table(self) -> list[dict[str, Any]]:
        """One row for each number of each posterior: dataset, column, description, n, name, mean,
        sd, 5, 50 and 95 %, method. Of releases that were combined, what they share, and their n
        together.
        """
        figures = self._figures()
        rows: list[dict[str, Any]] = []
        for index, posterior in enumerate(self._posteriors):
            about = {"release": index} | _about(posterior.releases)
            held = figures.get(index) or [dict(row) for row in posterior.summary()]
            rows.extend(about | row | {"method": posterior.method} for row in held)
        return rows

    def _batches(self) -> list[tuple[Batch | None, list[int], list[int]]]:
        """Which posteriors were found together: the batch, their positions here, their places in
        it. Others stand alone.
        """
        out: dict[int, tuple[Batch | None, list[int], list[int]]] = {}
        for index, posterior in enumerate(self._posteriors):
            batch, place = posterior.solution.found_with() or (None, 0)
            key = -1 - index if batch is None else id(batch)
            _, members, places = out.setdefault(key, (batch, [], []))
            members.append(index)
            places.append(place)
        return list(out.values())

    def _figures(self) -> dict[int, list[dict[str, Any]]]:
        """Summaries of posteriors that were found together, computed together."""
        out: dict[int, list[dict[str, Any]]] = {}
        for batch, members, places in self._batches():
            columns, names = self._columns(batch, self._posteriors[members[0]])
            for index, place in zip(members, places, strict=True) if columns else ():
                rows = (
                    (name, map(existing, column[place]))
                    for name, column in zip(names, columns, strict=True)
                )
                out[index] = [
                    {"name": name} | dict(zip(Summary.COLUMNS, row, strict=True))
                    for name, row in rows
                ]
        return out

    def _columns(
        self, batch: Batch | None, first: Posterior
    ) -> tuple[list[list[list[float]]], tuple[str, ...]]:
        """The figures of each parameter and derived quantity of a batch, and their names; none
        where they are not computed together.
        """
        if batch is None:
            return [], ()
        extra = [batch.marginal_of(first.derived_of(name)) for name in first.derived]
        marginals = [one for one in (*batch.marginals(), *extra) if one is not None]
        names = (*first.names, *first.derived)
        if len(marginals) < len(names):
            return [], ()
        return [one.summary.tolist() for one in marginals], names


def _about(releases: Sequence[Release]) -> dict[str, Any]:
    """What the releases of one posterior have in common, None where they differ, and how many
    records they have, None where that is not public.
    """
    every = [
        {
            "dataset": one.dataset,
            "column": one.column,
            "group": None if one.group is None else one.group[1],
            "description": one.description,
        }
        for one in releases
    ]
    shared = {
        key: value if all(one[key] == value for one in every) else None
        for key, value in every[0].items()
    }
    sizes = [one.n for one in releases if one.n is not None]
    return shared | {"n": sum(sizes) if len(sizes) == len(releases) else None}
