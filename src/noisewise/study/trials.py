"""Simulated trials (Cook, Gelman & Rubin 2006): draw theta, records and noise, infer, and place
theta in its posterior.

If beliefs are right, the posterior probability U below the true theta is uniform. A method is
either a density, whose U is exact, or a stream of draws, among which the truth is ranked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from noisewise.artifact import NoisyCount, Release, observe
from noisewise.errors import UnsupportedCombination
from noisewise.inference import methods
from noisewise.inference.infer import infer_many
from noisewise.inference.methods import gibbs_sampler
from noisewise.inference.methods.categorical import chain
from noisewise.inference.methods.naive import naive_update
from noisewise.inference.observations import gather
from noisewise.inference.posteriors import Posteriors
from noisewise.mechanism.lattice import Lattice, lattice_for
from noisewise.mechanism.privacy import Relation
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounds import Bounds
from noisewise.model.families import Bernoulli, Exponential
from noisewise.model.family import Family
from noisewise.model.independent import Independent
from noisewise.model.priors import Beta, Dirichlet, Gamma, Prior
from noisewise.study import baselines
from noisewise.study.noise_law import noise_law

METHODS = (*methods.names(), "gibbs-paper", "naive-untruncated", "ops", "non-private")
"""Those that infer, and some to compare with: the paper's sampler as printed, naive with every
record seen, one-posterior sampling, and no noise at all.
"""
DENSITIES = (methods.AUTO, *(method.name for method in methods.REGISTRY if method.density))
"""Those that leave a density, whose U is exact; of the others the truth is ranked among draws."""
MOST_DRAWN_N = 1 << 14
"""A prior of n is cut off here."""
MOST_RECORDS = 1 << 22
"""Synthetic records that are held at once."""
ONE_BY_ONE, BINS = 5000, 1 << 12
"""More records are drawn in so many bins, where only their bounded sums are needed."""
THIN, SETTLE = 6, 120
"""Sweeps of a categorical's chain between two draws, and before the first."""
RANKED = {"auto": 63, "exact": 63, "gibbs": 5000, "gibbs-paper": 5000, "ops": baselines.OPS_DRAWS}
"""Draws that a truth is ranked among; the paper's are 5000."""
RANKED_OTHERWISE = 999
"""For methods that draw fast: ranks are then in steps of 0.1 %."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is simulated: a model, a prior, the public bounds, n and epsilon."""

    family: Family
    prior: Prior
    bounds: Bounds | None
    n: int
    epsilon: float
    middle: float | None = None
    """Instead of bounds: each trial's own, which hold this share of its own population, as in the
    paper. No release has such.
    """
    normal: bool = False
    """Whether the noise is normal; epsilon is then a rho."""
    n_prior: Prior | None = None
    """Where given, n is drawn from it in every trial, and not public: neighbours add or remove a
    record.
    """
    neighbours: Relation = "replace_one"
    records_per_person: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.prior, Independent):
            ordered = self.prior.of(self.family.kind, self.family.parameters)
            object.__setattr__(self, "prior", ordered)
        if self.bounds is None and self.middle is None:
            object.__setattr__(self, "bounds", self.family.own_bounds)
        if self.n_prior is not None:
            object.__setattr__(self, "neighbours", "add_remove")

    def describe(self) -> str:
        """One line that tells this setting from any other."""
        bounds = (
            ""
            if self.bounds is None
            else (f" {self.bounds.outside} [{self.bounds.lower!r}, {self.bounds.upper!r}]")
        )
        own = "" if self.middle is None else f" own bounds {self.middle}"
        cost = f"{'rho' if self.normal else 'epsilon'}={self.epsilon!r}"
        size = f"n={self.n}" if self.n_prior is None else f"n ~ {self.n_prior}"
        known = self.neighbours == "replace_one" or self.n_prior is not None
        whom = "" if known else f" {self.neighbours}"
        if self.records_per_person > 1:
            whom += f" {self.records_per_person} per person"
        return f"{self.family.describe()} ~ {self.prior}{bounds}{own} {size} {cost}{whom}"


@dataclass(frozen=True, slots=True)
class Sample:
    """Simulated trials: the truth, the sums over all records, and what is released of them."""

    theta: FloatArray  # (trials, p)
    full: FloatArray  # (trials, d): sums of t(x) over all records, without bounds
    releases: list[Release]
    prior: Prior  # of all trials, or with one hyperparameter for each
    n_prior: Prior | None = None


