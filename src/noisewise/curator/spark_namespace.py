"""A namespace that stands in for NumPy, so that a lattice is evaluated by Spark itself.

Only what has the same digits and meaning there as in DuckDB: arithmetic and comparisons of doubles.
Spark says that NULL is not NaN, where DuckDB does not know; its floor is a long. Logarithms and the
like are missing, because Java's may differ in the last digit.
"""

import math
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as spark

WHOLE = 2.0**53
"""A double as large as this has no digits after the point."""
nan = None
"""What stands for a missing number: NULL."""


def where(condition: Column, yes: Any, no: Any) -> Column:
    return spark.when(condition, _column(yes)).otherwise(_column(no))


def floor(x: Column) -> Column:
    """As a double, of every double: a long has no infinity and no NaN, and an end."""
    return where(abs(x) < WHOLE, spark.floor(x).cast("double"), x)


def isnan(x: Column) -> Column:
    return ~(x <= math.inf)


def isfinite(x: Column) -> Column:
    return abs(x) < math.inf


def abs(x: Column) -> Column:
    return spark.abs(x)


def _column(value: Any) -> Column:
    return value if isinstance(value, Column) else spark.lit(value)
