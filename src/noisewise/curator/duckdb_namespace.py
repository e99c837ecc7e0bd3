"""A namespace that stands in for NumPy, so that a lattice is evaluated inside DuckDB."""

from typing import Any

from duckdb import CaseExpression, ConstantExpression, Expression, FunctionExpression

nan = None
"""What stands for a missing number: NULL."""


def where(condition: Expression, yes: Any, no: Any) -> Expression:
    return CaseExpression(condition, _expression(yes)).otherwise(_expression(no))


def floor(x: Expression) -> Expression:
    return FunctionExpression("floor", x)


def isnan(x: Expression) -> Expression:
    return FunctionExpression("isnan", x)


def isfinite(x: Expression) -> Expression:
    return FunctionExpression("isfinite", x)


def astype(x: Expression, kind: str) -> Expression:
    return x.cast({"int64": "BIGINT", "float64": "DOUBLE"}[kind])


def abs(x: Expression) -> Expression:
    return FunctionExpression("abs", x)


def exp(x: Expression) -> Expression:
    return FunctionExpression("exp", x)


def log(x: Expression) -> Expression:
    """As NumPy's; DuckDB's own raises at and below 0, which would tell about a record."""
    nan = ConstantExpression(float("nan"))
    return where(
        x > 0.0,
        FunctionExpression("ln", where(x > 0.0, x, 1.0)),
        where(x == 0.0, -float("inf"), nan),
    )


def sqrt(x: Expression) -> Expression:
    """As NumPy's; DuckDB's own raises below 0."""
    return where(x >= 0.0, FunctionExpression("sqrt", where(x >= 0.0, x, 0.0)), float("nan"))


def attempt(x: Expression, of: Expression) -> Expression:
    """x, a function of the finite column `of`; NULL where it fails: an error would tell about a
    record.

    Only within a CASE is it evaluated where it stands. Anywhere else DuckDB may move a part of it,
    if it occurs twice, to where TRY does not reach.
    """
    return FunctionExpression("try", where(isfinite(of), x, None))


def _expression(value: Any) -> Expression:
    return value if isinstance(value, Expression) else ConstantExpression(value)
