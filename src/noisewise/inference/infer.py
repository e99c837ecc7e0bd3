"""`infer` and `infer_many`: choose the method, run it, and wrap what comes out."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, overload

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference import (
    baselines,
    convolution,
    counts,
    effort,
    gibbs,
    line,
    modes,
    modes_of_two,
    sheet,
)
from noisewise.inference.evidence import Evidence, gather, likeness
from noisewise.inference.posterior import QUANTILES, Posterior, View, existing
from noisewise.inference.problem import Problem, check_n_prior, check_prior
from noisewise.inference.views import (
    CountsView,
    DrawsView,
    LineBatch,
    LineView,
    NoView,
    SheetBatch,
    SheetView,
    SummedView,
)
from noisewise.inference.weak import prior_for
from noisewise.model.arrays import IntArray
from noisewise.model.families.categorical import Categorical
from noisewise.model.priors import Prior

METHODS = ("auto", "exact", "collapsed", "gibbs", "naive")
BATCH = 512
"""Groups of one parameter that are solved together."""
SHEETS = 16
"""Groups of two parameters that are solved together."""
FIRST_POINTS = 49
FIRST_POINTS_OF_TWO = 31
GIBBS_STEPS = 5000
NUMERICAL = (ValueError, IndexError, ArithmeticError, np.linalg.LinAlgError, MemoryError)
"""What NumPy raises where numbers are out of its reach."""
Progress = Callable[[float], None]


def infer(
    release: Release | Sequence[Release],
    prior: Prior | str,
    *,
    method: str = "auto",
    draws: int = 4000,
    seed: int | None = None,
    variant: str = "joint",
    chains: int = 8,
    n_prior: Prior | str | None = None,
    progress: Progress | None = None,
) -> Posterior:
    """The posterior of the family's parameters given one release, or several releases of different
    records.

    `draws` sets how many draws `posterior.draws` returns; means, sds and quantiles come from the
    density itself (for gibbs from its chains, of draws / chains steps each, at least 5000).
    `variant` and `chains` are for gibbs. `n_prior` is for releases whose n is not public: a prior
    of it, such as priors.Gamma(100, 0.1); None is a flat one. Either prior may be the text of the
    command line: "weak", or such as "gamma(shape=2, rate=20)".
    """
    releases = [release] if isinstance(release, Release) else list(release)
    _check_request(releases, method, draws)
    _check_together(releases)
    own = prior_for(releases[0], prior)
    check_prior(releases[0].family, own)
    of_n = check_n_prior(releases, n_prior)
    problem = Problem(releases[0].family, (own,), tuple(gather([one], of_n) for one in releases))
    streams = _Streams(seed, [releases])
    solver = _Solver(
        problem, method, variant, chains, draws, streams, progress, _assumptions(releases)
    )
    ((name, view),) = solver.solve()
    if isinstance(view, NoView):
        raise UnsupportedCombination(
            f"no method gives a posterior here: {view.why}. Check n, the "
            "bounds, the noise and the prior."
        )
    return Posterior(problem.family, view, name, draws, lambda: streams.of(0), solver.why.get(0))


def infer_many(
    releases: Sequence[Release],
    prior: Prior | str | Sequence[Prior | str],
    *,
    method: str = "auto",
    draws: int = 4000,
    seed: int | None = None,
    n_prior: Prior | str | None = None,
    progress: Progress | None = None,
) -> "Posteriors":
    """One posterior for each release, all in one batch where they are alike in family, bounds and
    kind of noise.

    The releases speak of different groups with parameters of their own; for several releases about
    one parameter use `infer`.
    """
    releases = list(releases)
    _check_request(releases, method, draws)
    priors = _priors(releases, prior)
    for one, own in zip(
        releases, priors if len(priors) > 1 else priors * len(releases), strict=True
    ):
        if len(priors) > 1 or one.family != releases[0].family or one is releases[0]:
            check_prior(one.family, own)
    of_n = check_n_prior(releases, n_prior)
    alike: dict[Any, list[int]] = {}
    for position, one in enumerate(releases):
        alike.setdefault(likeness(one), []).append(position)
    out: list[Posterior | None] = [None] * len(releases)
    streams = _Streams(seed, [[one] for one in releases])
    refusals: list[UnsupportedCombination] = []
    done = 0
    for members in alike.values():
        family = releases[members[0]].family
        size = BATCH if len(family.parameters) == 1 else SHEETS
        for start in range(0, len(members), size):
            chosen = members[start : start + size]
            own_priors = (priors[0],) if len(priors) == 1 else tuple(priors[i] for i in chosen)
            problem = Problem(family, own_priors, (gather([releases[i] for i in chosen], of_n),))
            solver = _Solver(problem, method, "joint", 8, draws, streams.at(chosen), None, ())
            try:
                solved = solver.solve()
            except UnsupportedCombination as refusal:
                refusals.append(refusal)
                solved = [("none", NoView(family, str(refusal).rstrip(".")))] * len(chosen)
            for g, (i, (name, view)) in enumerate(zip(chosen, solved, strict=True)):
                out[i] = Posterior(
                    family, view, name, draws, partial(streams.of, i), solver.why.get(g)
                )
            done += len(chosen)
            if progress is not None:
                progress(done / len(releases))
    found = [p for p in out if p is not None]
    # what is asked for cannot be had of any
    if refusals and all(p.method == "none" for p in found):
        raise refusals[0]
    return Posteriors(found, releases)


def _priors(
    releases: Sequence[Release], prior: "Prior | str | Sequence[Prior | str]"
) -> list[Prior]:
    """One prior for all releases, or one for each; a weak one may differ from release
    to release.
    """
    if isinstance(prior, (Prior, str)):
        if not (isinstance(prior, str) and prior.strip() == "weak"):
            return [prior_for(releases[0], prior)]
        found = [prior_for(one, prior) for one in releases]
        return found if any(one != found[0] for one in found) else found[:1]
    given = list(prior)
    if len(given) not in (1, len(releases)):
        raise UnsupportedCombination(
            f"{len(given)} priors for {len(releases)} releases; give one for all, or one for each."
        )
    return [prior_for(one, own) for one, own in zip(releases, given, strict=False)]


class _Streams:
    """Seeds of each posterior's own, from the seed, the content of its releases and its position in
    the call.

    So one seed serves any number of releases, also in separate calls, and their draws are
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

    def at(self, positions: Sequence[int]) -> "_Streams":
        """Those of some of the releases."""
        return _Streams(self.entropy, self.releases, positions)

    def of(self, group: int, purpose: int = 0) -> np.random.SeedSequence:
        """The seeds of one posterior; `purpose` tells a sampler's from those of the draws."""
        position = self.positions[group]
        content = sha256(repr([_content(one) for one in self.releases[position]]).encode()).digest()
        words = [int.from_bytes(content[k : k + 4], "little") for k in range(0, 32, 4)]
        return np.random.SeedSequence([self.entropy, position, purpose, *words])


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


