"""Curves drawn with characters: Braille dots (two by four in a cell), or ASCII.

Every curve but the first has marks (o x + ...), so that curves can be distinguished without color.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nlptools.errors import visible
from nlptools.plots.curves import Panel

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # bit of a dot, by column and row of the cell
_MARKS = "ox+*#@%&"
_COLORS = (34, 33, 32, 31, 35, 36)  # ANSI: blue, yellow, green, red, magenta, cyan
_EVERY = 14  # columns between marks of a curve


@dataclass
class _Canvas:
    """A grid of cells with dots or a character, and a color."""

    width: int
    height: int
    ascii: bool
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    marks: dict[tuple[int, int], str] = field(default_factory=dict)
    colors: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int]:
        """Dots across and down."""
        return (self.width, self.height) if self.ascii else (2 * self.width, 4 * self.height)

    def dot(self, x: int, y: int, color: int) -> None:
        """Set the dot in column x and row y, from the top left."""
        cell = (x, y) if self.ascii else (x // 2, y // 4)
        self.dots[cell] = self.dots.get(cell, 0) | (1 if self.ascii else _DOTS[x % 2][y % 4])
        self.colors[cell] = color

    def mark(self, x: int, y: int, mark: str, color: int) -> None:
        """Replace the cell of a dot by a character."""
        cell = (x, y) if self.ascii else (x // 2, y // 4)
        self.marks[cell] = mark
        self.colors[cell] = color

    def row(self, y: int, colored: bool) -> str:
        """The characters of a row of cells."""
        out = []
        for cell in ((x, y) for x in range(self.width)):
            bits = self.dots.get(cell, 0)
            text = self.marks.get(cell) or (" " if not bits else "." if self.ascii else chr(0x2800 + bits))
            out.append(f"\x1b[{self.colors[cell]}m{text}\x1b[0m" if colored and cell in self.colors else text)
        return "".join(out)


def draw(drawn: Sequence[Panel], width: int = 80, height: int = 10, ascii: bool = False, colored: bool = False) -> str:
    """The panels below one another; `width` in columns, `height` in rows of each plot without its axis."""
    return "\n\n".join("\n".join(_panel(panel, width, height, ascii, colored)) for panel in drawn) + "\n"


def _panel(panel: Panel, width: int, height: int, ascii: bool, colored: bool) -> Iterator[str]:
    points = [point for series in panel.series for point in series.points]
    left, right = _range([x for x, _ in points])
    low, high = _range([y for _, y in points])
    height = max(height, 2)
    y_ticks = _ticks(low, high, max(2, height // 2))
    gutter = max(map(len, y_ticks.values()), default=1) + 1
    canvas = _Canvas(max(width - gutter - 2, 10), height, ascii)
    across, down = canvas.size

    def dot(x: float, y: float) -> tuple[int, int]:
        return round((x - left) / (right - left) * (across - 1)), round((high - y) / (high - low) * (down - 1))

    for i, series in enumerate(panel.series):
        _curve(canvas, [dot(x, y) for x, y in sorted(series.points)], i, series.kind == "valid")
    labels = {dot(left, y)[1] * height // down: text for y, text in y_ticks.items()}
    tick, bar = ("+", "|") if ascii else ("┤", "│")
    yield f"{'':{gutter}} {visible(panel.title)}"
    for y in range(height):
        yield f"{labels.get(y, ''):>{gutter}}{tick if y in labels else bar}{canvas.row(y, colored)}".rstrip()
    yield from _x_axis(panel.x_label, left, right, gutter, canvas)
    if len(panel.series) > 1:
        yield _legend(panel, gutter, ascii, colored)


def _curve(canvas: _Canvas, dots: list[tuple[int, int]], number: int, points_marked: bool) -> None:
    """Draw a line through the dots, with a mark at each (`points_marked`) or at intervals."""
    color = _COLORS[number % len(_COLORS)]
    for (x0, y0), (x1, y1) in zip(dots, dots[1:] or dots):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for i in range(steps + 1):
            canvas.dot(round(x0 + (x1 - x0) * i / steps), round(y0 + (y1 - y0) * i / steps), color)
    if number == 0:
        return
    every = 0 if points_marked else _EVERY * (canvas.size[0] // canvas.width)
    next_mark = dots[0][0] + (0 if points_marked else number * every // 4)  # curves take turns
    for x, y in dots:
        if x >= next_mark or (x, y) == dots[-1]:
            canvas.mark(x, y, _mark(number), color)
            next_mark = x + every


def _mark(number: int) -> str:
    return _MARKS[(number - 1) % len(_MARKS)]


def _x_axis(label: str, left: float, right: float, gutter: int, canvas: _Canvas) -> Iterator[str]:
    line = ["-" if canvas.ascii else "─"] * canvas.width
    numbers = [" "] * (canvas.width + gutter + 12)
    free = 0  # the first column where a number may begin
    for x, text in _ticks(left, right, max(2, canvas.width // 14)).items():
        column = round((x - left) / (right - left) * (canvas.width - 1))
        start = max(gutter + 1 + column - len(text) // 2, 0)
        if start >= free and start + len(text) <= gutter + 1 + canvas.width + 1:
            line[column] = "+" if canvas.ascii else "┬"
            numbers[start : start + len(text)] = text
            free = start + len(text) + 2
    yield f"{'':{gutter}}{'+' if canvas.ascii else '└'}{''.join(line)}"
    yield "".join(numbers).rstrip()
    yield f"{'':{gutter + 1}}{label:^{canvas.width}}".rstrip()


def _legend(panel: Panel, gutter: int, ascii: bool, colored: bool) -> str:
    entries = []
    for i, series in enumerate(panel.series):
        line = "." if ascii else "⠤"
        key = line * 2 if i == 0 else line + _mark(i) + line
        drawn = f"\x1b[{_COLORS[i % len(_COLORS)]}m{key}\x1b[0m" if colored else key
        entries.append(f"{drawn} {visible(series.label)}")
    return f"{'':{gutter + 1}}" + "   ".join(entries)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The smallest and the largest value, or a range around them if they are equal."""
    low, high = min(values), max(values)
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    room = abs(low) / 2 or 1.0
    return low - room, high + room


def _ticks(low: float, high: float, most: int) -> dict[float, str]:
    """About `most` round numbers at most between `low` and `high`, with their texts."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if power * factor >= rough * 0.999)
    values = [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    biggest = max((abs(value) for value in values), default=1.0)
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if biggest >= limit:
            size = 1e3 if unit == "k" else limit
            return {value: f"{value / size:.6g}{unit if value else ''}" for value in values}
    if 0 < biggest < 1e-2:
        return {value: f"{value:.3g}" for value in values}
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (step / power == 2.5)
    return {value: f"{value:.{digits}f}" for value in values}
