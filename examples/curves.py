# SPDX-License-Identifier: Apache-2.0
"""Curves over steps as SVG text, without a package for plots. They look like those of `tributary lab --svg`."""

import math
from collections import namedtuple
from html import escape

WIDTH, HEIGHT = 800, 400  # Of one plot, in pixels.
LEFT, RIGHT, TOP, BOTTOM = 74, 20, 44, 70  # Margins.
LETTER = 7  # Width of a letter of 13 px.
DASHES = ("none", "8 4", "2 3", "10 3 2 3", "5 5", "1 5")
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .paper { fill: #ffffff; }
  .grid { stroke: #d8dde3; stroke-width: 1; }
  .line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
  .s0 { stroke: #0072b2; } .s1 { stroke: #b5528f; } .s2 { stroke: #d55e00; }
  .s3 { stroke: #00835f; } .s4 { stroke: #a87400; } .s5 { stroke: #6e7781; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .paper { fill: #0d1117; }
    .grid { stroke: #30363d; }
    .s0 { stroke: #56b4e9; } .s1 { stroke: #e79ac4; } .s2 { stroke: #ff8a3d; }
    .s3 { stroke: #1fc79a; } .s4 { stroke: #e69f00; } .s5 { stroke: #a0a8b0; }
  }
</style>"""

# Colours of systems by the first word of a curve's name, as lab/report/series_style.cc has them. Others get s2, s3, …
SYSTEMS = {"Tributary": 0, "Gloo": 1}

# `curves` is {name: values of steps 1, 2, …}. With `log`, values of 0 or less are left out.
Plot = namedtuple("Plot", "title x_label y_label curves log", defaults=(False,))


def ticks(low, high):
    """Returns round numbers, 1, 2 or 5 times a power of ten apart, that cover [low, high]."""
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-12) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step * 5 >= high - low)
    first, last = math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1)
    return [index * step for index in range(first, last + 1)]


def powers(low, high):
    """Returns powers of ten that cover [low, high], at least two."""
    first = math.floor(math.log10(low))
    last = max(math.ceil(math.log10(high)), first + 1)
    return [10.0**exponent for exponent in range(first, last + 1)]


def svg(*plots):
    """Returns one document with the plots below each other, titled after the first."""
    height = HEIGHT * len(plots)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(plots[0].title)}</title>",
        STYLE,
        '<rect class="paper" width="100%" height="100%"/>',
    ]
    for index, plot in enumerate(plots):
        lines.extend(_draw(plot, index * HEIGHT))
    return "\n".join([*lines, "</svg>", ""])


def _draw(plot, top):
    """Yields the elements of a plot whose upper edge is at `top`."""
    scale = math.log10 if plot.log else float
    shown = [value for curve in plot.curves.values() for value in curve if value > 0 or not plot.log]
    x_marks = ticks(0, max(len(curve) for curve in plot.curves.values()))
    y_marks = (powers if plot.log else ticks)(min(shown, default=1), max(shown, default=2))
    bottom = top + HEIGHT - BOTTOM

    def x_of(step):
        return LEFT + step / x_marks[-1] * (WIDTH - LEFT - RIGHT)

    def y_of(value):
        part = (scale(value) - scale(y_marks[0])) / (scale(y_marks[-1]) - scale(y_marks[0]))
        return bottom - part * (HEIGHT - TOP - BOTTOM)

    yield f'<text class="title" x="{LEFT}" y="{top + 26}">{escape(plot.title)}</text>'
    for mark in x_marks:
        yield _line(x_of(mark), bottom, x_of(mark), top + TOP)
        yield _text(x_of(mark), bottom + 18, "middle", f"{mark:g}")
    for mark in y_marks:
        yield _line(LEFT, y_of(mark), WIDTH - RIGHT, y_of(mark))
        yield _text(LEFT - 8, y_of(mark) + 4, "end", f"{mark:g}")
    yield _text(WIDTH - RIGHT, bottom + 36, "end", plot.x_label)
    yield _text(WIDTH - RIGHT, top + 26, "end", plot.y_label)
    x = LEFT  # Of the next entry of the legend.
    for index, (name, curve) in enumerate(plot.curves.items()):
        points = " ".join(
            f"{x_of(step):.1f},{y_of(value):.1f}" for step, value in enumerate(curve, start=1)
            if value > 0 or not plot.log
        )
        style = f'class="line s{_colour(name, index)}" stroke-dasharray="{DASHES[index % len(DASHES)]}"'
        yield f'<polyline {style} points="{points}"/>'
        yield f'<line {style} x1="{x}" y1="{bottom + 55}" x2="{x + 24}" y2="{bottom + 55}"/>'
        yield _text(x + 30, bottom + 59, "start", name)
        x += 46 + LETTER * len(name)


def _colour(name, index):
    """Returns the number of the colour of the curve with this name and index."""
    return SYSTEMS.get(name.split(",")[0], len(SYSTEMS) + index % (len(DASHES) - len(SYSTEMS)))


def _line(x1, y1, x2, y2):
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x, y, anchor, text):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
