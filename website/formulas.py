"""Formulas in dollar signs become MathML while the site is built: no script, nothing to load."""

import re
from xml.etree.ElementTree import Element, fromstring

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

BLOCK = r"\$\$(.+?)\$\$"
INLINE = r"(?<![\w\\$])\$(?=\S)([^$]+?)(?<=\S)\$(?!\w)"
AFTER_CODE = 185
"""The priority of the patterns: after code in backticks (190), before escapes (180) and emphasis."""


class Formula(InlineProcessor):
    """What stands between the dollar signs, as MathML."""

    def __init__(self, pattern: str, md: Markdown, display: str) -> None:
        super().__init__(pattern, md)
        self.display = display

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # type: ignore[override]
        tex = m.group(1).strip()
        mathml = convert(tex, display=self.display)
        known = "".join(element(fromstring(mathml)))
        if "\\" in known:  # what it does not know, the converter leaves as it stands
            raise ValueError(f"a formula is not understood: {tex}")
        return self.md.htmlStash.store(mathml), m.start(0), m.end(0)


def element(tree: Element) -> list[str]:
    """The text of every element."""
    return [node.text or "" for node in tree.iter()]


class Formulas(Extension):
    """$ ... $ within a line, $$ ... $$ by itself."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(Formula(BLOCK, md, "block"), "formula-block", AFTER_CODE + 1)
        md.inlinePatterns.register(Formula(INLINE, md, "inline"), "formula", AFTER_CODE)


def makeExtension(**settings: object) -> Formulas:
    """What Markdown calls."""
    return Formulas(**settings)
