"""What the caller has set for the whole process (decimals, warnings, NumPy's errors) changes
nothing in a release or its cost.
"""

import decimal
import math
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.curator import publish
from noisewise.curator.ledger import Ledger
from noisewise.curator.publish import Prepared
from noisewise.curator.settings import Settings
from noisewise.curator.shield import CALM
from noisewise.mechanism import privacy
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.mechanisms import MECHANISMS
from noisewise.mechanism.opendp import concentrated_within, private_argmin
from noisewise.mechanism.privacy import Cost, concentrated, exact_epsilon, pure, text
from tables import exact_sums

SIGNALS = list(decimal.Context().flags)
CONTEXTS = {
    "few digits": decimal.Context(prec=9),
    "one digit, up": decimal.Context(prec=1, rounding=decimal.ROUND_UP),
    "few digits, down": decimal.Context(prec=3, rounding=decimal.ROUND_DOWN),
    "everything is a fault": decimal.Context(prec=2, traps=SIGNALS),
    "floats are faults": decimal.Context(traps=[decimal.FloatOperation]),
    "nothing is a fault": decimal.Context(prec=5, traps=[]),
    "small exponents": decimal.Context(prec=4, Emin=0, Emax=0, clamp=1, traps=SIGNALS),
}


@contextmanager
def within(context: decimal.Context) -> Iterator[None]:
    with decimal.localcontext(context):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{i % 7}\n" for i in range(200)))
    return tmp_path


SETTINGS: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": "0.123456789012345", "bounds": Bounds(0, 9, outside="clamp")},
    "float": {"epsilon": 0.1, "bounds": Bounds(0, 9, outside="clamp")},
    "private bounds": {
        "epsilon": "0.1",
        "bounds": PrivateBounds(0, 9, epsilon="0.0123456789012345", outside="clamp"),
    },
    "rho": {
        "rho": "0.123456789012345",
        "bounds": PrivateBounds(0, 9, epsilon="0.0123456789012345", outside="clamp"),
    },
    "epsilon and delta": {
        "epsilon": "1.123456789012345",
        "delta": "1e-6",
        "bounds": Bounds(0, 9, outside="clamp"),
    },
}


def charged(folder: Path, name: str, settings: dict[str, Any]) -> tuple[object, ...]:
    """Everything about a release that is no noise."""
    book = Ledger(folder / f"{name}.db")
    limit: Cost = (concentrated if "rho" in settings or "delta" in settings else pure)(
        "3.000000000000000000001"
    )
    book.set_limit("d", limit)
    common: dict[str, Any] = {
        "column": "x",
        "family": families.Poisson(),
        "ledger": book.path,
        "dataset": "d",
    }
    made = noisewise.release(folder / "t.csv", **common, **settings, out=folder / f"{name}.json")
    assert noisewise.load(folder / f"{name}.json") == made
    (account,) = book.accounts()
    assert made.privacy is not None
    costs = (
        made.privacy.epsilon,
        made.privacy.total_epsilon,
        made.privacy.delta,
        made.privacy.rho,
        made.privacy.total_rho,
    )
    scale = None if isinstance(settings["bounds"], PrivateBounds) else made.noise.scale
    return text(account.spent), text(account.left), costs, scale


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("name", CONTEXTS)
def test_the_callers_decimal_context_changes_no_release(name: str, kind: str, folder: Path) -> None:
    wanted = charged(folder, "wanted", SETTINGS[kind])
    with within(CONTEXTS[name]):
        assert charged(folder, "found", SETTINGS[kind]) == wanted


@pytest.mark.parametrize("name", CONTEXTS)
def test_the_callers_decimal_context_changes_no_cost(name: str) -> None:
    long = "0." + "123456789" * 5

    def all_of_it() -> list[object]:
        return [
            exact_epsilon(long),
            Cost("epsilon", exact_epsilon(long)).counted_in("rho"),
            MECHANISMS["epsilon"].smallest_scale(3, Decimal("0.7")),
            MECHANISMS["rho"].smallest_scale(3, Decimal("0.7")),
            concentrated_within.__wrapped__(Decimal("0.7"), Decimal("1e-6")),  # not from the cache
            private_argmin([0, 10**12], 1, Decimal("0.7")),
            text(exact_epsilon("1e-20")),
        ]

    wanted = all_of_it()
    with within(CONTEXTS[name]):
        assert all_of_it() == wanted
        for wrong in (
            "one",
            "nan",
            "1_0",
            Decimal("nan"),
            Decimal("sNaN"),
            Decimal("inf"),
            "0",
            -1,
        ):
            with pytest.raises(ValueError, match="must be a"):
                exact_epsilon(wrong)


