"""Figures within a page whose policy forbids styles in it: each style becomes attributes."""

import html
import re

_STYLE = re.compile(r'\sstyle="([^"]*)"')
_SHEET = re.compile(r"<style[^>]*>.*?</style>", re.DOTALL)
_FONT = re.compile(r"^(?:(italic|oblique)\s+)?(?:(bold|\d+)\s+)?([\d.]+(?:px|pt)?)\s+(.*)$")
"""A font in one line, as matplotlib writes it: style, weight, size, families."""


def without_styles(markup: str) -> str:
    """The same markup: a style's properties are attributes of the element, which SVG allows."""
    return _STYLE.sub(lambda found: _attributes(html.unescape(found[1])), _SHEET.sub("", markup))


def _attributes(style: str) -> str:
    held: dict[str, str] = {}
    for part in style.split(";"):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not colon:
            continue
        if name == "font":
            found = _FONT.match(value)
            if found is not None:
                named = zip(
                    ("font-style", "font-weight", "font-size", "font-family"),
                    found.groups(),
                    strict=True,
                )
                held |= {key: said for key, said in named if said}
        else:
            held[name] = value
    return "".join(f' {name}="{html.escape(value)}"' for name, value in held.items())
