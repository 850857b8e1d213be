"""The figures as a Markdown page, as JSON and as a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from bench.measures import OURS, THEIRS, Figures, Measure


@dataclass(slots=True)
class Run:
    machine: str
    when: str
    note: str
    figures: Figures = field(default_factory=Figures)
    over_partitions: dict[int, float] = field(default_factory=dict)
    over_size: dict[float, float] = field(default_factory=dict)


def number(figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def row(figures: Figures, measure: Measure) -> str:
    ratio = figures.ratio(measure)
    sign = "≤" if measure.less_is_better else "≥"
    bar = "" if measure.bar is None else f"{sign} {measure.bar:.3g}x"
    verdict = "" if measure.bar is None else "–" if ratio is None else "yes" if measure.met(ratio) else "**no**"
    ours, theirs = (number(figures.median(measure, name)) for name in (OURS, THEIRS))
    shown = "–" if ratio is None else f"{ratio:.2f}x"
    return f"| {measure.name} ({measure.unit}) | {ours} | {theirs} | {shown} | {bar} | {verdict} |"


def flat(name: str, costs: dict[int, float] | dict[float, float]) -> list[str]:
    """A row for each step and how much the last one costs more than the first."""
    if not costs:
        return []
    steps = list(costs.values())
    shown = ", ".join(f"{step:g}: {cost:.1f} µs" for step, cost in costs.items())
    growth = steps[-1] / steps[0]
    return [
        f"- {name}: {shown}; {growth:.2f}x from first to last (at most 1.2x: {'yes' if growth <= 1.2 else '**no**'})"
    ]


def markdown(run: Run) -> str:
    return "\n".join(
        [
            "# Bench",
            "",
            "broker-lite and Apache Kafka 4.3.1 on the same machine in the same run, one after the other, alternating; "
            "medians of the rounds. Written by `python -m bench`; the last column says whether the bar is met, losses "
            "included.",
            "",
            f"- machine: {run.machine}",
            f"- taken: {run.when}, {run.note}",
            "- producing and consuming: Kafka's own ProducerPerformance (200-byte records, acks=all) and "
            "ConsumerPerformance; latency: its EndToEndLatency; small requests: one record each, every connection "
            "waits for its answer before it asks again",
            "",
            f"| measure | {OURS} | {THEIRS} | ratio | bar | met |",
            "|---|---|---|---|---|---|",
            *(row(run.figures, measure) for measure in sorted(run.figures.taken, key=lambda m: m.bar is None)),
            "",
            "## What an append costs inside the broker",
            "",
            *flat("by number of partitions", run.over_partitions),
            *flat("by gigabytes in the log", run.over_size),
            "",
            "![ours against Kafka's](bench.png)",
            "",
        ]
    )


def as_json(run: Run) -> str:
    told = {
        "machine": run.machine,
        "when": run.when,
        "note": run.note,
        "measures": [
            {
                "name": measure.name,
                "unit": measure.unit,
                "rounds": rounds,
                "ratio": run.figures.ratio(measure),
                "bar": measure.bar,
                "less_is_better": measure.less_is_better,
            }
            for measure, rounds in run.figures.taken.items()
        ],
        "append_us_by_partitions": run.over_partitions,
        "append_us_by_gigabytes": run.over_size,
    }
    return json.dumps(told, indent=1) + "\n"


def picture(run: Run, path: Path) -> None:
    """Each measure as a bar: how many times better than Kafka, on a logarithmic scale; right of the line is a win."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = [(m, ratio) for m in run.figures.taken if m.bar is not None and (ratio := run.figures.ratio(m))]
    better = [1 / ratio if m.less_is_better else ratio for m, ratio in measured]
    colours = ["#3b7dd8" if m.met(ratio) else "#d8573b" for m, ratio in measured]
    figure, axes = pyplot.subplots(figsize=(9, 0.4 * len(measured) + 1.5), layout="constrained")
    axes.barh([m.name for m, _ in measured], [value - 1 for value in better], left=1, color=colours)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel(f"times better than {THEIRS} (red: the bar is not met)")
    for place, value in enumerate(better):
        axes.text(max(value, 1) * 1.03, place, f"{value:.2f}x", va="center", fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def write(run: Run, page: Path, data: Path) -> list[Path]:
    """The page with its picture beside it, and the data; what was written."""
    written = [page, data]
    for path in written:
        path.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(markdown(run))
    data.write_text(as_json(run))
    try:
        picture(run, page.with_suffix(".png"))
        written.append(page.with_suffix(".png"))
    except ModuleNotFoundError:
        print("no picture: matplotlib is missing; to have it: pip install 'broker-lite[dev]'")
    return written
