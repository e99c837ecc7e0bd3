"""A figure as markup within a page: an svg element in the page's colours.

It is taken apart and put together again as a tree. A column's name in it is text and stays text: a
pattern over the markup could take it for more.
"""

import hashlib
import io
import re
from typing import Any
from xml.etree import ElementTree

PAINT = {
    "#000000": "currentColor",
    "#444444": "var(--soft)",
    "#666666": "var(--soft)",
    "#888888": "var(--soft)",
    "#0072b2": "var(--c0)",
    "#d55e00": "var(--c1)",
    "#009e73": "var(--c2)",
}
"""What a figure's colours are called on a page."""
LEFT_OUT = ("metadata", "style")
"""Elements that a page does without: it says itself when it was made, and has styles of its own."""
FOR_ALL = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
"""What a figure's own style says of all its lines."""
_FONT = re.compile(r"^(?:(italic|oblique)\s+)?(?:(bold|\d+)\s+)?([\d.]+(?:px|pt)?)\s+(.*)$")
"""A font in one line, as matplotlib writes it: style, weight, size, families."""
_PROPERTY = re.compile("[a-z-]+")
_OWN = re.compile(r"(url\(#|^#)")
"""What refers to another element of the figure."""


def svg(made: Any) -> str:
    """A figure as an svg element without a date, an address, a background or styles (a strict page
    allows none), in the page's colours and with ids that no other figure of the page has.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "noisewise", "svg.fonttype": "none"}):
        made.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = buffer.getvalue()
    root = ElementTree.fromstring(text)  # noqa: S314 (matplotlib's own)
    mark = f"f{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    for element in list(root.iter()):
        for child in [one for one in element if _local(one.tag) in LEFT_OUT]:
            element.remove(child)
        element.tag = _local(element.tag)
        known = {_local(name): value for name, value in element.attrib.items()}
        known |= _properties(known.pop("style", ""))
        element.attrib.clear()
        element.attrib |= {name: _renamed(name, value, mark) for name, value in known.items()}
    root.attrib |= FOR_ALL
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    """Without its namespace: a page knows what svg is."""
    return name.rpartition("}")[2]


def _renamed(name: str, value: str, mark: str) -> str:
    if name == "id":
        return mark + value
    return PAINT.get(value, _OWN.sub(lambda found: found[1] + mark, value))


def _properties(style: str) -> dict[str, str]:
    """A style's properties as attributes, which SVG allows."""
    held: dict[str, str] = {}
    for part in style.split(";"):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not colon or _PROPERTY.fullmatch(name) is None:
            continue
        font = _FONT.match(value) if name == "font" else None
        if font is None:
            held[name] = value
        else:
            named = ("font-style", "font-weight", "font-size", "font-family")
            held |= {key: said for key, said in zip(named, font.groups(), strict=True) if said}
    return held
