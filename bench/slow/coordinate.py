"""One parameter on an unconstrained line, and its prior there."""

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from slow.types import Array, Problem

EDGE = 700.0
"""log and logit coordinates end here: beyond it a parameter is no longer a 64-bit number, and the
likelihood is flat.
"""


@dataclass(frozen=True)
class Coordinate:
    """The unconstrained coordinate u of one parameter: what theta is, and log prior density of u up
    to a constant.
    """

    kind: str  # "log", "logit" or "plain"
    prior: Problem

    def theta(self, u: Array) -> Array:
        return {"log": np.exp, "logit": special.expit, "plain": np.asarray}[self.kind](u)

    def of(self, theta: Array) -> Array:
        theta = np.asarray(theta, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            return {"log": np.log, "logit": special.logit, "plain": np.asarray}[self.kind](theta)

    def log_prior(self, u: Array) -> Array:
        p = self.prior
        with np.errstate(over="ignore"):
            if p["kind"] == "beta":
                return -p["alpha"] * np.logaddexp(0, -u) - p["beta"] * np.logaddexp(0, u)
            if p["kind"] == "gamma":
                return p["shape"] * u - p["rate"] * np.exp(u)
            if p["kind"] == "inverse_gamma":
                return -p["shape"] * u - p["scale"] * np.exp(-u)
            return -0.5 * ((u - p["mean"]) / p["sd"]) ** 2

    def slopes(self) -> tuple[float, float]:
        """Rates at which the prior falls off to the left and to the right beyond the edges, 0 where
        nothing is left there.
        """
        p = self.prior
        if p["kind"] == "beta":
            return p["alpha"], p["beta"]
        if p["kind"] == "gamma":
            return p["shape"], 0.0
        return (0.0, p["shape"]) if p["kind"] == "inverse_gamma" else (0.0, 0.0)

    def core(self) -> tuple[float, float]:
        """An interval that holds all of the prior but 1e-10 at either end, within the edges."""
        p, q = self.prior, np.array([1e-10, 1 - 1e-10])
        with np.errstate(all="ignore"):
            if p["kind"] == "beta":
                low = np.log(stats.beta.ppf(1e-10, p["alpha"], p["beta"]))
                high = -np.log(stats.beta.ppf(1e-10, p["beta"], p["alpha"]))
                ends = np.array([low, high])
            elif p["kind"] == "gamma":
                ends = np.log(stats.gamma.ppf(q, p["shape"])) - np.log(p["rate"])
            elif p["kind"] == "inverse_gamma":
                ends = np.log(p["scale"]) - np.log(stats.gamma.ppf(1 - q, p["shape"]))
            else:
                ends = p["mean"] + p["sd"] * stats.norm.ppf(q)
        if self.kind != "plain":
            ends = np.clip(np.nan_to_num(ends, nan=0.0, posinf=EDGE, neginf=-EDGE), -EDGE, EDGE)
        return float(ends[0]), float(ends[1])


def coordinate_of(problem: Problem) -> Coordinate:
    prior = problem["prior"]
    return Coordinate(
        {"beta": "logit", "gamma": "log", "inverse_gamma": "log", "normal": "plain"}[prior["kind"]],
        prior,
    )
