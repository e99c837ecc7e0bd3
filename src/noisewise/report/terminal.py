"""A posterior's density in a terminal."""

import numpy as np

from noisewise.inference.posterior import Posterior


def sketch(posterior: Posterior, name: str, width: int = 64, height: int = 6) -> str:
    """The density in block characters, with the ends of the 90 % interval marked below."""
    at, density = posterior.curve(name)
    edges = np.linspace(at[0], at[-1], width)
    level = np.interp(edges, at, density)
    level = level / level.max() * height
    blocks = " ▁▂▃▄▅▆▇█"
    lines = []
    for row in range(height - 1, -1, -1):
        eighths = np.clip(np.round((level - row) * 8), 0, 8).astype(int)
        lines.append("".join(blocks[k] for k in eighths).rstrip())
    low, high = posterior.interval(name, 0.9)
    marks = [int(np.clip(np.searchsorted(edges, end), 0, width - 1)) for end in (low, high)]
    axis = ["─"] * width
    for mark in marks:
        axis[mark] = "┴"
    left, right = f"{low:.4g}", f"{high:.4g}"
    labels = left.rjust(marks[0] + len(left)).ljust(max(marks[1], marks[0] + len(left) + 2)) + right
    return "\n".join([f"{name}, with its 90 % interval", *lines, "".join(axis), labels])
