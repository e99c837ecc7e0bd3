"""Calibration by simulation (Cook, Gelman & Rubin 2006): draw theta, records and noise, infer, and place theta in its posterior.

If beliefs are right, the posterior probability U below the true theta is uniform.
"""

from dataclasses import dataclass

import numpy as np

from noisewise.artifact import Release, observe
from noisewise.inference import counts
from noisewise.inference.infer import Posteriors, infer_many
from noisewise.inference.views import DrawsView, LineView, SheetView
from noisewise.mechanism import sensitivity
from noisewise.mechanism.lattice import Plain, lattice_for
from noisewise.mechanism.noise import DiscreteLaplace
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.families import Bernoulli, Categorical
from noisewise.model.family import Family
from noisewise.model.priors import Dirichlet, Prior

MOST_RECORDS = 1 << 22
"""Synthetic records that are held at once."""
RANKS, THIN, SETTLE = 63, 6, 120
"""Draws a categorical's truth is ranked among, sweeps between them, and sweeps before the first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is simulated: a model, a prior, the public bounds, n and epsilon."""

    family: Family
    prior: Prior
    bounds: Bounds | None
    n: int
    epsilon: float


def simulate(setting: Setting, trials: int, rng: np.random.Generator) -> tuple[FloatArray, list[Release]]:
    """theta of every trial, (trials, p), and its release: the curator's lattice and noise law, drawn with a seed."""
    family = setting.family
    lattice = lattice_for(_releasable(family), setting.bounds)
    theta = setting.prior.draw(rng, trials)
    sums = np.empty((trials, len(lattice.step)))
    if isinstance(family, Bernoulli):
        sums[:] = rng.binomial(setting.n, theta)
    elif isinstance(family, Categorical):
        sums[:] = np.stack([rng.multinomial(setting.n, p / p.sum()) for p in theta])
    else:
        size = max(1, MOST_RECORDS // setting.n)
        offset = np.array(lattice.offset) if isinstance(lattice, Plain) else 0
        for start in range(0, trials, size):
            rows = slice(start, start + size)
            x = family.simulate(rng, theta[rows], setting.n)
            sums[rows] = np.stack([k.sum(axis=1) for k in lattice.integers(x, np)], axis=1) + setting.n * offset
    scale = sensitivity.l1(lattice) / setting.epsilon
    step = np.array(lattice.step)
    noise = DiscreteLaplace(tuple(scale * step), tuple(step))
    y = sums * step + noise.simulate(rng, trials)
    coordinates = lattice.coordinates
    releases = [
        observe(family=family, n=setting.n, statistic=row, noise=noise, bounds=setting.bounds, coordinates=coordinates)  # type: ignore[arg-type]
        for row in y
    ]
    return theta, releases


def _releasable(family: Family) -> Family:
    return Categorical(family.categories, other=family.labels[0]) if isinstance(family, Categorical) else family


def uniforms(setting: Setting, trials: int, rng: np.random.Generator, method: str = "auto") -> dict[str, FloatArray]:
    """For each parameter the posterior probability of lying below the truth, (trials,)."""
    theta, releases = simulate(setting, trials, rng)
    if isinstance(setting.family, Categorical):
        return _categorical(setting, theta, releases, rng)
    posteriors = infer_many(releases, setting.prior, method=method, seed=int(rng.integers(2**63)))
    return {name: _below(posteriors, j, theta[:, j]) for j, name in enumerate(posteriors[0].names)}


def _below(posteriors: Posteriors, parameter: int, truth: FloatArray) -> FloatArray:
    out = np.empty(len(posteriors))
    batches: dict[int, list[int]] = {}
    for i, posterior in enumerate(posteriors):
        view = posterior._view
        if isinstance(view, DrawsView):
            out[i] = (view.chains[:, :, parameter] < truth[i]).mean()
        else:
            assert isinstance(view, (LineView, SheetView))
            batches.setdefault(id(view.batch), []).append(i)
    for members in batches.values():  # in the order of their batch
        view = posteriors[members[0]]._view
        assert isinstance(view, (LineView, SheetView))
        density = view.batch.density if isinstance(view, LineView) else view.batch.densities[parameter]
        out[members] = density.cdf(truth[members])
    return out


def _categorical(setting: Setting, theta: FloatArray, releases: list[Release], rng: np.random.Generator) -> dict[str, FloatArray]:
    """The exact sampler with one chain for each trial: ranks of the first probability, and of its difference from the next."""
    assert isinstance(setting.prior, Dirichlet)
    y = np.array([release.statistic for release in releases])
    a = np.array(setting.prior.concentration, dtype=float)
    noise = releases[0].noise
    state = counts.start(y, setting.n, a, rng)
    below = np.zeros((2, len(releases)))
    ties = rng.random((2, len(releases)))
    for step in range(SETTLE + RANKS * THIN):
        state = counts.sweep(state, y, a, noise, rng)
        if step >= SETTLE and (step - SETTLE) % THIN == 0:
            p = Dirichlet(a + state).draw(rng, len(state))
            below[0] += p[:, 0] < theta[:, 0]
            below[1] += p[:, 0] - p[:, 1] < theta[:, 0] - theta[:, 1]
    u = (below + ties) / (RANKS + 1)
    return {"first": u[0], "contrast": u[1]}
