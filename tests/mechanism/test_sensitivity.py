"""The declared sensitivity against brute force over pairs of records, through NumPy and through
DuckDB.
"""

import duckdb
import numpy as np
import pytest
from duckdb import ColumnExpression

from cases import CASES, Case, name
from noisewise import Bounds, families
from noisewise.curator import duckdb_namespace
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.lattice import Counts, Lattice, Plain, Standardised, lattice_for
from noisewise.mechanism.sensitivity import parabola_diameter_squared

RULES = ["redact", "clamp"]
combinations = pytest.mark.parametrize(
    ("case", "outside"),
    [(c, o) for c in CASES for o in RULES if c.intervals or o == "redact"],
    ids=lambda v: v if isinstance(v, str) else name(v),
)


def dense_records(bounds: Bounds | None) -> np.ndarray:
    """Everything a record can be: a fine sweep, the bounds and their neighbouring floats, far
    outside, infinite, missing.
    """
    low, high = (0.0, 1.0) if bounds is None else (bounds.lower, bounds.upper)
    edges = [
        f(edge, to)
        for edge in (low, high)
        for f, to in ((np.nextafter, -np.inf), (np.nextafter, np.inf), (lambda e, _: e, 0))
    ]
    sweep = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 3001)
    whole = np.arange(np.floor(low) - 2, min(np.ceil(high), low + 200) + 3)
    odd = [
        np.nan,
        np.inf,
        -np.inf,
        1e308,
        -1e308,
        5e-324,
        -0.0,
        (low + high) / 2,
        low + (high - low) / 4,
        2.0**53,
        -(2.0**63),
        2.0**64,
    ]
    return np.concatenate([sweep, whole, edges, odd])


def contributions(lattice: Lattice, records: np.ndarray) -> np.ndarray:
    """Integer contribution of each record, offsets included, shape (records, d)."""
    with np.errstate(invalid="ignore", over="ignore"):
        parts = np.stack(
            [np.broadcast_to(part, records.shape) for part in lattice.integers(records)], -1
        )
    return parts + np.array(lattice.offset)


@combinations
def test_brute_force_reaches_and_never_exceeds_the_declared_sensitivity(
    case: Case, outside: str
) -> None:
    for bounds in case.bounds(outside):
        lattice = lattice_for(case.family, bounds)
        records = (
            np.arange(case.family.dimension, dtype=float)
            if isinstance(lattice, Counts)
            else dense_records(bounds)
        )
        t = np.unique(contributions(lattice, records), axis=0)
        pairs = np.abs(t[:, None, :] - t[None, :, :])
        l1, l2 = pairs.sum(-1).max(), (pairs**2).sum(-1).max()
        declared, alone = lattice.sensitivity.pair, lattice.sensitivity.record
        if case.family.ratio:  # several statistics, each on a lattice of its own: their ranges
            assert l1 <= declared.l1 <= 1.3 * l1  # docs/releasing.md states how loose they are
            assert l2 <= declared.l2_squared
            assert np.abs(t).sum(-1).max() <= alone.l1 <= 2 * np.abs(t).sum(-1).max()
            assert (t**2).sum(-1).max() <= alone.l2_squared
            continue
        assert 0.99 * declared.l1 <= l1 <= declared.l1
        assert 0.98 * declared.l2_squared <= l2 <= declared.l2_squared
        assert 0.99 * alone.l1 <= np.abs(t).sum(-1).max() <= alone.l1
        assert 0.98 * alone.l2_squared <= (t**2).sum(-1).max() <= alone.l2_squared


@combinations
def test_contributions_are_whole_numbers_within_their_ranges(case: Case, outside: str) -> None:
    for bounds in case.bounds(outside):
        lattice = lattice_for(case.family, bounds)
        t = contributions(
            lattice, np.arange(3.0) if isinstance(lattice, Counts) else dense_records(bounds)
        )
        assert t.dtype == np.int64
        for j, (low, high) in enumerate(lattice.ranges):
            assert low <= t[:, j].min()
            assert t[:, j].max() <= high