class Loud(families.Family):
    """Its statistic warns wherever it is asked, over- and underflows, and breaks down on narrow
    bounds.
    """

    kind = "loud"
    support = (0.0, math.inf)

    def statistic(self, x: Any, xp: Any = np) -> tuple[Any, ...]:
        warnings.warn("a warning", RuntimeWarning, stacklevel=1)
        if xp is np and np.size(x) > 1000 and np.ptp(x) < 50:
            raise ZeroDivisionError
        return xp.exp(100 * x) * 0 + x, xp.exp(-100 * x) * 1e-300 + xp.sqrt(x)


@pytest.fixture
def strict() -> Iterator[None]:
    """The caller takes every warning, and every odd number in NumPy, for an error."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    "family",
    [families.Poisson(), families.Normal(), families.Gamma(shape=2), families.Exponential()],
)
def test_a_release_is_made_where_warnings_are_errors(family: Any, tmp_path: Path) -> None:
    odd = [
        1e308,
        -1e308,
        5e-324,
        math.inf,
        math.nan,
        None,
        10**400,
        "1e999",
        True,
        complex(1, 0),
        np.float32("inf"),
        np.complex64(1),
    ]
    frame = pd.DataFrame({"x": pd.Series([1.0, 2.0, *odd], dtype=object)})
    for bounds in (Bounds(0, 9, outside="redact"), PrivateBounds(0, 9, epsilon=1, outside="clamp")):
        made = noisewise.release(
            frame, column="x", family=family, bounds=bounds, epsilon=1, ledger=None
        )
        assert made.n == len(frame)
    assert warnings.filters[0][0] == "error"  # the caller's filters are there again


def test_a_warning_of_a_record_is_nobodys_business() -> None:
    """Python itself warns of a float of another class; whether it does would tell of a record."""

    class Odd(int):
        def __float__(self) -> float:
            warnings.warn("the record speaks", UserWarning, stacklevel=1)
            return 2.0

    def total(item: Any) -> Any:
        frame = pd.DataFrame({"x": pd.Series([1.0, item], dtype=object)})
        return exact_sums(frame, lattice_for(families.Poisson(), Bounds(0, 9, outside="clamp")))

    for filters in ("error", "always", "ignore"):
        with warnings.catch_warnings(record=filters == "always") as caught:
            warnings.simplefilter(filters)  # type: ignore[arg-type]
            assert total(Odd(1)) == total(2.0)
            assert not caught


@pytest.mark.usefixtures("strict")
def test_a_family_that_breaks_down_after_the_charge_is_released_within_the_whole_range(
    tmp_path: Path,
) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        book = Ledger(tmp_path / "budget.db")
        book.set_limit("d", pure(99))
        frame = pd.DataFrame({"x": [1.0, 2.0, 3.0] * 100})
        # The private quantiles of 300 records miss 1 and 2 by more than 40 candidates with a chance
        # far below 1e-6.
        bounds = PrivateBounds(0, 100, epsilon=40, quantiles=(0.1, 0.5), outside="clamp")
        request = prepare(frame, bounds, book.path)
    made = request.publish()
    assert made[0].bounds == Bounds(0, 100, outside="clamp")
    assert book.accounts()[0].spent == 41


def prepare(frame: pd.DataFrame, bounds: PrivateBounds, ledger: Path) -> Prepared:
    settings = Settings(
        column="x", family=Loud(), bounds=bounds, epsilon=1, ledger=ledger, dataset="d"
    )
    return publish.prepare(frame, settings)


def test_threads_leave_the_callers_filters_as_they_were() -> None:
    before = list(warnings.filters)
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(200):
            with CALM:
                time.sleep(0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


def test_threads_leave_the_warning_filters_alone() -> None:
    before = list(warnings.filters)
    frame = pd.DataFrame({"x": [1, 0, "a"]})
    jobs = [
        threading.Thread(
            target=lambda: noisewise.release(
                frame, column="x", family=families.Bernoulli(), epsilon=1, ledger=None
            )
        )
        for _ in range(6)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert list(warnings.filters) == before


def test_amounts_are_exact_whatever_the_decimal_context() -> None:
    with decimal.localcontext() as context:
        context.prec = 2
        assert privacy.compose(
            privacy.half(Decimal("0.1119")), privacy.half(Decimal("0.1119"))
        ) == Decimal("0.1119")
    many_nines = Decimal("0." + "9" * 45)
    assert privacy.compose(privacy.half(many_nines), privacy.half(many_nines)) == many_nines
    assert privacy.text(privacy.exact_epsilon(np.float64(0.1))) == "0.1"
