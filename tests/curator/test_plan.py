"""What a plan says beforehand: how wide the noise is, how far records vary, what narrower bounds
change.
"""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import noisewise
from cases import CASES, Case, name
from noisewise import Bounds, PrivateBounds, families
from noisewise.curator import publish
from noisewise.curator.ledger import Ledger
from noisewise.curator.plan import Plan
from noisewise.curator.publish import exact_numbers
from noisewise.curator.settings import Settings
from noisewise.errors import UnsupportedCombination
from noisewise.files import check_writable
from noisewise.mechanism.lattice import Plain
from noisewise.mechanism.opendp import MOST_SUM
from noisewise.mechanism.privacy import pure


def plan_of(family: families.Family, bounds: Any, **asked: Any) -> Plan:
    cost = {} if "rho" in asked else {"epsilon": 1}
    return Plan.widest(Settings(column="x", family=family, bounds=bounds, **cost, **asked))


@pytest.mark.parametrize("case", CASES, ids=name)
@pytest.mark.parametrize("cost", [{"epsilon": 2}, {"rho": "0.1"}], ids=str)
def test_the_noise_sd_is_that_of_the_declared_noise(case: Case, cost: dict[str, Any]) -> None:
    """In the statistic's own units: by its characteristic function near 0, 1 - omega^2 sd^2/2."""
    for bounds in case.bounds("clamp"):
        plan = Plan.widest(Settings(column="x", family=case.family, bounds=bounds, **cost))
        sd = np.array(plan.noise_sd())
        omega = 1e-3 / sd
        curvature = (1 - plan.noise.characteristic(omega)) * 2 / omega**2
        np.testing.assert_allclose(np.sqrt(curvature), sd, rtol=2e-3)


@pytest.mark.parametrize("case", CASES, ids=name)
@pytest.mark.parametrize("outside", ["redact", "clamp"])
def test_no_sum_of_records_varies_more_than_its_plan_says(case: Case, outside: str) -> None:
    """Half of the records at either end of the range vary most: their sum has that sd."""
    n = 400
    for bounds in case.bounds(outside):
        plan = plan_of(case.family, bounds)
        ranges, steps = np.array(plan.lattice.ranges), np.array(plan.lattice.step)
        ends = ranges * steps[:, None]
        sd = math.sqrt(n) * ends.std(axis=1)
        np.testing.assert_allclose(plan.largest_sampling_sd(n), sd, rtol=1e-12)


def test_a_missing_record_stands_for_a_value_within_narrower_bounds() -> None:
    for given, stands_for in ((99.0, 10.0), (0.0, 2.0), (3.0, 3.0), (None, 6.0)):
        bounds = PrivateBounds(0, 100, epsilon=1, outside="clamp")
        plan = plan_of(families.Exponential(), bounds, missing=given)
        assert isinstance(plan.lattice, Plain)
        assert plan.lattice.missing == (50.0 if given is None else given)
        narrow = plan.narrowed(Bounds(2, 10, outside="clamp"))
        assert isinstance(narrow.lattice, Plain)
        assert narrow.bounds == Bounds(2, 10, outside="clamp")
        assert narrow.lattice.missing == stands_for
        assert narrow.sensitivity * narrow.lattice.step[0] == pytest.approx(8.0, rel=1e-5)


@pytest.mark.parametrize("records", [True, False, 0, -1, 1.0, "2", 10**6 + 1])
def test_records_per_person_is_a_whole_number_from_1_to_a_million(records: object) -> None:
    with pytest.raises(UnsupportedCombination, match="whole number from 1 to a million"):
        plan_of(families.Bernoulli(), None, records_per_person=records)
    assert plan_of(families.Bernoulli(), None, records_per_person=10**6).scale >= 10**6


@pytest.mark.parametrize("field", ["column", "dataset", "description"])
@pytest.mark.parametrize("value", ["a\x1b[31m", "two\nlines", b"bytes", 3])
def test_names_and_descriptions_are_printable_text(field: str, value: object) -> None:
    asked = {"column": "x", field: value}
    with pytest.raises(UnsupportedCombination, match=f"{field} must be printable text"):
        Settings(family=families.Bernoulli(), epsilon=1, **asked)  # type: ignore[arg-type]


