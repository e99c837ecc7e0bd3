"""Formulas in dollar signs become MathML while the site is built: no script, nothing to load."""

import re
from xml.etree.ElementTree import fromstring

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

BLOCK = r"\$\$(.+?)\$\$"
INLINE = r"(?<![\w\\$])\$(?=\S)([^$]+?)(?<=\S)\$(?!\w)"
TIGHT = re.compile(r"<mo([^>]*)>(&#x0007C;|\||/|&#x0002F;)</mo>")
"""Bars and slashes: the converter does not say that nothing stands around them."""
SIGN = re.compile(
    r"(<mrow>|<mo[^>]*>(?:[=,([]|&#x(?:0003D|00028|0005B|0002C|02264|02265);)</mo>)<mo>&#x02212;</mo>"
)
"""A minus at the beginning, or after another sign: it belongs to what follows."""
AFTER_CODE = 185
"""The priority of the patterns: after code in backticks (190), before escapes (180)."""


class Formula(InlineProcessor):
    """What stands between the dollar signs, as MathML."""

    def __init__(self, pattern: str, md: Markdown, display: str) -> None:
        super().__init__(pattern, md)
        self.display = display

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        tex = m.group(1).strip()
        mathml = convert(tex, display=self.display)
        mathml = TIGHT.sub(r'<mo\1 lspace="0" rspace="0">\2</mo>', mathml)
        mathml = SIGN.sub(r'\1<mo form="prefix">&#x02212;</mo>', mathml)
        if "\\" in "".join(fromstring(mathml).itertext()):  # left as it stands: not known
            raise ValueError(f"a formula is not understood: {tex}")
        return self.md.htmlStash.store(mathml), m.start(0), m.end(0)


class Formulas(Extension):
    """$ ... $ within a line, $$ ... $$ by itself."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(Formula(BLOCK, md, "block"), "formula-block", AFTER_CODE + 1)
        md.inlinePatterns.register(Formula(INLINE, md, "inline"), "formula", AFTER_CODE)


def makeExtension(**settings: object) -> Formulas:
    """What Markdown calls."""
    return Formulas(**settings)
