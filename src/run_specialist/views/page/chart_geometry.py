"""Chart coordinates: percentages of the width, and paths in a box of 1,000 by 1,000 units."""

from collections.abc import Sequence

BOX = 1_000
"""Width and height of the coordinate system of paths."""


def percent(value: float, whole: float) -> str:
    """Return a share of a whole as an SVG percentage."""
    return f"{100 * value / whole if whole > 0 else 0:.2f}%"


def path(points: Sequence[Sequence[float]], seconds: float, top: float) -> str:
    """Return a line through points as SVG path data.

    points: times [s] and shares, in order.
    seconds: the width of the chart.
    top: the share at its upper edge.
    """
    placed: list[tuple[int, int]] = []
    for at, share in points:
        place = (round(BOX * at / seconds) if seconds > 0 else 0, round(BOX * (1 - share / top)))
        # Drop duplicate points, and inner points of horizontal and vertical lines.
        if place in placed[-1:] or _is_straight([*placed[-2:], place]):
            placed.pop()
        placed.append(place)
    return "M" + " ".join(f"{across} {down}" for across, down in placed)


def _is_straight(places: Sequence[tuple[int, int]]) -> bool:
    """Return whether three points lie on a horizontal or vertical line."""
    return len(places) > 2 and any(len({place[axis] for place in places}) == 1 for axis in (0, 1))  # noqa: PLR2004 - see the docstring
