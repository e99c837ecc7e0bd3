"""The paper's Gibbs sampler (Bernstein & Sheldon 2018, Algorithms 1 to 3) and its repair, over a
batch of chains.

The noise is augmented to a normal of variance sigma^2 (Park & Casella 2008). `joint` draws the
released statistic given y and then the full one given it, from their joint normal. `paper` is the
algorithm as printed: regions independent, the released statistic redrawn from N(m_c, V_c) for the
update of sigma^2, with m = n q mu of Proposition 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.observations import Observations
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounded_statistic import bounded_moments
from noisewise.model.moments import interval_moments
from noisewise.model.priors import Prior

BURN_IN = 2000
"""Steps that are forgotten, as in the paper."""
TRIES = 200
"""Draws of a statistic of which the conjugate update exists; then one that theta expects is taken.
"""


@dataclass(frozen=True, slots=True)
class State:
    """One point of every chain; `full` is the sum of t(x) over all records, in the family's plain
    coordinates.
    """

    theta: FloatArray  # (batch, p)
    full: FloatArray  # (batch, d)
    sigma2: FloatArray  # (batch, d)


@dataclass(frozen=True, slots=True)
class Model:
    """A batch of problems alike but for y and the noise's scale; a chain is a member of
    the batch.
    """

    observations: Observations  # one group
    prior: Prior
    variant: str
    n: int
    y: FloatArray  # (batch, d)
    scale: FloatArray  # (batch, d)

    def start(self, rng: np.random.Generator) -> State:
        """Chains start from the prior, where y may be far: their agreement afterwards says
        something.
        """
        theta = self.prior.draw(rng, len(self.y))
        variance = self.scale**2 * self.observations.shape.variance
        return State(theta, np.zeros(self.y.shape), variance)

    def step(self, rng: np.random.Generator, state: State) -> State:
        """One update of everything."""
        if self.variant == "paper" and self.observations.bounds is not None:
            return self._paper(rng, state)
        if self.observations.bounds is None:
            posterior, full = self._valid(lambda rows: self._sum(rng, state, rows), state)
            released = full
        else:
            mean, covariance, released_mean, released_covariance, cross = self._moments(state.theta)
            released = _product(rng, released_mean, released_covariance, self.y, state.sigma2)
            gain = np.swapaxes(
                np.linalg.solve(_ridge(released_covariance), np.swapaxes(cross, 1, 2)), 1, 2
            )
            given = mean + np.einsum("bde,be->bd", gain, released - released_mean)
            spread = covariance - np.einsum("bde,bfe->bdf", gain, cross)
            root = _root(spread)
            posterior, full = self._valid(
                lambda rows: self._plain(given[rows] + _noise(rng, root[rows])), state
            )
        return State(self._theta(rng, posterior, len(full)), full, self._sigma2(rng, released))

    def _sigma2(self, rng: np.random.Generator, released: FloatArray) -> FloatArray:
        normal = rng.standard_normal(released.shape)
        uniform = rng.random(released.shape)
        miss = self.y - released
        return self.observations.shape.mixing_variance(miss, self.scale, normal, uniform)

    def _sum(self, rng: np.random.Generator, state: State, rows: IntArray | slice) -> FloatArray:
        """The sum over all records given y, where no record is bounded."""
        theta, y, sigma2 = state.theta[rows], self.y[rows], state.sigma2[rows]
        if self.observations.family.statistic_kind == "counts":
            return _product_of_counts(rng, self.n, theta, y, sigma2)
        mean, covariance = self._moments(theta)[:2]
        return _product(rng, mean, covariance, y, sigma2)

    def _valid(
        self, propose: Callable[[IntArray | slice], FloatArray], state: State
    ) -> tuple[Prior, FloatArray]:
        """Draw the full statistic anew where the conjugate update is undefined, and only there."""
        full = propose(slice(None))
        posterior = self.observations.family.update(self.prior, full, self.n)
        for _ in range(TRIES):
            rows = np.flatnonzero(~np.broadcast_to(posterior.valid, len(full)))
            if rows.size == 0:
                return posterior, full
            full[rows] = propose(rows)
            posterior = self.observations.family.update(self.prior, full, self.n)
        # a statistic that the last theta expects
        full[rows] = self.n * self.observations.family.mean(state.theta[rows])
        return self.observations.family.update(self.prior, full, self.n), full

    def _paper(self, rng: np.random.Generator, state: State) -> State:
        regions = self._regions(state.theta)
        centre_mean, centre_covariance = regions[1]
        total = centre_covariance + np.eye(self.y.shape[1]) * state.sigma2[:, :, None]
        gain = np.swapaxes(np.linalg.solve(total, np.swapaxes(centre_covariance, 1, 2)), 1, 2)
        mean = centre_mean + np.einsum("bde,be->bd", gain, self.y - centre_mean)
        covariance = centre_covariance - np.einsum("bde,bef->bdf", gain, centre_covariance)
        for m, v in (regions[0], regions[2]):
            mean, covariance = mean + m, covariance + v
        root = _root(covariance)
        posterior, full = self._valid(
            lambda rows: self._plain(mean[rows] + _noise(rng, root[rows])), state
        )
        theta = self._theta(rng, posterior, len(full))
        centre_mean, centre_covariance = self._regions(theta)[1]
        released = centre_mean + _noise(rng, _root(centre_covariance))
        return State(theta, full, self._sigma2(rng, released))

    def _theta(self, rng: np.random.Generator, posterior: Prior, size: int) -> FloatArray:
        """A draw, kept off the edges of its range, where moments are not representable."""
        theta = posterior.draw(rng, size)
        parameters = self.observations.family.parameters
        if len(parameters) == theta.shape[1]:
            for j, p in enumerate(parameters):
                bounded = np.isfinite(p.upper)
                low = p.lower + (1e-15 if bounded else 1e-100) if np.isfinite(p.lower) else -np.inf
                theta[:, j] = np.clip(theta[:, j], low, p.upper - 1e-15 if bounded else 1e100)
        return theta

    def _regions(self, theta: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Mean and covariance of the sums over records below, within and above the
        bounds (RS-CLT).
        """
        own, bounds = self.observations.record.units(theta)
        assert bounds is not None
        low, high = self.observations.family.support
        out = []
        for edge in ((low, bounds.lower), (bounds.lower, bounds.upper), (bounds.upper, high)):
            if not edge[0] < edge[1]:
                out.append((np.zeros(self.y.shape), np.zeros((*self.y.shape, self.y.shape[1]))))
                continue
            moments = interval_moments(self.observations.family, own, *edge)
            q = np.exp(moments.log_probability)[:, None]
            mean = np.where(q > 0, moments.mean, 0.0)
            covariance = np.where(q[:, :, None] > 0, moments.covariance, 0.0)
            spread = (
                self.n
                * q[:, :, None]
                * (covariance + (1 - q)[:, :, None] * mean[:, :, None] * mean[:, None, :])
            )
            out.append((self.n * q * mean, spread))
        return out

    def _moments(self, theta: FloatArray) -> tuple[FloatArray, ...]:
        own, bounds = self.observations.record.units(theta)
        family, n = self.observations.family, self.n
        if bounds is None:
            mean, covariance = n * family.mean(own), n * family.covariance(own)
            return mean, covariance, mean, covariance, covariance
        m = bounded_moments(family, own, bounds)
        return (
            n * m.mean,
            n * m.covariance,
            n * m.bounded_mean,
            n * m.bounded_covariance,
            n * m.cross,
        )

    def _plain(self, full: FloatArray) -> FloatArray:
        """The sums of x and x^2 from those of u = (x - c)/r and u^2."""
        if not self.observations.record.standardised:
            return full
        bounds = self.observations.bounds
        assert bounds is not None
        c, r = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
        return np.stack(
            [
                self.n * c + r * full[:, 0],
                self.n * c * c + 2 * c * r * full[:, 0] + r * r * full[:, 1],
            ],
            axis=1,
        )


