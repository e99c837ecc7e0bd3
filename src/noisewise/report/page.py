"""One self-contained HTML page: text, tables and figures, nothing loaded from elsewhere. Good on
paper, on a phone, dark and light.
"""

import html
import re
from collections.abc import Sequence
from typing import Any

from noisewise.report.drawing import svg

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --soft: #5c6066;
  --line: #d9dce0; --wash: #f4f5f7; --bad: #fdeee2; --warn: #b34700;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #e8e8e6;
  --soft: #a3a8af; --line: #343a41; --wash: #20252b; --bad: #3b2a1c; --warn: #ffb27a;
  --c0: #5ab4e8; --c1: #ff8a3d; --c2: #2fc79b; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto;
  padding: 0 1rem; color: var(--ink); background: var(--paper); overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p, ul, dl { max-width: 46rem; } .lead { font-size: 1.15rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.88rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.7rem; text-align: right;
  vertical-align: top; }
td:first-child, th:first-child { white-space: nowrap; }
th { background: var(--wash); font-weight: 600; } td.text, th.text { text-align: left; }
tr.bad td { background: var(--bad); } .scroll { overflow-x: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 1.2rem; }
dt { color: var(--soft); max-width: 12rem; } dd { margin: 0; }
@media (max-width: 34rem) { dl { display: block; } dd { margin-bottom: 0.6rem; } }
.warning { border-left: 4px solid var(--warn); padding: 0.1rem 0 0.1rem 0.9rem; }
.figures { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; align-items: flex-start; }
figure { margin: 0.8rem 0; min-width: 0; } figcaption { color: var(--soft); font-size: 0.88rem;
  max-width: 34rem; }
svg { max-width: 100%; height: auto; color: var(--ink); }
svg text:not([fill]) { fill: currentColor; }
code { background: var(--wash); } pre { background: var(--wash); padding: 0.7rem 0.9rem;
  overflow-x: auto; white-space: pre-wrap; font-size: 0.85rem; } pre code { background: none; }
footer { margin-top: 3rem; color: var(--soft); font-size: 0.85rem; }
@media print { body { font-size: 10.5pt; margin: 0; max-width: none; } h2 { break-after: avoid; }
  figure, tr, .warning { break-inside: avoid; } .scroll { overflow: visible; } }
"""
"""Colours are variables, so that the figures follow the page into the dark."""


class Page:
    """Built piece by piece. Whatever comes from a file is escaped here, and nowhere else."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[str] = []

    def heading(self, text: str) -> None:
        """A section."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, words: str, *, lead: bool = False) -> None:
        """A paragraph; `code` stands between backticks."""
        self._parts.append(f"<p{' class=lead' if lead else ''}>{_marked(words)}</p>")

    def words(self, words: str, *, lead: bool = False) -> None:
        """A paragraph of text from a file: backticks are backticks."""
        self._parts.append(f"<p{' class=lead' if lead else ''}>{html.escape(words)}</p>")

    def warning(self, words: str) -> None:
        """A paragraph that must not be overlooked."""
        said = html.escape(f"{words[:1].upper()}{words[1:]}")
        self._parts.append(f"<p class=warning><strong>Warning.</strong> {said}</p>")

    def items(self, lines: Sequence[str]) -> None:
        """A list."""
        made = "".join(f"<li>{_marked(line)}</li>" for line in lines)
        self._parts.append(f"<ul>{made}</ul>")

    def bullets(self, lines: Sequence[str]) -> None:
        """A list of texts from files: backticks are backticks."""
        made = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        self._parts.append(f"<ul>{made}</ul>")

    def facts(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Names and what they are, in words."""
        made = "".join(
            f"<dt>{html.escape(name)}</dt><dd>{html.escape(said)}</dd>" for name, said in pairs
        )
        self._parts.append(f"<dl>{made}</dl>")

    def code(self, text: str) -> None:
        """Commands or a program, as they are."""
        self._parts.append(f"<pre><code>{html.escape(text)}</code></pre>")

    def table(self, rows: Sequence[dict[str, Any]], bad: Sequence[bool] | None = None) -> None:
        """Rows with the same columns; those marked bad are tinted."""
        names = list(rows[0])
        left = {name for name in names if any(_is_text(row[name]) for row in rows)}
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
            "<div class=scroll tabindex=0>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        )

    def figure(self, made: Any, description: str) -> None:
        """A matplotlib figure, as SVG within the page."""
        self._parts.append(_figure(made, description, ""))

    def figures(self, several: Sequence[tuple[Any, str]]) -> None:
        """Figures with their captions, side by side where the page is wide."""
        made = "".join(_figure(one, caption, caption) for one, caption in several)
        self._parts.append(f"<div class=figures>{made}</div>")

    def footer(self, words: str) -> None:
        """The last line."""
        self._parts.append(f"<footer>{html.escape(words)}</footer>")

    def body(self) -> str:
        """What the page holds below its title, for a place on another page."""
        return "\n".join(self._parts)

    def render(self) -> str:
        """The page. Its policy forbids a browser to load anything."""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            f"<title>{html.escape(self.title)}</title>"
            f"<style>{STYLE}</style></head><body>\n<h1>{html.escape(self.title)}</h1>\n"
            f"{self.body()}\n</body></html>\n"
        )


def _figure(made: Any, description: str, caption: str) -> str:
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure><div role="img" aria-label="{html.escape(description)}">{svg(made)}</div>'
        f"{below}</figure>"
    )


def _marked(text: str) -> str:
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _is_text(value: Any) -> bool:
    """Whether a column of such stands to the left: words do, numbers do not, written or not."""
    number = (
        "[\N{MINUS SIGN}+-]?[0-9.\N{NARROW NO-BREAK SPACE}]+(e[\N{MINUS SIGN}+-]?[0-9]+)?|none|"
    )
    return isinstance(value, str) and re.fullmatch(number, value) is None


def _show(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
