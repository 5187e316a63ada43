"""Titled boxes of text lines that can stand beside each other; every line of a box is equally wide."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from rich.text import Text

BORDERS: Final = 2
"""Columns that the two sides of a frame take."""

Box = Sequence[Text]
"""The lines of a box."""


def frame(title: str, lines: Sequence[Text], inner: int, unicode: bool) -> list[Text]:
    """A box with ``inner`` columns between its sides; longer lines are cut."""
    corners, horizontal, vertical = ("┌┐└┘", "─", "│") if unicode else ("++++", "-", "|")
    heading = title if len(title) + 4 <= inner else title[: max(0, inner - 4)]
    top = Text(f"{corners[0]}{horizontal} {heading} {horizontal * (inner - len(heading) - 3)}{corners[1]}")
    framed = [Text.assemble(vertical, _fitted(line, inner), vertical) for line in lines]
    return [top, *framed, Text(f"{corners[2]}{horizontal * inner}{corners[3]}")]


def grid(boxes: Sequence[Box], columns: int) -> list[Text]:
    """The boxes in rows of ``columns``, one column of space between them."""
    rows = [boxes[start : start + columns] for start in range(0, len(boxes), columns)]
    return [line for row in rows for line in _beside(row)]


def grid_width(width: int, columns: int) -> int:
    """Columns that ``columns`` boxes of ``width`` take beside each other."""
    return columns * (width + 1) - 1


def flow(items: Sequence[Text], width: int, gap: str) -> list[Text]:
    """The items in as few lines of at most ``width`` as their order allows."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + len(gap) + item.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], gap, item)
        else:
            lines.append(item)
    return lines


def _beside(boxes: Sequence[Box]) -> list[Text]:
    widths = [box[0].cell_len for box in boxes]
    rows = zip_longest(*boxes)
    return [
        Text(" ").join(Text(" " * wide) if cell is None else cell for cell, wide in zip(row, widths, strict=True))
        for row in rows
    ]


def _fitted(line: Text, width: int) -> Text:
    fitted = line.copy()
    fitted.truncate(width, overflow="crop", pad=True)
    return fitted