def test_counts_of_all_categories_need_no_count_of_their_own() -> None:
    """Where n is not public: a record changes one of them by 1, and they add up to n."""
    family = families.Categorical(["a", "b", "c"], other="c")
    for cost, scale in (({"epsilon": 2}, 0.5), ({"rho": 2}, 0.5)):
        asked = Settings(column="x", family=family, neighbours="add_remove", **cost)
        plan = Plan.widest(asked)
        assert (plan.count_weight, plan.count_noise) == (0, None)
        assert plan.sensitivity == 1
        assert plan.scale == pytest.approx(scale, rel=1e-12)
    counted = Settings(column="x", family=families.Bernoulli(), neighbours="add_remove", epsilon=2)
    assert Plan.widest(counted).count_weight == 1


@pytest.mark.parametrize("first", [1, 20_000])
def test_sums_of_any_group_that_would_pass_63_bits_are_refused_for_nothing(
    first: int, tmp_path: Path
) -> None:
    """Whichever of the groups is the large one."""
    book = Ledger(tmp_path / "b.db")
    book.set_limit("d", pure(9))
    sizes = (first, 20_001 - first)
    frame = pd.DataFrame({"x": 1.0, "g": np.repeat(["a", "b"], sizes)})
    asked: dict[str, Any] = {"column": "x", "epsilon": 1, "ledger": book.path, "dataset": "d"}
    asked |= {"family": families.Poisson(), "bounds": Bounds(0, 1e15, outside="clamp")}
    for grouping in ({"by": "g", "groups": ["a", "b"], "sizes": "public"}, {}):
        with pytest.raises(UnsupportedCombination, match="do not fit in 63 bits"):
            noisewise.release(frame, **asked, **grouping)
    assert book.accounts()[0].spent == 0


def test_sums_of_unknown_size_are_clipped_where_noise_still_fits() -> None:
    """n is not public, so that nothing may be refused for it."""
    bounds = Bounds(30, 31, outside="clamp")
    plan = plan_of(families.Exponential(), bounds, neighbours="add_remove")
    steps, least = plan.count_weight, plan.lattice.offset[0]
    assert exact_numbers(plan, 10, [7]) == [10 * steps, 10 * least + 7]
    assert exact_numbers(plan, 2**50, [0]) == [MOST_SUM, MOST_SUM]
    assert exact_numbers(plan, 0, [-(2**70)])[1] == -MOST_SUM


def test_what_is_checked_to_fit_the_disk_holds_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blank release of the longest name, once for each group, is no smaller than the file."""
    checked: list[int] = []

    def remember(path: Path, size: int) -> None:
        checked.append(size)
        check_writable(path, size)

    monkeypatch.setattr(publish, "check_writable", remember)
    frame = pd.DataFrame({"x": [0, 1, 1], "g": ["a", "b", "b"]})
    groups = ["a", "b", *(f"group {k}" for k in range(20))]
    for number in (1, len(groups)):
        out = tmp_path / f"{number}.jsonl"
        noisewise.release(
            frame,
            column="x",
            family=families.Bernoulli(),
            epsilon=1,
            ledger=None,
            by="g",
            groups=groups[:number],
            sizes="public",
            out=out,
        )
        assert out.stat().st_size <= checked[-1]


def test_private_bounds_leave_room_for_whatever_is_chosen(tmp_path: Path) -> None:
    """Noise that just fits beside few records may need twice its scale within the chosen bounds:
    refused beforehand, for nothing.
    """
    book = Ledger(tmp_path / "b.db")
    book.set_limit("d", pure(9))
    most = Decimal(2**63 - MOST_SUM) / 200 * (1 - Decimal("1e-12"))
    asked: dict[str, Any] = {
        "column": "x",
        "family": families.Exponential(),
        "epsilon": format(Decimal(2**20) / most, ".30f"),
        "ledger": book.path,
        "dataset": "d",
    }
    frame = pd.DataFrame({"x": np.full(20_000, 0.5)})
    with pytest.raises(UnsupportedCombination, match="do not fit in 63 bits"):
        noisewise.release(frame, bounds=PrivateBounds(0, 1, epsilon=1, outside="clamp"), **asked)
    assert book.accounts()[0].spent == 0
    noisewise.release(frame, bounds=Bounds(0, 1, outside="clamp"), **asked)
