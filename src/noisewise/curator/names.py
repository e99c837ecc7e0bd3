"""Names of datasets: two that look the same are the same, or one of them is refused."""

import re
import unicodedata

from noisewise.errors import LedgerError

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters, marks and signs to Python, but nothing on a screen (Unicode's
Default_Ignorable_Code_Point; the empty Braille cell).
"""


def plain_name(name: str) -> str:
    """The name in Unicode's composed form (NFC); refused if it holds what nobody would see."""
    composed = unicodedata.normalize("NFC", name)
    if not composed or not composed.isprintable() or composed != looks(composed):
        raise LedgerError(
            f"dataset must be a printable name, such as visits-2026, got {name!a}: without "
            "invisible characters, and with no white space but single spaces between its words."
        )
    return composed


def looks(name: str) -> str:
    """What a person sees of a name: composed, without invisible characters, and any white space as
    single spaces between words.
    """
    seen = "".join(
        " " if letter.isspace() else letter
        for letter in name
        if letter.isspace() or letter.isprintable()
    )
    return " ".join(unicodedata.normalize("NFC", _INVISIBLE.sub("", seen)).split())
