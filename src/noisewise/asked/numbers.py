"""Numbers as a person types them: ASCII digits, a decimal point, perhaps an exponent; no more of
what Python would take.
"""

from typing import overload

from noisewise.errors import NoisewiseError


def number(text: str, option: str) -> float:
    """The number that an option was given."""
    from noisewise.mechanism.privacy import NUMERAL

    if NUMERAL.fullmatch(text) is None:
        raise NoisewiseError(
            f"{option} must be a finite number with a decimal point, such as 0.5; got {text!r}."
        )
    return float(text)


@overload
def pair(texts: tuple[str, str], option: str) -> tuple[float, float]: ...
@overload
def pair(texts: None, option: str) -> None: ...
def pair(texts: tuple[str, str] | None, option: str) -> tuple[float, float] | None:
    """The two numbers that an option was given, if it was given."""
    return None if texts is None else (number(texts[0], option), number(texts[1], option))


def whole(text: str, option: str) -> int:
    """The whole number that an option was given."""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise NoisewiseError(f"{option} must be a whole number, such as 3; got {text!r}.")
    return int(text)