@combinations
def test_duckdb_computes_the_same_integers_as_numpy(case: Case, outside: str) -> None:
    for bounds in case.bounds(outside):
        lattice = lattice_for(case.family, bounds)
        if isinstance(lattice, Counts):
            continue
        records = dense_records(bounds)
        with duckdb.connect() as connection:
            table = connection.from_arrow(__import__("pyarrow").table({"value": records}))
            found = table.select(
                *lattice.integers(ColumnExpression("value"), duckdb_namespace)
            ).fetchall()
        assert (np.array(found) + np.array(lattice.offset) == contributions(lattice, records)).all()


@pytest.mark.parametrize(
    ("family", "bounds", "expected"),
    [
        (families.Bernoulli(), None, 1.0),
        # the reference implementation's 1 is wrong under replace-one
        (families.Categorical(3, other=0), None, 2.0),
        (families.Exponential(), Bounds(0, 60, outside="redact"), 60.0),
        # |t(b) - t(a)| = 40 would forget the 0 of redaction
        (families.Exponential(), Bounds(20, 60, outside="redact"), 60.0),
        (families.Exponential(), Bounds(20, 60, outside="clamp"), 40.0),
        (families.Normal(variance=1), Bounds(-3, 5, outside="redact"), 8.0),
        (families.Normal(mean=1), Bounds(-3, 4, outside="clamp"), 16.0),
        (families.Normal(), Bounds(0, 100, outside="clamp"), 2.25),
        (families.Normal(), Bounds(0, 100, outside="redact"), 2.25),
        (families.Poisson(), Bounds(0, 8, outside="clamp"), 8.0),
        (families.Poisson(), Bounds(0.5, 8.5, outside="clamp"), 7.0),
        (families.Geometric(), Bounds(1, 8, outside="redact"), 8.0),
    ],
)
def test_sensitivities_are_those_worked_out_by_hand(
    family: families.Family, bounds: Bounds | None, expected: float
) -> None:
    lattice = lattice_for(family, bounds)
    assert lattice.sensitivity.pair.l1 * lattice.step[0] == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("top", [1, 2, 3, 4, 7, 8, 16, 37, 64])
def test_the_bound_of_a_rounded_parabola_holds_for_every_pair(top: int) -> None:
    """And is no more than a step in each of the two statistics too large."""
    k = np.arange(-top, top + 1)
    q = (2 * k * k + top) // (2 * top)
    most = int(((k[:, None] - k) ** 2 + (q[:, None] - q) ** 2).max())
    bound = parabola_diameter_squared(top)
    assert most <= bound <= (np.sqrt(most) + np.sqrt(2)) ** 2


def test_standardising_beats_the_papers_single_scale_ninety_times() -> None:
    """On [0, 100] the paper's noise on the sum of x is 10 100/epsilon; standardised, in units of x,
    it is 50 * 2.25/epsilon.
    """
    lattice = lattice_for(families.Normal(), Bounds(0, 100, outside="redact"))
    assert 10_100 / (50 * lattice.sensitivity.pair.l1 * lattice.step[0]) > 89


class LogAndValue(families.Family):
    """Two statistics that are no polynomials of one lattice: log x and x."""

    kind = "log_and_value"
    support = (0.0, np.inf)

    def statistic(self, x, xp=np):  # type: ignore[no-untyped-def]
        return xp.log(x), x


@pytest.mark.parametrize("outside", RULES)
@pytest.mark.parametrize("lower", [0.0, 0.5])
def test_a_users_family_gets_the_provable_bound(outside: str, lower: float) -> None:
    """The sum of the clipped ranges, whatever log 0 does to the statistic."""
    bounds = Bounds(lower, 9, outside=outside)  # type: ignore[arg-type]
    lattice = lattice_for(LogAndValue(), bounds)
    assert isinstance(lattice, Plain)
    assert lattice.sensitivity.pair.l1 == sum(hi - lo for lo, hi in lattice.ranges)
    with np.errstate(divide="ignore"):
        t = contributions(lattice, dense_records(bounds))
    assert np.abs(t[:, None] - t[None]).sum(-1).max() <= lattice.sensitivity.pair.l1


