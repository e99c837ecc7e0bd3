"""Is the oracle of bench/stress.py right? Its posteriors against plain simulation, where that can
tell.

Run: python bench/slow_check.py --cache FOLDER [--problems 400] [--seed 0] [--cases FILE]

Records are simulated from parameters drawn from the prior, bounded, rounded and summed as a curator
would, and every draw is weighted by the probability of the noise at the released value. Problems
with few records whose weights leave an effective sample above 2000 are compared: the largest
distance of the distribution functions times the root of that size is a Kolmogorov-Smirnov
statistic, above 2.0 with probability 0.0007 and above 2.5 with probability 7e-6. With --cases also
the reference posteriors of a file of such cases (family, prior, n, bounds, noise, released,
posterior).
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import slow
import stress
from problems import draw_problem, title
from slow import Answer, Problem

MOST, DRAWS, ENOUGH = 2000, 400_000, 2000


def draw_prior(rng: np.random.Generator, prior: Problem, size: int) -> np.ndarray:
    """Parameters, (size, p)."""
    kind = prior["kind"]
    if kind == "beta":
        return rng.beta(prior["alpha"], prior["beta"], (size, 1))
    if kind == "gamma":
        return rng.gamma(prior["shape"], 1 / prior["rate"], (size, 1))
    if kind == "normal":
        return rng.normal(prior["mean"], prior["sd"], (size, 1))
    if kind == "dirichlet":
        return rng.dirichlet(prior["concentration"], size)
    variance = prior["scale"] / np.maximum(rng.gamma(prior["shape"], 1.0, size), 1e-290)
    if kind == "inverse_gamma":
        return variance[:, None]
    return np.stack([rng.normal(prior["mean"], np.sqrt(variance / prior["strength"])), variance], 1)


def draw_records(
    rng: np.random.Generator, problem: Problem, theta: np.ndarray, n: int
) -> np.ndarray:
    """n records for each parameter, (size, n)."""
    family, shape = problem["family"], (len(theta), n)
    first = theta[:, :1]
    if family["kind"] == "bernoulli":
        return (rng.random(shape) < first).astype(float)
    if family["kind"] == "poisson":
        return rng.poisson(np.minimum(first, 1e12), shape).astype(float)
    if family["kind"] == "geometric":
        with np.errstate(divide="ignore"):
            return np.maximum(
                np.ceil(-rng.standard_exponential(shape) / np.log1p(-np.minimum(first, 1 - 1e-16))),
                1.0,
            )
    if family["kind"] == "exponential":
        return rng.standard_exponential(shape) / np.maximum(first, 1e-290)
    if family["kind"] == "gamma":
        return rng.gamma(family["shape"], 1.0, shape) / np.maximum(first, 1e-290)
    if family["unknown"] == "mean":
        return first + np.sqrt(family["variance"]) * rng.standard_normal(shape)
    if family["unknown"] == "variance":
        return family["mean"] + np.sqrt(first) * rng.standard_normal(shape)
    return first + np.sqrt(theta[:, 1:]) * rng.standard_normal(shape)


def statistics(problem: Problem, x: np.ndarray) -> np.ndarray:
    """The contributions, (size, n, d), in the release's coordinates, rounded where the curator
    rounds.
    """
    kind = problem["family"]["kind"]
    if problem["bounds"] is None:
        return x[:, :, None]
    a, b, rule = problem["bounds"]
    inside = (x >= a) & (x <= b)
    x = np.clip(x, a, b)
    if problem["family"].get("unknown") == "both":
        u = (x - (a + b) / 2) / ((b - a) / 2) if problem["coordinates"] == "standardised" else x
        t = np.stack([u, u * u], -1)
    elif problem["family"].get("unknown") == "variance":
        t = ((x - problem["family"]["mean"]) ** 2)[:, :, None]
    else:
        t = x[:, :, None]
    if "step" in problem["noise"] and kind not in ("poisson", "geometric"):
        step = np.array(problem["noise"]["step"])
        t = step * np.floor(t / step + 0.5)
    return t * inside[:, :, None] if rule == "redact" else t


def log_noise(noise: Problem, y: np.ndarray, sums: np.ndarray) -> np.ndarray:
    scale = np.array(noise["scale"])
    if "step" in noise:
        step = np.array(noise["step"])
        # sums of rounded floats are a hair off the lattice
        sums = step * np.floor(sums / step + 0.5 + 1e-9)
    z = (y - sums) / scale
    return (-0.5 * z * z if "gaussian" in noise["kind"] else -np.abs(z)).sum(-1)


def simulate(rng: np.random.Generator, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and their weights."""
    y = np.array(problem["statistic"])
    thetas, logs = [], []
    numbers = np.array([problem["n"] or 0])
    log_number = np.zeros(1)
    if problem["n"] is None and problem["count"] is not None:
        value, scale = problem["count"]["value"], problem["count"]["noise"]["scale"][0]
        numbers = np.arange(0, int(max(value, 0) + 40 * scale) + 2)
        log_number = log_noise(
            problem["count"]["noise"], np.array([value]), numbers[:, None].astype(float)
        )
        if problem["n_prior"] is not None:
            log_number = (
                log_number
                + special.xlogy(problem["n_prior"]["shape"] - 1, numbers)
                - problem["n_prior"]["rate"] * numbers
            )
    chance = np.exp(log_number - log_number.max())
    often = rng.multinomial(DRAWS, chance / chance.sum())
    for n, times in zip(numbers, often, strict=True):
        for start in range(0, times, chunk := max(1, 2_000_000 // max(int(n), 1))):
            size = min(chunk, times - start)
            theta = draw_prior(rng, problem["prior"], size)
            if problem["family"]["kind"] == "categorical":
                sums = rng.multinomial(int(n), theta).astype(float)
            else:
                sums = statistics(problem, draw_records(rng, problem, theta, int(n))).sum(1)
            thetas.append(theta)
            logs.append(log_noise(problem["noise"], y, sums))
    log = np.concatenate(logs)
    return np.concatenate(thetas), np.exp(log - log.max())


def compare(found: Answer, theta: np.ndarray, weight: np.ndarray) -> float:
    """The largest distance over the parameters."""
    worst = 0.0
    for j, marginal in enumerate(found.marginals.values()):
        order = np.argsort(theta[:, j])
        simulated = np.cumsum(weight[order]) / weight.sum()
        at = marginal.quantile(np.linspace(0.01, 0.99, 99))
        place = np.searchsorted(theta[order, j], at, side="right") - 1
        low, high = marginal.probability(at)
        there = np.where(place >= 0, simulated[place], 0.0)
        worst = max(worst, float(np.maximum(np.maximum(there - high, low - there), 0).max()))
    return worst


def check_cases(path: Path) -> None:
    for case in json.loads(path.read_text()):
        bounds: Any = case["bounds"]
        problem = {key: case[key] for key in ("family", "prior", "n", "noise")} | {
            "count": None,
            "n_prior": None,
        }
        problem |= {"statistic": case["released"], "coordinates": "plain"}
        problem["bounds"] = (
            None if bounds is None else (bounds["lower"], bounds["upper"], bounds["outside"])
        )
        found = slow.solve(problem)
        for name, known in case["posterior"].items():
            at = np.abs(
                found.marginals[name].probability(np.array(known["quantiles"]))[0]
                - [0.05, 0.25, 0.5, 0.75, 0.95]
            ).max()
            print(
                f"{case['id']} {name}: distance {at:.5f}, the oracle's own error {found.error:.1e}",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--cache", type=Path, required=True, help="a folder for the oracle's answers"
    )
    parser.add_argument("--problems", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=Path)
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    if arguments.cases:
        check_cases(arguments.cases)
    values = []
    for number in range(arguments.problems):
        problem = draw_problem(arguments.seed, number)
        n = problem["n"]
        if n is None:
            n = (
                MOST
                if problem["count"] is None
                else problem["count"]["value"] + 40 * problem["count"]["noise"]["scale"][0]
            )
        if n >= MOST:
            continue
        theta, weight = simulate(np.random.default_rng([1, number]), problem)
        size = float(weight.sum() ** 2 / (weight**2).sum())
        if size < ENOUGH:
            continue
        found = stress.solve(problem, arguments.cache, False).answer
        gap = compare(found, theta, weight)
        values.append(gap * np.sqrt(size))
        print(
            f"{number:3d} distance {gap:.4f} of {size:7.0f} draws: {values[-1]:.2f}  "
            f"{title(problem)}",
            flush=True,
        )
    worst = sorted(values)[-5:]
    print(
        f"{len(values)} problems; the largest five statistics are "
        f"{' '.join(f'{v:.2f}' for v in worst)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
