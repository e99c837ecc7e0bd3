"""A font for formulas, so that they look the same everywhere: STIX Two Math (SIL Open Font
License), as ziamath ships it, cut down to what the formulas of the site need.
"""

import re
from html import unescape
from importlib.metadata import distribution
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

FONT = "ziamath/fonts/STIXTwoMath-Regular.ttf"
STYLED = re.compile(r"<mi[^>]*>([^<])</mi>")
"""A letter by itself, which browsers draw in italics: in fonts, a character of its own."""
DRAWN = "√"
"""What elements stand for: a root has no text that names its sign."""
ITALIC = {"A": 0x1D434, "a": 0x1D44E, "\N{GREEK SMALL LETTER ALPHA}": 0x1D6FC}
"""Where the italics of an alphabet begin, by its first letter."""


def write(site: Path) -> None:
    """Put the font where site.css looks for it."""
    formulas = "".join(
        "".join(re.findall(r"<math.*?</math>", page.read_text(), re.DOTALL))
        for page in site.rglob("*.html")
    )
    text = unescape(re.sub(r"<[^>]*>", "", formulas))
    letters = {unescape(letter) for letter in STYLED.findall(formulas)}
    font = TTFont(str(distribution("ziamath").locate_file(FONT)))
    cut = Subsetter(Options(layout_features=["*"]))  # smaller shapes for primes and indices, too
    cut.populate(text=text + DRAWN + "".join(map(italic, letters)))
    cut.subset(font)
    font.save(site / "formulas.ttf")


def italic(letter: str) -> str:
    """The mathematical italic of a Latin or Greek letter; of anything else, itself."""
    if letter == "h":
        return "\N{PLANCK CONSTANT}"  # Unicode had it before the others
    for first, there in ITALIC.items():
        if 0 <= ord(letter) - ord(first) < 26:
            return chr(there + ord(letter) - ord(first))
    return letter