@pytest.mark.parametrize(
    "bounds",
    [
        (1e300, 1.0000001e300),
        (1e308, 1.7e308),
        (-1e-300, 1e-300),
        (0, 5e-324),
        (1.0, np.nextafter(1.0, 2)),
    ],
)
@pytest.mark.parametrize("outside", RULES)
def test_bounds_beyond_any_lattice_are_refused(bounds: tuple[float, float], outside: str) -> None:
    with pytest.raises(ValueError, match=r"bounds .* are too "):
        Bounds(*bounds, outside=outside)  # type: ignore[arg-type]


FAR, SQUARES = "too large or too close together", "give the column in other units"
REFUSED = {
    (1e149, 1e150): {("mean", "redact"): SQUARES, ("mean", "clamp"): SQUARES},
    (-1e-149, 1e-149): {("mean", "redact"): SQUARES, ("mean", "clamp"): SQUARES},
    # the 0 of redaction is so far away that floats have no digits left for the width
    (1e10, 1e10 + 0.05): {("variance", "redact"): FAR, ("mean", "redact"): FAR},
    (1e9, 1e9 + 1): {("variance", "redact"): FAR, ("mean", "redact"): FAR},
    (-1e15, 1e15): {},
    (-7.3, -7.2): {},
}


@pytest.mark.parametrize("bounds", REFUSED)
@pytest.mark.parametrize("known", ["nothing", "variance", "mean"])
@pytest.mark.parametrize("outside", RULES)
def test_extreme_bounds_keep_the_promise_or_are_refused(
    bounds: tuple[float, float], known: str, outside: str
) -> None:
    family = {
        "nothing": families.Normal(),
        "variance": families.Normal(variance=1),
        "mean": families.Normal(mean=0),
    }[known]
    limits = Bounds(*bounds, outside=outside)  # type: ignore[arg-type]
    refusal = REFUSED[bounds].get((known, outside))
    if refusal is not None:
        with pytest.raises(UnsupportedCombination, match=refusal):
            lattice_for(family, limits)
        return
    lattice = lattice_for(family, limits)
    t = np.unique(contributions(lattice, dense_records(limits)), axis=0).astype(object)
    widest = max(
        np.abs(t[i] - t[j]).sum()
        for i in range(0, len(t), max(1, len(t) // 50))
        for j in (0, len(t) // 2, len(t) - 1)
    )
    assert widest <= lattice.sensitivity.pair.l1


@pytest.mark.parametrize(
    ("family", "bounds", "missing", "message"),
    [
        (families.Bernoulli(), Bounds(0, 1, outside="clamp"), None, "leave bounds out"),
        (families.Bernoulli(), None, 0.5, "must be 0, 1"),
        (families.Exponential(), None, None, "needs bounds"),
        (families.Exponential(), Bounds(-1, 5, outside="clamp"), None, "reach outside"),
        (families.Geometric(), Bounds(0, 5, outside="clamp"), None, "reach outside"),
        (families.Poisson(), Bounds(1.2, 2.8, outside="clamp"), None, "at least two"),
        (families.Exponential(), Bounds(0, 5, outside="clamp"), 6.0, "within the bounds"),
        (families.Exponential(), Bounds(0, 5, outside="clamp"), float("nan"), "within the bounds"),
        (families.Exponential(), Bounds(0, 5, outside="redact"), 1.0, "contributes 0"),
        (families.Categorical(3, other=0), None, 1.0, "takes other="),
    ],
)
def test_what_does_not_fit_is_refused(
    family: families.Family, bounds: Bounds | None, missing: float | None, message: str
) -> None:
    with pytest.raises(UnsupportedCombination, match=message):
        lattice_for(family, bounds, missing)


@pytest.mark.parametrize("family", [families.Normal(), families.Exponential()], ids=str)
@pytest.mark.parametrize("missing", [None, 0.0, 3.0, 10.0])
def test_a_missing_record_stands_for_the_stated_value(
    family: families.Family, missing: float | None
) -> None:
    lattice = lattice_for(family, Bounds(0, 10, outside="clamp"), missing)
    value = 5.0 if missing is None else missing
    a, b = contributions(lattice, np.array([np.nan, value]))
    assert (a == b).all()
    assert isinstance(lattice, (Plain, Standardised))
