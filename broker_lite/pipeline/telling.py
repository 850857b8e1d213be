"""An audit's report as a table for people, JSON for machines, and a picture."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from broker_lite.pipeline.audit import NOTE, Report
from broker_lite.pipeline.errors import PipelineError

LINES = 40


def as_json(report: Report) -> str:
    told = {
        "sound": report.sound,
        "partitions": [asdict(one) for one in report.partitions],
        "findings": [asdict(one) for one in report.findings],
        "untold": report.untold,
        "transactions": {"outcomes": report.outcomes, "each": report.transactions},
    }
    return json.dumps(told, indent=2)


def as_text(report: Report) -> str:
    rows: list[tuple[str, ...]] = [("TOPIC", "PARTITION", "START", "END", "BATCHES", "RECORDS", "BYTES", "FAULTS")]
    for one in report.partitions:
        faults = sum(
            (found.topic, found.partition) == (one.topic, one.partition) and found.weight != NOTE
            for found in report.findings
        )
        numbers = (one.start, one.end, one.batches, one.records, one.bytes, faults)
        rows.append((one.topic, str(one.partition), *(f"{number:,}" for number in numbers)))
    lines = [_columns(rows), ""]
    outcomes = ", ".join(f"{count:,} {name}" for name, count in sorted(report.outcomes.items()))
    lines.append(f"transactions: {outcomes or 'none'}")
    for found in report.findings[:LINES]:
        at = "" if found.offset is None else f" at offset {found.offset}"
        lines.append(f"{found.weight}: {found.kind} in {found.topic}-{found.partition}{at}: {found.text}")
    if len(report.findings) > LINES:
        lines.append(f"and {len(report.findings) - LINES} more; --json tells each")
    if report.untold:
        lines.append(f"and {report.untold:,} more that are only counted")
    lines.append("the log is sound" if report.sound else "the log is NOT sound")
    return "\n".join(lines)


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" if at == 0 else f"{cell:>{width}}" for at, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    )


def picture(report: Report, path: str) -> None:
    """A PNG: how much came when, how fast, and what became of the transactions."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (volume, rate, deals) = plt.subplots(3, 1, figsize=(11, 9), constrained_layout=True)
    for topic in sorted({row[0] for row in report.volume}):
        rows = [row for row in report.volume if row[0] == topic]
        times = [datetime.fromtimestamp(row[1] / 1000, UTC) for row in rows]
        total, sums = 0, []
        for row in rows:
            total += row[2]
            sums.append(total / 1e6)
        volume.plot(times, sums, label=topic)
        steps = [max((after[1] - before[1]) / 1000, 0.001) for before, after in pairwise(rows)]
        step = min(steps, default=1.0)
        rate.step(times, [row[3] / step for row in rows], label=topic, where="post")
    volume.set_title("volume over time")
    volume.set_ylabel("MB, all together")
    rate.set_title("rate over time")
    rate.set_ylabel("records a second")
    if report.volume:
        volume.legend(loc="upper left")
    names = ["commit", "abort", "open"]
    deals.bar(names, [report.outcomes.get(name, 0) for name in names], color=["tab:green", "tab:red", "tab:gray"])
    deals.set_title("transactions, by partition")
    half = f"{path}.{os.getpid()}.tmp"
    try:
        figure.savefig(half, format="png", dpi=110)
        os.replace(half, path)
    except OSError as error:
        raise PipelineError(f"the picture {path} cannot be written: {error.strerror}") from None
    finally:
        plt.close(figure)
        Path(half).unlink(missing_ok=True)
