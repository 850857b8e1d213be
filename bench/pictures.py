"""The pictures of the bench: how many times better than Kafka, and how costs grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measures import KFAKE, OURS, THEIRS, Growth

COLOURS = {OURS: "#3b7dd8", THEIRS: "#555555", KFAKE: "#2a9d60"}
MISSED = "#d8573b"


@dataclass(slots=True, frozen=True)
class Judged:
    """A measure beside its bar."""

    name: str
    times_better: float
    met: bool


def ratio_picture(measured: Sequence[Judged], path: Path) -> Path:
    """Each measure as a bar on a logarithmic scale; right of the line is a win."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    better = [one.times_better for one in measured]
    colours = [COLOURS[OURS] if one.met else MISSED for one in measured]
    figure, axes = pyplot.subplots(figsize=(9, 0.3 * len(measured) + 1.5), layout="constrained")
    axes.barh([one.name for one in measured], [value - 1 for value in better], left=1, color=colours)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel(f"times better than {THEIRS} (red: the bar is not met)")
    for place, value in enumerate(better):
        axes.text(max(value, 1) * 1.03, place, f"{value:.2f}x", va="center", fontsize=8)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
    return path


def growth_picture(growths: Sequence[Growth], path: Path) -> Path:
    """A panel for each growth, a line for each contender."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(2, len(growths))
    rows = -(-len(growths) // columns)
    figure, panels = pyplot.subplots(
        rows, columns, figsize=(5 * columns, 3.4 * rows), squeeze=False, layout="constrained"
    )
    for panel, growth in zip(panels.flat, growths):
        for who in growth.points:
            xs, ys = zip(*growth.line(who))
            panel.plot(xs, ys, marker="o", label=who, color=COLOURS.get(who))
        panel.set_title(growth.title, fontsize=10)
        panel.set_xlabel(growth.x_label)
        panel.set_ylabel(growth.y_label)
        panel.set_ylim(bottom=0)
        panel.set_xscale("symlog", linthresh=1)
        panel.legend(fontsize=8)
    for panel in list(panels.flat)[len(growths) :]:
        panel.set_axis_off()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
    return path