def chains(
    observations: Observations,
    prior: Prior,
    variant: str,
    count: int,
    steps: int,
    rng: np.random.Generator,
    burn_in: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> FloatArray:
    """theta of `count` chains over `steps` steps after burn-in, (steps, chains, p)."""
    model = model_of(
        observations,
        prior,
        variant,
        np.repeat(observations.y, count, axis=0),
        np.repeat(observations.scale, count, axis=0),
    )
    return run(model, steps, rng, BURN_IN if burn_in is None else burn_in, progress)


def model_of(
    observations: Observations, prior: Prior, variant: str, y: FloatArray, scale: FloatArray
) -> Model:
    """Refuse what the sampler cannot serve, with the part that is missing."""
    family = observations.family
    if variant not in ("joint", "paper"):
        raise UnsupportedCombination(
            f"unknown variant {variant!r}; use 'joint' (the default) or 'paper'."
        )
    if (
        variant == "paper"
        and observations.bounds is not None
        and observations.bounds.outside == "clamp"
    ):
        raise UnsupportedCombination(
            "variant='paper' knows redacted records only, as the paper does; use variant='joint'."
        )
    n = int(observations.n[0])
    model = Model(observations, prior, variant, n, y, scale)
    # the parts that a step needs, tried before a long run
    theta = prior.draw(np.random.default_rng(0), len(y))
    family.update(prior, n * family.mean(theta), n)
    replace(model, y=y[:1], scale=scale[:1])._moments(theta[:1])
    return model


def run(
    model: Model,
    steps: int,
    rng: np.random.Generator,
    burn_in: int,
    progress: Callable[[float], None] | None = None,
) -> FloatArray:
    """theta after burn-in, (steps, batch, p)."""
    state = model.start(rng)
    out = np.empty((steps, *state.theta.shape))
    for k in range(-burn_in, steps):
        # a chain may pass a theta that rounds to the edge of its range
        with np.errstate(all="ignore"):
            state = model.step(rng, state)
        if k >= 0:
            out[k] = state.theta
        if progress is not None and k % 100 == 0:
            progress((k + burn_in) / (steps + burn_in))
    return out


def _product(
    rng: np.random.Generator,
    mean: FloatArray,
    covariance: FloatArray,
    y: FloatArray,
    sigma2: FloatArray,
) -> FloatArray:
    """NormProduct as S1 (S1 + S2)^-1 S2: the multinomial's covariance is singular."""
    if mean.shape[1] == 1:
        v = covariance[:, :, 0]
        share = v / (v + sigma2)
        return (
            mean
            + share * (y - mean)
            + np.sqrt(np.maximum(share * sigma2, 0.0)) * rng.standard_normal(mean.shape)
        )
    # A draw by conditioning (s, y) on y needs no root of the product's covariance.
    s = mean + _noise(rng, _root(covariance))
    miss = y - s - np.sqrt(sigma2) * rng.standard_normal(y.shape)
    total = covariance + np.eye(mean.shape[1]) * sigma2[:, :, None]
    return np.asarray(
        s + np.einsum("bde,be->bd", covariance, np.linalg.solve(total, miss[:, :, None])[:, :, 0])
    )


def _product_of_counts(
    rng: np.random.Generator, n: int, p: FloatArray, y: FloatArray, sigma2: FloatArray
) -> FloatArray:
    """The same draw for counts: the multinomial's normal is one of independent counts given that
    they add up to n.
    """
    mean = n * p
    share = mean / (mean + sigma2)
    variance = share * sigma2
    s = mean + share * (y - mean) + np.sqrt(variance) * rng.standard_normal(p.shape)
    # a @ total sums rows, faster than a.sum(1) where they are short
    total = np.ones((p.shape[1], 1))
    return np.asarray(s + variance * ((n - s @ total) / (variance @ total)))


def _noise(rng: np.random.Generator, root: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("bde,be->bd", root, rng.standard_normal(root.shape[:2])))


def _root(covariance: FloatArray) -> FloatArray:
    """R with R R' = covariance, of a matrix that may be singular."""
    if covariance.shape[1] == 1:
        return np.sqrt(np.maximum(covariance, 0.0))
    try:
        return np.asarray(np.linalg.cholesky(_ridge(covariance, 1e-10)))
    except np.linalg.LinAlgError:  # a difference that should be positive, by rounding is not
        values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def _ridge(covariance: FloatArray, share: float = 1e-12) -> FloatArray:
    d = covariance.shape[1]
    diagonal = np.einsum("bdd->bd", covariance)
    return np.asarray(covariance + np.eye(d) * (share * diagonal + 1e-290)[:, :, None])
