"""One self-contained HTML page: text, tables and figures, nothing loaded from elsewhere."""

import hashlib
import html
import io
import re
from collections.abc import Sequence
from typing import Any

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto;
  padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.85rem; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: right;
  vertical-align: top; }
th { text-align: right; background: #f5f5f5; } td.text, th.text { text-align: left; }
tr.bad td { background: #fdeee2; } .scroll { overflow-x: auto; }
svg { max-width: 100%; height: auto; } code { background: #f5f5f5; }
"""


class Page:
    """Built piece by piece."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = [f"<h1>{html.escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        """A section."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, words: str) -> None:
        """A paragraph; `code` stands between backticks."""
        self._parts.append(f"<p>{_marked(words)}</p>")

    def items(self, lines: Sequence[str]) -> None:
        """A list."""
        made = "".join(f"<li>{_marked(line)}</li>" for line in lines)
        self._parts.append(f"<ul>{made}</ul>")

    def table(self, rows: Sequence[dict[str, Any]], bad: Sequence[bool] | None = None) -> None:
        """Rows with the same columns; those marked bad are tinted."""
        names = list(rows[0])
        left = {name for name in names if isinstance(rows[0][name], str)}
        head = "".join(
            f"<th{' class=text' if name in left else ''}>{html.escape(name)}</th>" for name in names
        )
        body = []
        for nth, row in enumerate(rows):
            cells = "".join(
                f"<td{' class=text' if name in left else ''}>{html.escape(_show(row[name]))}</td>"
                for name in names
            )
            body.append(f"<tr{' class=bad' if bad is not None and bad[nth] else ''}>{cells}</tr>")
        self._parts.append(
            "<div "
            f"class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        )

    def figure(self, made: Any, description: str) -> None:
        """A matplotlib figure, as SVG within the page."""
        self._parts.append(
            f'<figure role="img" aria-label="{html.escape(description)}">{svg(made)}</figure>'
        )

    def render(self) -> str:
        """The page."""
        return (
            '<!doctype html>\n<html lang="en"><head><meta '
            f'charset="utf-8"><title>{html.escape(self._title)}</title>'
            f"<style>{STYLE}</style></head><body>\n" + "\n".join(self._parts) + "\n</body></html>\n"
        )


def _marked(text: str) -> str:
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))


def svg(made: Any) -> str:
    """A figure as an svg element, without a date, and with ids that no other figure of the page
    has.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "noisewise", "svg.fonttype": "none"}):
        made.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return re.sub(r'(id="|url\(#|href="#)', lambda found: f"{found.group(1)}f{mark}-", text)


def _show(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