def _sizes(setting: Setting, trials: int, rng: np.random.Generator) -> IntArray:
    if setting.n_prior is None:
        return np.full(trials, setting.n)
    whole = np.arange(MOST_DRAWN_N)
    with np.errstate(all="ignore"):
        weight = np.exp(setting.n_prior.log_density(np.maximum(whole, 1e-300)[:, None]))
    return rng.choice(whole, trials, p=weight / weight.sum())


def simulate(
    setting: Setting,
    trials: int,
    rng: np.random.Generator,
    full: bool = True,
    truth: FloatArray | None = None,
) -> Sample:
    """The curator's lattice and noise law, drawn with a seed; without the full sums, many records
    are drawn in bins. The truth is drawn from the prior, or is this one, (p,), in every trial.
    """
    family, prior = setting.family, setting.prior
    theta = prior.draw(rng, trials) if truth is None else np.tile(truth, (trials, 1))
    _check_truths(family, theta)
    bounds = setting.bounds
    if setting.middle is not None:
        bounds, theta, prior = _own_bounds(setting, theta)
    lattice = lattice_for(family.releasable(), bounds)
    n = _sizes(setting, trials, rng)
    sums, every = np.empty((trials, len(lattice.step))), np.full((trials, family.dimension), np.nan)
    if isinstance(family, Bernoulli):
        sums[:] = every[:] = rng.binomial(n[:, None], theta)
    elif family.statistic_kind == "counts":
        sums[:] = every[:] = np.stack(
            [rng.multinomial(size, p / p.sum()) for size, p in zip(n, theta, strict=True)]
        )
    elif not full and bounds is not None and n.min() > ONE_BY_ONE:
        sums[:] = _in_bins(family, theta, bounds, n, lattice, rng)
    else:
        batch = max(1, MOST_RECORDS // max(int(n.max()), 1))
        for start in range(0, trials, batch):
            rows = slice(start, start + batch)
            x = family.simulate(rng, theta[rows], int(n[rows].max()))
            there = np.arange(x.shape[1]) < n[rows, None]
            sums[rows] = np.stack(
                [(k * there).sum(axis=1) for k in lattice.integers(x, np)], axis=1
            )
            sums[rows] += n[rows, None] * np.array(lattice.offset)
            every[rows] = np.stack(
                [(np.asarray(t, dtype=float) * there).sum(axis=1) for t in family.statistic(x, np)],
                axis=1,
            )
    law = noise_law(
        lattice, setting.neighbours, setting.records_per_person, setting.normal, setting.epsilon
    )
    y = sums * np.array(lattice.step) + law.noise.simulate(rng, trials)
    counts: list[NoisyCount | None] = [None] * trials
    of_count = law.count
    if of_count is not None:
        counts = [
            NoisyCount(float(value), of_count) for value in n + of_count.simulate(rng, trials)[:, 0]
        ]
    public = setting.neighbours == "replace_one" and lattice.tells_n
    common: dict[str, Any] = {
        "family": family,
        "noise": law.noise,
        "bounds": bounds,
        "coordinates": lattice.coordinates,
    }
    releases = [
        observe(n=int(size) if public else None, count=count, statistic=row, **common)
        for size, count, row in zip(n, counts, y, strict=True)
    ]
    return Sample(theta, every, releases, prior, setting.n_prior)


def _in_bins(
    family: Family,
    theta: FloatArray,
    bounds: Bounds,
    n: IntArray,
    lattice: Lattice,
    rng: np.random.Generator,
) -> FloatArray:
    """Sums of many records, (trials, d): how many fall in each of BINS parts of the bounds, and on
    either side of them.

    A record counts as the middle of its bin, which moves a sum by less than a thousandth of its own
    spread.
    """
    low, high = (
        (np.ceil(bounds.lower), np.floor(bounds.upper))
        if family.integer
        else (bounds.lower, bounds.upper)
    )
    if family.integer:
        edges = (
            np.unique(np.floor(np.linspace(low - 1, high, min(BINS, int(high - low) + 1) + 1)))
            + 0.5
        )
        inside = np.floor((edges[:-1] + edges[1:]) / 2 + 0.5)
    else:
        edges = np.linspace(low, high, BINS + 1)
        inside = (edges[:-1] + edges[1:]) / 2
    x = np.concatenate([[low - (high - low)], inside, [high + (high - low)]])
    points = np.stack([np.asarray(k, dtype=float) for k in lattice.integers(x, np)], axis=1)
    out = np.empty((len(theta), points.shape[1]))
    step = max(1, MOST_RECORDS // x.size)
    for start in range(0, len(theta), step):
        rows = slice(start, start + step)
        cdf = np.clip(family.cdf(edges, theta[rows]), 0.0, 1.0)
        share = np.maximum(np.diff(cdf, axis=1, prepend=0.0, append=1.0), 0.0)
        out[rows] = rng.multinomial(n[rows], share / share.sum(axis=1, keepdims=True)) @ points
    return np.asarray(out + n[:, None] * np.array(lattice.offset))


def _check_truths(family: Family, theta: FloatArray) -> None:
    """A truth that rounds to the edge of its range cannot be placed in its posterior."""
    for j, parameter in enumerate(p for p in family.parameters for _ in range(p.size)):
        if not np.all((theta[:, j] > parameter.lower) & (theta[:, j] < parameter.upper)):
            raise UnsupportedCombination(
                f"the prior puts {parameter.name} so near {parameter.lower:g} or "
                f"{parameter.upper:g} that it rounds to it; "
                "such truths cannot be simulated in 64-bit numbers. Choose a less extreme prior."
            )


def _own_bounds(setting: Setting, theta: FloatArray) -> tuple[Bounds, FloatArray, Prior]:
    """Bounds that hold the middle of each trial's population, in units of its upper one: then they
    are the same for all.
    """
    if (
        not isinstance(setting.family, Exponential)
        or not isinstance(setting.prior, Gamma)
        or setting.middle is None
    ):
        raise UnsupportedCombination(
            "bounds that depend on theta are there for the exponential only, to redraw the paper."
        )
    low, high = -np.log1p(-(1 - setting.middle) / 2), -np.log((1 - setting.middle) / 2)
    unit = high / theta[:, 0]
    own = Gamma(np.full(len(theta), float(setting.prior.shape)), setting.prior.rate / unit)
    return Bounds(low / high, 1.0, outside="redact"), theta * unit[:, None], own


def targets(family: Family) -> tuple[str, ...]:
    """What is checked: every parameter; of a categorical its first probability, and how much more
    it is than the next.
    """
    return (
        ("first", "contrast")
        if family.statistic_kind == "counts"
        else tuple(p.name for p in family.parameters)
    )


def _target(family: Family, theta: FloatArray) -> FloatArray:
    if family.statistic_kind != "counts":
        return theta
    return np.stack([theta[..., 0], theta[..., 0] - theta[..., 1]], axis=-1)


def uniforms(
    setting: Setting, trials: int, rng: np.random.Generator, method: str = "auto"
) -> dict[str, FloatArray]:
    """For each target the posterior probability of lying below the truth, (trials,)."""
    sample = simulate(setting, trials, rng, full=method not in DENSITIES)
    if method in DENSITIES and setting.family.statistic_kind != "counts":
        posteriors = _posteriors(sample, method, rng)
        return {
            name: posteriors.cdf(name, sample.theta[:, j])
            for j, name in enumerate(targets(setting.family))
        }
    truth = _target(setting.family, sample.theta)
    below, ranked = np.zeros(truth.shape), RANKED.get(method, RANKED_OTHERWISE)
    for theta in islice(stream(setting, sample, method, rng), ranked):
        below += _target(setting.family, theta) < truth
    u = (below + rng.random(below.shape)) / (ranked + 1)
    return {name: u[:, j] for j, name in enumerate(targets(setting.family))}


def draws(
    setting: Setting, sample: Sample, method: str, size: int, rng: np.random.Generator
) -> FloatArray:
    """Draws of theta, (trials, size, p); those of a chain spread over all of it."""
    if method in DENSITIES and setting.family.statistic_kind != "counts":
        posteriors = _posteriors(sample, method, rng)
        return np.stack(list(posteriors.draw(size, rng).values()), axis=-1)
    every = max(1, RANKED[method] // size) if method.startswith("gibbs") else 1
    kept = islice(stream(setting, sample, method, rng, thin=1), 0, size * every, every)
    return np.stack(list(kept), axis=1)


def _posteriors(sample: Sample, method: str, rng: np.random.Generator) -> Posteriors:
    own = sample.prior
    if isinstance(own, Gamma) and np.ndim(own.rate) > 0:
        pairs = zip(np.ravel(own.shape), np.ravel(own.rate), strict=True)
        priors: Prior | list[Prior] = [Gamma(float(a), float(b)) for a, b in pairs]
    else:
        priors = own
    return infer_many(
        sample.releases,
        priors,
        method=method,
        n_prior=sample.n_prior,
        seed=int(rng.integers(2**63)),
    )


def stream(
    setting: Setting, sample: Sample, method: str, rng: np.random.Generator, thin: int = THIN
) -> Iterator[FloatArray]:
    """Draws from every trial's posterior, (trials, p), one after the other; ranks want those of a
    categorical's chain thinned.
    """
    if isinstance(setting.prior, Independent):
        raise UnsupportedCombination(
            f"{method} needs the conjugate prior of the {setting.family.kind} family; use auto, "
            "exact or collapsed for any other."
        )
    if method in ("auto", "exact") and setting.family.statistic_kind == "counts":
        return _sweeps(setting, sample, rng, thin)
    if method in ("gibbs", "gibbs-paper"):
        return _steps(sample, "joint" if method == "gibbs" else "paper", rng)
    if method == "ops":
        return _ops(setting, sample, rng)
    if method == "non-private":
        return _conjugate(
            baselines.non_private(setting.family, sample.prior, sample.full, setting.n),
            len(sample.theta),
            rng,
        )
    if method == "naive":
        return _conjugate(_naive(sample), len(sample.theta), rng)
    if method == "naive-untruncated":
        return _conjugate(_naive_untruncated(setting, sample, rng), len(sample.theta), rng)
    raise UnsupportedCombination(
        f"{method} does not serve the {setting.family.kind} family; use {', '.join(METHODS)}."
    )


def _conjugate(posterior: Prior, size: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    while True:
        yield posterior.draw(rng, size)


def _naive(sample: Sample) -> Prior:
    """One conjugate update on y for each trial, as a batch."""
    observations = gather(sample.releases)
    own = sample.prior
    updated = []
    for g in range(len(sample.releases)):
        batched = np.ndim(next(iter(own.hyperparameters.values()))) > (own.kind == "dirichlet")
        of_group = (
            {name: float(value[g]) for name, value in own.hyperparameters.items()}
            if batched
            else {}
        )
        prior = type(own)(**of_group) if batched else own
        updated.append(naive_update(observations, prior, g))
    names = list(updated[0].hyperparameters)
    return type(updated[0])(
        **{
            name: np.concatenate([np.atleast_1d(getattr(one, name)) for one in updated])
            for name in names
        }
    )


def _naive_untruncated(setting: Setting, sample: Sample, rng: np.random.Generator) -> Prior:
    """What the paper lets its naive method see of a truncated family: the sums over all records, as
    noisy. Not private.
    """
    if setting.family.dimension > 1 or setting.family.support[0] < 0:
        raise UnsupportedCombination(
            "naive-untruncated serves families of one positive statistic, "
            "as the paper's exponential."
        )
    y = sample.full + rng.laplace(0.0, sample.releases[0].noise.scale, sample.full.shape)
    return setting.family.update(sample.prior, np.maximum(y, 1e-9 * sample.full), setting.n)


def _ops(setting: Setting, sample: Sample, rng: np.random.Generator) -> Iterator[FloatArray]:
    if not isinstance(setting.family, Bernoulli) or not isinstance(setting.prior, Beta):
        raise UnsupportedCombination("ops serves the bernoulli family with a beta prior only.")
    alpha, beta = float(setting.prior.alpha), float(setting.prior.beta)
    held = np.stack(
        [baselines.ops(alpha, beta, s, setting.n, setting.epsilon, rng) for s in sample.full[:, 0]]
    )
    return iter(held.T[:, :, None])


def _steps(sample: Sample, variant: str, rng: np.random.Generator) -> Iterator[FloatArray]:
    """The Gibbs sampler with one chain for each trial, all of them a batch."""
    observations = gather(sample.releases)
    return _chain(
        gibbs_sampler.model_of(
            gather(sample.releases[:1]), sample.prior, variant, observations.y, observations.scale
        ),
        rng,
    )


def _chain(model: gibbs_sampler.Model, rng: np.random.Generator) -> Iterator[FloatArray]:
    state = model.start(rng)
    for step in range(gibbs_sampler.BURN_IN + 10**9):
        # a chain may pass a theta that rounds to the edge of its range
        with np.errstate(all="ignore"):
            state = model.step(rng, state)
        if step >= gibbs_sampler.BURN_IN:
            yield state.theta


def _sweeps(
    setting: Setting, sample: Sample, rng: np.random.Generator, thin: int
) -> Iterator[FloatArray]:
    """The exact sampler of counts with one chain for each trial."""
    assert isinstance(setting.prior, Dirichlet)
    y = np.array([release.statistic for release in sample.releases])
    a = np.array(setting.prior.concentration, dtype=float)
    noise = sample.releases[0].noise
    state = chain.start(y, setting.n, a, rng)
    for step in range(10**9):
        state = chain.sweep(state, y, a, noise, rng)
        if sample.n_prior is not None:
            state = chain.resize(state, y, a, noise, rng, sample.n_prior)
        if step >= SETTLE and step % thin == 0:
            yield Dirichlet(a + state).draw(rng, len(state))