class Posteriors(Sequence[Posterior]):
    """Posteriors in the order of their releases."""

    def __init__(self, posteriors: Sequence[Posterior], releases: Sequence[Release]) -> None:
        self._posteriors, self._releases = posteriors, releases

    @overload
    def __getitem__(self, index: int) -> Posterior: ...
    @overload
    def __getitem__(self, index: slice) -> "Posteriors": ...
    def __getitem__(self, index: int | slice) -> "Posterior | Posteriors":
        if isinstance(index, slice):
            return Posteriors(self._posteriors[index], self._releases[index])
        return self._posteriors[index]

    def __len__(self) -> int:
        return len(self._posteriors)

    def __iter__(self) -> Iterator[Posterior]:
        return iter(self._posteriors)

    def table(self) -> list[dict[str, Any]]:
        """One row for each number of each release: dataset, column, description, n, name, mean, sd,
        5, 50 and 95 %, method.
        """
        figures = _figures(self._posteriors)
        rows: list[dict[str, Any]] = []
        for index, (posterior, release) in enumerate(
            zip(self._posteriors, self._releases, strict=True)
        ):
            about = {"release": index, "dataset": release.dataset, "column": release.column}
            about |= {
                "group": None if release.group is None else release.group[1],
                "description": release.description,
            }
            held = figures.get(index) or [dict(row) for row in posterior.summary()]
            rows.extend(
                about | {"n": release.n} | row | {"method": posterior.method} for row in held
            )
        return rows


