"""JSON that says one thing: no key twice, finite numbers, and a checksum over all of it."""

import hashlib
import json
import math
from typing import Any

from noisewise.errors import ReleaseFormatError

_LONGEST_NUMBER = 30
"""Digits of a whole number in a file: far more than any field has, and few enough to read."""


def digest(content: dict[str, Any]) -> str:
    """The checksum, which does not depend on white space or on the order of keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def strict_json(data: bytes | str) -> Any:
    """JSON without duplicate keys, NaN, infinities or numbers beyond 64-bit floats."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            raise ReleaseFormatError(
                "a key stands twice in the file; ask the curator for the original."
            )
        return content

    def number(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise ReleaseFormatError(
                "a number in the file is not finite; ask the curator for the original."
            )
        return value

    def whole(text: str) -> int:
        if len(text) > _LONGEST_NUMBER:
            raise ReleaseFormatError(
                "a whole number in the file is too long; ask the curator for the original."
            )
        return int(text)

    try:
        return json.loads(
            data, object_pairs_hook=once, parse_float=number, parse_int=whole, parse_constant=number
        )
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ReleaseFormatError(
            "this is not JSON, or a cut file; ask the curator for the original."
        ) from None
