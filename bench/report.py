"""The figures as JSON, a file for each chapter, and all chapters together as a Markdown page with pictures.

A page that is there already keeps the chapters that nobody has measured on this machine, and the picture is drawn from
the page's own tables: so a run of one chapter loses nothing of the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.measures import KFAKE, OURS, THEIRS, Figures, Growth, Measure
from bench.pictures import Judged, growth_picture, ratio_picture

INTRODUCTION = (
    "broker-lite and Apache Kafka 4.3.1 on the same machine in the same run, alternating; medians of the rounds. "
    "Written by `make bench`; the last column says whether the bar is met, losses included. kfake, which keeps "
    "everything in memory, stands beside them where it took part. Producing and consuming is done "
    "by Kafka's own ProducerPerformance (200-byte records, acks=all) and ConsumerPerformance, latency by its "
    "EndToEndLatency; small requests hold one record each, and every connection waits for its answer "
    "before it asks again."
)


@dataclass(slots=True, frozen=True)
class About:
    name: str
    title: str
    machine: str
    when: str
    note: str


@dataclass(slots=True)
class Told:
    """What one chapter found."""

    about: About
    figures: Figures
    growths: list[Growth]


def save(told: Told, path: Path) -> None:
    measures = [{**asdict(measure), "rounds": rounds} for measure, rounds in told.figures.taken.items()]
    growths = [asdict(growth) for growth in told.growths]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"about": asdict(told.about), "measures": measures, "growths": growths}, indent=1) + "\n"
    )


def load(path: Path) -> Told:
    read = json.loads(path.read_text())
    figures = Figures()
    for entry in read["measures"]:
        rounds = entry.pop("rounds")
        figures.taken[Measure(**entry)] = rounds
    growths = [Growth(**entry) for entry in read["growths"]]
    for growth in growths:
        growth.points = {who: {float(x): ys for x, ys in line.items()} for who, line in growth.points.items()}
    return Told(About(**read["about"]), figures, growths)


def number(figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def row(figures: Figures, measure: Measure, contenders: list[str]) -> str:
    ratio, verdict = figures.ratio(measure), figures.verdict(measure)
    sign = "≤" if measure.less_is_better else "≥"
    bounds = [f"{sign} {measure.bar:.3g}x"] if measure.bar is not None else []
    bounds += [f"{sign} {number(measure.limit)} {measure.unit}"] if measure.limit is not None else []
    cells = [
        f"{measure.name} ({measure.unit})",
        *(number(figures.median(measure, name)) for name in contenders),
        "–" if ratio is None else f"{ratio:.2f}x",
        ", ".join(bounds),
        {None: "", True: "yes", False: "**no**"}[verdict],
    ]
    return f"| {' | '.join(cells)} |"


def flat(growth: Growth) -> str:
    """The lines of a growth as words."""
    lines = [f"- {growth.title}:"]
    for who in growth.points:
        steps = ", ".join(f"{x:,g}: {number(y)}" for x, y in growth.line(who))
        factor = growth.factor(who)
        lines.append(f"  - {who}: {steps} {growth.y_label}; {factor:.2f}x from first to last")
        if who == OURS and growth.flat_within is not None:
            met = "yes" if factor <= growth.flat_within else "**no**"
            lines[-1] += f" (at most {growth.flat_within:g}x: {met})"
    return "\n".join(lines)


def section(told: Told, stem: str) -> str:
    about, figures = told.about, told.figures
    present = {name for taken in figures.taken.values() for name in taken}
    contenders = [OURS, THEIRS, *([KFAKE] if KFAKE in present else [])]
    lines = [f"## {about.title}", "", f"Taken {about.when} on {about.machine}; {about.note}.", ""]
    if figures.taken:
        lines += [f"| measure | {' | '.join(contenders)} | ratio | bar | met |", "|---" * (len(contenders) + 4) + "|"]
        judged = sorted(figures.taken, key=lambda measure: measure.bar is None and measure.limit is None)
        lines += [row(figures, measure, contenders) for measure in judged]
        lines.append("")
    if told.growths:
        lines += [*(flat(growth) for growth in told.growths), ""]
        lines += [f"![how costs grow]({stem}-{about.name}.png)", ""]
    return "\n".join(lines)


def sections(text: str) -> dict[str, str]:
    """The chapters of a page by their titles."""
    return {part.partition("\n")[0]: f"## {part}" for part in text.split("\n## ")[1:]}


def markdown(all_told: list[Told], titles: Sequence[str], *, stem: str = "bench", before: str = "") -> str:
    """The page, its chapters in the order of the titles; what is not told again stays as it was before."""
    found = {title: text.rstrip("\n") + "\n" for title, text in sections(before).items()}
    found |= {told.about.title: section(told, stem) for told in all_told}
    head = f"# Bench\n\n{INTRODUCTION}\n\n![ours against Kafka's]({stem}.png)\n"
    return "\n".join([head, *(found[title] for title in titles if title in found)])


def judged(text: str) -> list[Judged]:
    """Every row of a page's tables that has a bar against Kafka."""
    rows = re.findall(
        r"^\| (.+?) \([^()]*\) \|.*\| ([\d.]+)x \| ([≤≥]) [\d.]+x.* \| (yes|\*\*no\*\*) \|$", text, re.MULTILINE
    )
    return [
        Judged(name, 1 / float(ratio) if sign == "≤" else float(ratio), met=met == "yes")
        for name, ratio, sign, met in rows
        if float(ratio) > 0
    ]


def write(all_told: list[Told], titles: Sequence[str], page: Path) -> list[Path]:
    """The page with its pictures beside it; what was written."""
    page.parent.mkdir(parents=True, exist_ok=True)
    text = markdown(all_told, titles, stem=page.stem, before=page.read_text() if page.exists() else "")
    page.write_text(text)
    written = [page]
    try:
        written.append(ratio_picture(judged(text), page.with_suffix(".png")))
        for told in all_told:
            if told.growths:
                written.append(growth_picture(told.growths, page.with_name(f"{page.stem}-{told.about.name}.png")))
    except ModuleNotFoundError:
        print("no picture: matplotlib is missing; to have it: pip install 'broker-lite[dev]'")
    return written
