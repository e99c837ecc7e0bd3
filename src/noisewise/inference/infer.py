"""`infer` and `infer_many`: from releases and a prior to posteriors."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference import methods
from noisewise.inference.apart import assumption, check_spends, check_together
from noisewise.inference.methods.base import Progress, Request, Unsolved
from noisewise.inference.observations import batch_key, gather
from noisewise.inference.posterior import Posterior
from noisewise.inference.posteriors import Posteriors
from noisewise.inference.problem import (
    Problem,
    check_n_prior,
    check_prior,
    prior_for,
    support_of,
)
from noisewise.inference.solver import Solver
from noisewise.inference.streams import Streams
from noisewise.inference.table import TablePosterior
from noisewise.model.families.moments import Moments
from noisewise.model.families.table import Table
from noisewise.model.family import Family
from noisewise.model.priors import Prior

BATCH = 512
"""Groups of one parameter that are solved together: more do not fit the processor's cache."""
BATCH_OF_TWO = 16
"""Groups of two parameters that are."""


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
    if any(one.family.statistic_kind == "moments" for one in releases):
        check_together(releases)
        return _infer_moments([releases], prior, method, draws, seed, n_prior, progress)[0]
    check_together(releases)
    own = prior_for(releases[0], prior)
    check_prior(releases[0].family, own)
    of_n = check_n_prior(releases, n_prior)
    problem = Problem(releases[0].family, (own,), tuple(gather([one], of_n) for one in releases))
    streams = Streams(seed, [releases])
    request = Request("", draws, variant, chains, streams.sampler, progress, assumption(releases))
    solver = Solver(problem, method, request)
    ((name, solution),) = solver.solve()
    if isinstance(solution, Unsolved):
        raise UnsupportedCombination(
            f"no method gives a posterior here: {solution.why}. Check n, the bounds, the noise and "
            "the prior."
        )
    seeds = partial(streams.of, 0)
    kind = _kind_of(problem.family)
    return kind(problem.family, solution, name, draws, seeds, solver.why.get(0), releases, own)


def _kind_of(family: Family) -> type[Posterior]:
    """A table's posterior answers more questions."""
    return TablePosterior if isinstance(family, Table) else Posterior


def infer_many(
    releases: Sequence[Release],
    prior: Prior | str | Sequence[Prior | str],
    *,
    method: str = "auto",
    draws: int = 4000,
    seed: int | None = None,
    n_prior: Prior | str | None = None,
    progress: Progress | None = None,
) -> Posteriors:
    """One posterior for each release, all in one batch where they are alike in family, bounds and
    kind of noise.

    The releases speak of different groups with parameters of their own; for several releases about
    one parameter use `infer`.
    """
    releases = list(releases)
    _check_request(releases, method, draws)
    if any(one.family.statistic_kind == "moments" for one in releases):
        groups = [[one] for one in releases]
        return _infer_moments(groups, prior, method, draws, seed, n_prior, progress)
    priors = _priors(releases, prior)
    for one, own in zip(
        releases, priors if len(priors) > 1 else priors * len(releases), strict=True
    ):
        if len(priors) > 1 or one.family != releases[0].family or one is releases[0]:
            check_prior(one.family, own)
    of_n = check_n_prior(releases, n_prior)
    alike: dict[Any, list[int]] = {}
    for position, one in enumerate(releases):
        own = priors[0 if len(priors) == 1 else position]
        alike.setdefault((batch_key(one), support_of(own)), []).append(position)
    out: list[Posterior | None] = [None] * len(releases)
    streams = Streams(seed, [[one] for one in releases])
    refusals: list[UnsupportedCombination] = []
    done = 0
    for members in alike.values():
        family = releases[members[0]].family
        size = BATCH if len(family.parameters) == 1 else BATCH_OF_TWO
        for start in range(0, len(members), size):
            chosen = members[start : start + size]
            own_priors = (priors[0],) if len(priors) == 1 else tuple(priors[i] for i in chosen)
            problem = Problem(family, own_priors, (gather([releases[i] for i in chosen], of_n),))
            request = Request("", draws, generator=streams.at(chosen).sampler)
            solver = Solver(problem, method, request)
            try:
                solved = solver.solve()
            except UnsupportedCombination as refusal:
                refusals.append(refusal)
                solved = [("none", Unsolved(family, str(refusal).rstrip(".")))] * len(chosen)
            for g, (i, (name, solution)) in enumerate(zip(chosen, solved, strict=True)):
                seeds = partial(streams.of, i)
                kind, own = _kind_of(family), own_priors[0 if len(priors) == 1 else g]
                why, whose = solver.why.get(g), (releases[i],)
                out[i] = kind(family, solution, name, draws, seeds, why, whose, own)
            done += len(chosen)
            if progress is not None:
                progress(done / len(releases))
    found = [p for p in out if p is not None]
    # no release allows what was asked for
    if refusals and all(p.method == "none" for p in found):
        raise refusals[0]
    return Posteriors(found)


def prior_of(release: Release, prior: str) -> Any:
    """The prior that a text stands for, of a release of one column or of several."""
    if isinstance(release.family, Moments):
        from noisewise.inference.columns import joint

        return joint.prior_for(prior, release.family)
    return prior_for(release, prior)


def _infer_moments(
    groups: list[list[Release]],
    prior: object,
    method: str,
    draws: int,
    seed: int | None,
    n_prior: object,
    progress: Progress | None,
) -> Posteriors:
    """Of several columns: means, sds, correlations and shares, groups alike in one batch. A group
    is one release, or several of different records.
    """
    from noisewise.inference.columns import joint, solve
    from noisewise.inference.columns.asked import alike

    if not all(one.family.statistic_kind == "moments" for group in groups for one in group):
        raise UnsupportedCombination(
            "releases of one column and of several do not go together; infer from each kind by "
            "itself."
        )
    if method != methods.AUTO:
        raise UnsupportedCombination("several columns have one method; leave method out.")
    if n_prior is not None:
        raise UnsupportedCombination("n_prior is for one column; leave it out here.")
    streams = Streams(seed, groups)
    together: dict[Any, list[int]] = {}
    out: dict[int, Posterior] = {}
    for position, group in enumerate(groups):
        why = joint.refusal(group)
        if why is None:
            together.setdefault(alike(group), []).append(position)
            continue
        if len(groups) == 1:
            raise UnsupportedCombination(f"{why}.")
        seeds, none = partial(streams.of, position), Unsolved(group[0].family, why)
        out[position] = Posterior(group[0].family, none, "none", draws, seeds, releases=group)
    for members in together.values():
        done = len(out)

        def tick(share: float, done: int = done, size: int = len(members)) -> None:
            if progress is not None:
                progress((done + share * size) / len(groups))

        own = [groups[i] for i in members]
        family = cast(Moments, own[0][0].family)
        held = joint.prior_for(prior, family)
        found = joint.solutions(own, prior, draws, streams.at(members), tick)
        for i, solution in zip(members, found, strict=True):
            seeds = partial(streams.of, i)
            group = groups[i]
            out[i] = Posterior(family, solution, solve.NAME, draws, seeds, None, group, held)
    return Posteriors([out[i] for i in range(len(groups))])


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


def _check_request(releases: Sequence[Release], method: str, draws: int) -> None:
    methods.check_name(method)
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise ValueError(f"draws must be a whole number from 1, got {draws}.")
    if not releases:
        raise UnsupportedCombination("there is no release to infer from.")
    for one in releases:
        if not isinstance(one, Release):
            raise UnsupportedCombination(
                f"release must be a noisewise release, got {type(one).__name__}; load() reads one."
            )
    check_spends(releases)
