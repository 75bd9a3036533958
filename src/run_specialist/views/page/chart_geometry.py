"""Where things stand in a chart: shares of its width, and lines in a box of 1,000 by 1,000."""

from collections.abc import Sequence

BOX = 1_000


def percent(value: float, whole: float) -> str:
    """Return a share of a whole as SVG takes it."""
    return f"{100 * value / whole if whole > 0 else 0:.2f}%"


def path(points: Sequence[Sequence[float]], seconds: float, top: float) -> str:
    """Return a line through points as the path of an SVG.

    points: moments [s] and shares, in order.
    seconds: the width of the chart.
    top: the share at its upper edge.
    """
    placed: list[tuple[int, int]] = []
    for at, share in points:
        place = (round(BOX * at / seconds) if seconds > 0 else 0, round(BOX * (1 - share / top)))
        # Neither what falls on one spot needs a corner nor what goes on along an axis.
        if place in placed[-1:] or _goes_on([*placed[-2:], place]):
            placed.pop()
        placed.append(place)
    return "M" + " ".join(f"{across} {down}" for across, down in placed)


def _goes_on(places: Sequence[tuple[int, int]]) -> bool:
    return len(places) > 2 and any(len({place[axis] for place in places}) == 1 for axis in (0, 1))  # noqa: PLR2004 - two make no corner
