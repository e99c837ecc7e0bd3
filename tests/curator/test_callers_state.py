"""What the caller has set for the whole process (decimals, warnings, NumPy's errors) changes nothing in a release or its cost."""

import decimal
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.curator.ledger import Ledger
from noisewise.mechanism.privacy import Cost, concentrated, exact_epsilon, pure, text
from noisewise.mechanism.secure import concentrated_within, gaussian_scale, laplace_scale, private_argmin

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
    "private bounds": {"epsilon": "0.1", "bounds": PrivateBounds(0, 9, epsilon="0.0123456789012345", outside="clamp")},
    "rho": {"rho": "0.123456789012345", "bounds": PrivateBounds(0, 9, epsilon="0.0123456789012345", outside="clamp")},
    "epsilon and delta": {"epsilon": "1.123456789012345", "delta": "1e-6", "bounds": Bounds(0, 9, outside="clamp")},
}


def charged(folder: Path, name: str, settings: dict[str, Any]) -> tuple[object, ...]:
    """Everything about a release that is no noise."""
    book = Ledger(folder / f"{name}.db")
    limit: Cost = (concentrated if "rho" in settings or "delta" in settings else pure)("3.000000000000000000001")
    book.set_limit("d", limit)
    common: dict[str, Any] = {"column": "x", "family": families.Poisson(), "ledger": book.path, "dataset": "d"}
    made = noisewise.release(folder / "t.csv", **common, **settings, out=folder / f"{name}.json")
    assert noisewise.load(folder / f"{name}.json") == made
    (account,) = book.accounts()
    assert made.privacy is not None
    costs = made.privacy.epsilon, made.privacy.total_epsilon, made.privacy.delta, made.privacy.rho, made.privacy.total_rho
    scale = None if isinstance(settings["bounds"], PrivateBounds) else made.noise.scale
    return text(account.spent), text(account.left), costs, scale


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("name", CONTEXTS)
def test_a_release_within_the_callers_decimals(name: str, kind: str, folder: Path) -> None:
    wanted = charged(folder, "wanted", SETTINGS[kind])
    with within(CONTEXTS[name]):
        assert charged(folder, "found", SETTINGS[kind]) == wanted


@pytest.mark.parametrize("name", CONTEXTS)
def test_the_arithmetic_of_costs_within_the_callers_decimals(name: str) -> None:
    long = "0." + "123456789" * 5

    def all_of_it() -> list[object]:
        return [
            exact_epsilon(long),
            Cost("epsilon", exact_epsilon(long)).counted_in("rho"),
            laplace_scale(3, Decimal("0.7")),
            gaussian_scale(3, Decimal("0.7")),
            concentrated_within(Decimal("0.7"), Decimal("1e-6")),
            private_argmin([0, 10**12], 1, Decimal("0.7")),
            text(exact_epsilon("1e-20")),
        ]

    wanted = all_of_it()
    with within(CONTEXTS[name]):
        assert all_of_it() == wanted
        for wrong in ("one", "nan", "1_0", Decimal("nan"), Decimal("sNaN"), Decimal("inf"), "0", -1):
            with pytest.raises(ValueError, match="must be a"):
                exact_epsilon(wrong)
