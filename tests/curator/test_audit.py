"""The audit: honest releases stay below what they declare, broken ones are caught. 4000 releases of each table, confidence 99.99 %.

The noise is fresh each time, and the bars leave room for that.
"""

from typing import Any

import pytest

from noisewise import Bounds, families
from noisewise.cli.main import run
from noisewise.curator import publish
from noisewise.curator.audit import audit
from noisewise.mechanism import lattice, secure, sensitivity

RUNS = 4000
LETTERS = families.Categorical(["a", "b", "c"], other="c")


@pytest.mark.parametrize("relation", [{}, {"neighbours": "add_remove"}, {"sizes": "released"}], ids=["replace", "add", "move"])
@pytest.mark.parametrize(
    ("family", "bounds", "cost"),
    [
        (families.Bernoulli(), None, {"epsilon": 4}),
        (LETTERS, None, {"epsilon": 4}),
        (families.Exponential(), Bounds(5, 10, outside="redact"), {"epsilon": 4}),
        (families.Normal(), Bounds(-2, 6, outside="clamp"), {"epsilon": 4}),
        (families.Poisson(), Bounds(0, 6, outside="clamp"), {"rho": 2}),
    ],
)
def test_no_more_is_spent_than_declared_and_much_of_it_is_seen(
    family: Any, bounds: Any, cost: dict[str, Any], relation: dict[str, str]
) -> None:
    """An attack has most power neither where releases hardly differ nor where it waits for an event that hardly ever comes."""
    found = audit(family, bounds=bounds, runs=RUNS, **relation, **cost)
    assert found.kept
    assert found.bound > 0.3 * float(found.declared.amount)


def test_a_sensitivity_of_half_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sensitivity.of_release

    def half(*arguments: Any) -> tuple[int, int]:
        weight, distance = whole(*arguments)
        return weight, distance // 2

    monkeypatch.setattr(sensitivity, "of_release", half)
    for family, bounds in ((families.Exponential(), Bounds(0, 9, outside="clamp")), (LETTERS, None)):
        assert not audit(family, bounds=bounds, epsilon=2, runs=RUNS).kept
    monkeypatch.setattr(sensitivity, "of_release", lambda *arguments: (whole(*arguments)[0], whole(*arguments)[1] // 4))
    assert not audit(families.Exponential(), bounds=Bounds(0, 9, outside="clamp"), rho=0.5, runs=RUNS).kept


def test_one_draw_for_all_counts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(sums: list[int], scale: float, gaussian: bool = False) -> list[int]:
        (draw,) = secure.add_noise([0], scale, gaussian)
        return [value + draw for value in sums]

    monkeypatch.setattr(publish, "add_noise", shared)
    assert not audit(LETTERS, epsilon=1, runs=RUNS).kept


def test_the_forgotten_zero_of_redaction_is_caught(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lattice.Plain, "ranges", property(lambda self: tuple(zip(self.low, self.high, strict=True))))
    words = f"audit --family exponential --bounds 5 10 --outside redact --epsilon 1 --runs {RUNS}"
    assert run(words.split()) == 1
    assert "MORE IS SPENT THAN DECLARED" in capsys.readouterr().out
