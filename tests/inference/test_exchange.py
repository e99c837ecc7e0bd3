"""Posteriors as ArviZ reads them: chains that it can compare, and where they come from."""

import json
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import noisewise
from noisewise import Bounds, families, noise, priors
from noisewise.model import notation

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it announces its next version on import
    import arviz

WAITS = noisewise.observe(
    family=families.Exponential(),
    n=200,
    statistic=2_000.0,
    noise=noise.Laplace(60.0),
    bounds=Bounds(0, 60, outside="clamp"),
)
COLOURS = noisewise.observe(
    family=families.Categorical(["a", "b", "c"]),
    n=100,
    statistic=[50.0, 30.0, 20.0],
    noise=noise.Laplace(2.0),
)


def reread(posterior: noisewise.Posterior, folder: Path) -> object:
    """By way of a file, as somebody else would."""
    posterior.to_arviz().to_netcdf(str(folder / "draws.nc"))
    return arviz.from_netcdf(str(folder / "draws.nc"))


@pytest.mark.parametrize("release", [WAITS, COLOURS], ids=["sums", "counts"])
def test_arviz_neither_warns_nor_gives_nan(release: noisewise.Release, tmp_path: Path) -> None:
    posterior = noisewise.infer(release, "weak", draws=2000, seed=1)
    told = arviz.summary(reread(posterior, tmp_path), round_to="none")  # a warning is an error
    assert np.isfinite(told.to_numpy(dtype=float)).all()
    assert (told["r_hat"] < 1.02).all()
    assert (told["ess_bulk"] > 1000).all()
    means = np.atleast_1d(posterior.mean(posterior.names[0]))
    assert told["mean"].to_numpy() == pytest.approx(means, abs=0.2 * means.max())


def test_independent_draws_are_all_there_in_their_order() -> None:
    posterior = noisewise.infer(WAITS, "weak", draws=402, seed=1)
    held = posterior.to_arviz()["posterior"]["rate"].to_numpy()
    assert held.shape == (4, 100)
    assert np.array_equal(held.ravel(), posterior.draws["rate"][:400])


def test_chains_stay_chains() -> None:
    posterior = noisewise.infer(
        WAITS, priors.Gamma(2, 20), method="gibbs", chains=3, draws=600, seed=1
    )
    held = posterior.to_arviz()["posterior"]["rate"].to_numpy()
    assert held.shape == (3, 200)
    own = posterior.solution.values[0][:, :, 0]  # (steps, chains)
    for chain in range(3):
        assert np.isin(held[chain], own[:, chain]).all()
    assert np.array_equal(held[:, 0], own[0])


def test_chains_over_the_counts_of_two_releases_stay_chains() -> None:
    other = noisewise.observe(
        family=families.Categorical(["a", "b", "c"]),
        n=80,
        statistic=[41.0, 22.0, 17.0],
        noise=noise.Laplace(2.0),
    )
    posterior = noisewise.infer([COLOURS, other], "weak", draws=800, seed=1)
    assert posterior.solution.chain.counts.shape[1] > 28
    held = posterior.to_arviz()["posterior"]["probabilities"].to_numpy()
    assert held.shape == (28, 28, 3)  # as many chains as draws of each
    assert held.sum(axis=2) == pytest.approx(1)
    sd = posterior.sd("probabilities")
    assert held.mean(axis=(0, 1)) == pytest.approx(posterior.mean("probabilities"), abs=0.5 * sd[0])


def test_a_file_says_where_its_draws_come_from(tmp_path: Path) -> None:
    WAITS.save(tmp_path / "waits.json")
    posterior = noisewise.infer(WAITS, priors.Gamma(2, 20), seed=1)
    told = reread(posterior, tmp_path)["posterior"].attrs
    assert told["inference_library"] == "noisewise"
    assert told["inference_library_version"] == version("noisewise")
    assert told["method"] == "exact"
    assert told["family"] == "exponential"
    assert notation.prior(told["prior"]) == priors.Gamma(2, 20)
    assert told["release_sha256"] == json.loads((tmp_path / "waits.json").read_text())["sha256"]


@pytest.mark.parametrize(
    "prior",
    [
        priors.Gamma(2, 20.5),
        priors.Dirichlet([1, 2.5, 3]),
        notation.prior("rate ~ lognorm(s=1, scale=0.1)"),
        priors.Linear({"age": 2.0}, 1, 0.25),
        priors.NormalInverseWishart(0, 0.1, 3, 0.5),
    ],
    ids=lambda prior: prior.kind,
)
def test_a_prior_is_written_as_it_is_typed(prior: object) -> None:
    several = isinstance(prior, (priors.Linear, priors.NormalInverseWishart))
    read = notation.column_prior if several else notation.prior
    again = read(notation.text_of(prior))
    assert notation.text_of(again) == notation.text_of(prior)
    assert type(again) is type(prior)


def test_a_batch_knows_the_prior_of_each() -> None:
    own = [priors.Gamma(2, 20), priors.Gamma(3, 30)]
    assert [one.prior for one in noisewise.infer_many([WAITS, WAITS], own)] == own
    assert [one.prior for one in noisewise.infer_many([WAITS, WAITS], own[0])] == [own[0]] * 2