def _figures(posteriors: Sequence[Posterior]) -> dict[int, list[dict[str, Any]]]:
    """Summaries of posteriors that share a batch, computed for the whole batch at once."""
    batches: dict[int, list[int]] = {}
    for index, posterior in enumerate(posteriors):
        if isinstance(posterior._view, (LineView, SheetView)):
            batches.setdefault(id(posterior._view.batch), []).append(index)
    out: dict[int, list[dict[str, Any]]] = {}
    for members in batches.values():
        view = posteriors[members[0]]._view
        assert isinstance(view, (LineView, SheetView))
        densities = (
            (view.batch.density,) if isinstance(view.batch, LineBatch) else view.batch.densities
        )
        columns = []
        for density in densities:
            mean, sd = density.moments
            columns.append(np.column_stack([mean, sd, density.quantile(np.array(QUANTILES))]))
        for index in members:
            group = posteriors[index]._view.group  # type: ignore[attr-defined]
            names = posteriors[index].names
            out[index] = [
                {"name": name}
                | dict(
                    zip(
                        ("mean", "sd", "5%", "50%", "95%"),
                        map(existing, column[group]),
                        strict=True,
                    )
                )
                for name, column in zip(names, columns, strict=True)
            ]
    return out


class _Solver:
    """Chooses a method for a problem and runs it; what one method cannot solve goes to the next,
    group by group.
    """

    def __init__(
        self,
        problem: Problem,
        method: str,
        variant: str,
        chains: int,
        draws: int,
        streams: _Streams,
        progress: Progress | None,
        assumptions: tuple[str, ...],
    ) -> None:
        self.whole, self.method, self.variant, self.chains, self.draws = (
            problem,
            method,
            variant,
            chains,
            draws,
        )
        self.streams, self.progress, self.assumptions = streams, progress, assumptions
        self.problem, self.groups = problem, np.arange(problem.groups)
        self.why: dict[int, str] = {}

    def solve(self) -> list[tuple[str, View]]:
        """For each group the method's name, and a view of its posterior."""
        with np.errstate(all="ignore"):  # impossible thetas have log density -inf, on purpose
            return self._solve()

    def _solve(self) -> list[tuple[str, View]]:
        out: dict[int, tuple[str, View]] = {}
        refusals: list[UnsupportedCombination] = []
        methods = self._candidates()
        if self.method != "auto":
            methods = [
                (self.method, "as asked"),
                *(pair for pair in methods if pair[0] != self.method),
            ]
        for name, reason in methods:
            todo = np.array([g for g in range(self.whole.groups) if g not in out], dtype=np.int64)
            if todo.size == 0:
                break
            try:
                found = self._attempt(name, reason, todo)
            except UnsupportedCombination as refusal:
                if name == self.method:
                    raise
                refusals.append(refusal)
                continue
            out |= {g: (name, view) for g, view in found.items()}
        if not out and not self.why:
            raise refusals[0]
        return [
            out.get(g, ("none", NoView(self.whole.family, self.why.get(g, ""))))
            for g in range(self.whole.groups)
        ]

    def _attempt(self, name: str, reason: str, groups: IntArray) -> dict[int, View]:
        """The views of those groups for which the method gives a sound answer; `why` holds why it
        gives none for others.
        """
        self.problem, self.groups = self.whole.take(groups), groups
        try:
            with effort.limited(groups.size):
                views = self._run(name, reason)
        except UnsupportedCombination:  # a ValueError too
            raise
        except (effort.TooMuchWork, *NUMERICAL) as failure:
            if groups.size > 1:  # whose fault it is
                parts = [self._attempt(name, reason, groups[k : k + 1]) for k in range(groups.size)]
                return {g: view for part in parts for g, view in part.items()}
            slow = isinstance(failure, (effort.TooMuchWork, MemoryError))
            self.why[int(groups[0])] = (
                f"{name} would take too long" if slow else (f"{name} gives no finite answer")
            )
            return {}
        sound = _sound(views)
        self.why |= {
            int(g): f"{name} gives no finite answer"
            for g, good in zip(groups, sound, strict=True)
            if not good
        }
        return {int(g): view for g, view, good in zip(groups, views, sound, strict=True) if good}

    def _candidates(self) -> list[tuple[str, str]]:
        """What serves, the best first."""
        family, d = self.problem.family, self.problem.evidence[0].dimension
        gaussian = all(e.gaussian for e in self.problem.evidence)
        out = []
        if isinstance(family, Categorical):
            out.append(("exact", "the true counts summed over"))
        elif d <= 2 and len(family.parameters) <= 2:
            out.append(("exact", "no approximation of the likelihood"))
            out.append(("collapsed", "the sums taken as normal"))
        elif gaussian and len(family.parameters) <= 2:
            out.append(
                ("collapsed", "normal noise in more dimensions than the exact method serves")
            )
        out.append(("gibbs", "no faster method serves this family and noise"))
        return out

    def _run(self, name: str, reason: str) -> list[View]:
        family = self.problem.family
        if name == "gibbs":
            return [self._gibbs(g, reason) for g in range(self.problem.groups)]
        if isinstance(family, Categorical):
            if name == "collapsed":
                raise UnsupportedCombination(
                    "collapsed does not serve the categorical family; use method='exact' (or "
                    "'auto'), or 'gibbs'."
                )
            run = self._naive_counts if name == "naive" else self._counts
            return [run(g, reason) for g in range(self.problem.groups)]
        if name == "naive":
            return self._naive(reason)
        self._check_reach(name)
        return self._grid(name, reason, self.problem)

    def _check_reach(self, name: str) -> None:
        d, p = self.problem.evidence[0].dimension, len(self.problem.family.parameters)
        if p > 2 or any(q.size > 1 for q in self.problem.family.parameters):
            raise UnsupportedCombination(
                f"{name} serves one or two parameters, the {self.problem.family.kind} family has "
                "more; use 'gibbs'."
            )
        if d > 2 and (name == "exact" or not all(e.gaussian for e in self.problem.evidence)):
            raise UnsupportedCombination(
                f"{name} serves one or two statistics with this noise, "
                f"here are {d}; use method='gibbs'."
            )

    def _grid(self, name: str, reason: str, problem: Problem) -> list[View]:
        exact = problem.exact if name == "exact" else None
        groups = range(problem.groups)
        if len(problem.family.parameters) == 1:
            starts = modes.starts(problem, problem.first_grid(0, FIRST_POINTS))
            solved = line.solve(problem.log_prior, problem.collapsed, exact, starts)
            lines = LineBatch(problem, solved, exact is not None, reason, self.assumptions)
            return [LineView(lines, g, name) for g in groups]
        grids = (
            problem.first_grid(0, FIRST_POINTS_OF_TWO),
            problem.first_grid(1, FIRST_POINTS_OF_TWO),
        )
        found = sheet.solve(
            problem.log_prior,
            problem.pilot,
            problem.collapsed,
            exact,
            *grids,
            modes_of_two.peaks(problem),
        )
        sheets = SheetBatch(problem, found, exact is not None, reason, self.assumptions)
        return [SheetView(sheets, g, name) for g in groups]

    def _naive(self, reason: str) -> list[View]:
        """The conjugate posterior given y, read off a grid like any other."""
        if len(self.problem.evidence) > 1:
            raise UnsupportedCombination("naive serves one release at a time.")
        evidence = self.problem.evidence[0]
        updated = [
            _scalar(baselines.naive(evidence, self.problem.prior_of(g), g))
            for g in range(self.problem.groups)
        ]
        nothing = Evidence(
            evidence.family,
            evidence.bounds,
            evidence.standardised,
            evidence.gaussian,
            evidence.discrete,
            evidence.steps,
            evidence.block,
            np.zeros_like(evidence.n),
            evidence.y,
            evidence.scale,
        )
        return self._grid("naive", reason, Problem(self.problem.family, tuple(updated), (nothing,)))

    def _counts(self, group: int, reason: str) -> View:
        concentration = np.asarray(self.problem.prior_of(group).concentration, dtype=np.float64)  # type: ignore[attr-defined]
        problem = self.problem.take(_rows(group))
        own = problem.evidence
        alone: list[counts.Begin | None] = []
        if len(own) == 1 or concentration.size <= counts.MOST_ALONE:
            solved = [convolution.solve(evidence, concentration) for evidence in own]
            if len(own) == 1 and solved[0][2] < convolution.MOST_ERROR:
                return SummedView(problem, *solved[0], "exact", reason)
            alone = [
                made.draw if error < convolution.MOST_ERROR else None for made, _, error in solved
            ]
        released = [(e.y[0], float(e.n[0]) if e.public else None, counts.noise_of(e)) for e in own]
        rng = np.random.default_rng(self.streams.of(int(self.groups[group]), 1))
        chain = counts.sample(released, concentration, rng, self.progress, own[0].n_prior, alone)
        return CountsView(
            problem,
            chain,
            concentration,
            "exact",
            "the true counts sampled, no approximation but Monte Carlo",
        )

    def _naive_counts(self, group: int, reason: str) -> View:
        if len(self.problem.evidence) > 1:
            raise UnsupportedCombination("naive serves one release at a time.")
        evidence = self.problem.evidence[0].take(_rows(group))
        prior = self.problem.prior_of(group)
        concentration = np.asarray(prior.concentration, dtype=np.float64)  # type: ignore[attr-defined]
        updated = baselines.naive(evidence, prior)
        held = np.asarray(updated.concentration)[0] - concentration  # type: ignore[attr-defined]
        chain = counts.Chain(held[None, None, :], 1.0, 1.0, 1.0, 0.0)
        return CountsView(
            self.problem.take(np.array([group])), chain, concentration, "naive", reason
        )

    def _gibbs(self, group: int, reason: str) -> View:
        if len(self.problem.evidence) > 1:
            raise UnsupportedCombination(
                "gibbs serves one release at a time; use method='auto' for several."
            )
        if not self.problem.evidence[0].public:
            raise UnsupportedCombination(
                "gibbs needs a public n; use method='auto', which sums over it."
            )
        if self.chains < 1:
            raise UnsupportedCombination(f"chains must be at least 1, got {self.chains}.")
        problem = self.problem.take(_rows(group))
        if problem.evidence[0].n[0] == 0:
            raise UnsupportedCombination(
                "gibbs needs at least one record; use method='auto', which gives the prior."
            )
        steps = max(GIBBS_STEPS, -(-self.draws // self.chains))
        rng = np.random.default_rng(self.streams.of(int(self.groups[group]), 1))
        made = gibbs.chains(
            problem.evidence[0],
            problem.prior_of(0),
            self.variant,
            self.chains,
            steps,
            rng,
            progress=self.progress,
        )
        return DrawsView(
            problem,
            made,
            "gibbs",
            reason if self.variant == "joint" else "the paper's algorithm as printed",
        )


def _sound(views: list[View]) -> list[bool]:
    """Whether each posterior's figures are numbers (an infinite moment is one that does
    not exist).
    """
    first = views[0]
    if isinstance(first, (LineView, SheetView)):
        batch = first.batch
        densities = (batch.density,) if isinstance(batch, LineBatch) else batch.densities
        good = np.ones(len(views), dtype=bool)
        for density in densities:
            good &= np.isfinite(density.quantile(np.array(QUANTILES))).all(axis=1)
            good &= ~np.isnan(np.stack(density.moments)).any(axis=0)
        return [bool(x) for x in good]
    return [
        all(not np.isnan(np.stack(view.moments(j))).any() for j in range(view.parameters))
        for view in views
    ]


def _rows(group: int) -> IntArray:
    return np.array([group])


def _scalar(prior: Prior) -> Prior:
    """A batch of one as a plain prior."""
    return type(prior)(
        **{name: float(np.ravel(value)[0]) for name, value in prior.hyperparameters.items()}
    )


def _check_request(releases: Sequence[Release], method: str, draws: int) -> None:
    if method not in METHODS:
        raise UnsupportedCombination(f"unknown method {method!r}; use {', '.join(METHODS)}.")
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise ValueError(f"draws must be a whole number from 1, got {draws}.")
    if not releases:
        raise UnsupportedCombination("there is no release to infer from.")
    for one in releases:
        if not isinstance(one, Release):
            raise UnsupportedCombination(
                f"release must be a noisewise release, got {type(one).__name__}; load() reads one."
            )
    spends = [
        (one.privacy.spend, one.group)
        for one in releases
        if one.privacy is not None and one.privacy.spend is not None
    ]
    if len(set(spends)) < len(spends):
        raise UnsupportedCombination(
            "a release is given twice (one spend id stands in two of them); leave one out."
        )


def _check_together(releases: Sequence[Release]) -> None:
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
            if a.dataset == b.dataset and not _disjoint(a, b)
        ),
        None,
    )
    if twice is not None:
        raise UnsupportedCombination(
            f"two releases are of one dataset, {twice!r}: the same records are no independent "
            "evidence. Infer from one of them."
        )


def _disjoint(a: Release, b: Release) -> bool:
    """Whether they are different groups of one table, which share no record."""
    return (
        a.group is not None
        and b.group is not None
        and a.group[0] == b.group[0]
        and a.group[1] != b.group[1]
    )


def _assumptions(releases: Sequence[Release]) -> tuple[str, ...]:
    if len(releases) > 1 and any(one.dataset is None for one in releases):
        return ("releases without a dataset are taken to be of different records",)
    return ()
