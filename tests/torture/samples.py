"""What a broker holds, looked at once a second, and whether it stays level.

A series is cut into thirds by time.  The first is warm-up; the median of the last may not exceed the median of the
second by more than the tolerance of its series.  Medians, because a segment that is about to be deleted or a batch in
flight moves single samples.  The tolerances are at least twice what was seen in runs of 30 s and of 13 to 18 minutes.
"""

from __future__ import annotations

import os
import re
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
GAUGES = ("tasks", "parked_requests", "fetch_sessions", "groups", "producers", "topics")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much more the later median may be: a part of the earlier one, or this much if that is more."""

    part: float
    least: float


TOLERANCES = {
    "rss": Tolerance(0.04, 4 * MIB),
    "descriptors": Tolerance(0.10, 12),
    "threads": Tolerance(0.0, 2),
    "files": Tolerance(0.20, 30),
    "bytes": Tolerance(0.15, 2 * MIB),
    "tasks": Tolerance(0.10, 8),
    "parked_requests": Tolerance(0.10, 8),
    "fetch_sessions": Tolerance(0.10, 8),
    "groups": Tolerance(0.10, 8),
    "producers": Tolerance(0.15, 20),
    "topics": Tolerance(0.10, 4),
}


@dataclass
class Samples:
    """Of one process and its data folder."""

    pid: int
    data: Path
    metrics: str
    series: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TOLERANCES})

    def take(self) -> None:
        process = Path(f"/proc/{self.pid}")
        files, size = _files(self.data)
        seen = {
            "rss": int((process / "statm").read_text().split()[1]) * PAGE,
            "descriptors": len(os.listdir(process / "fd")),
            "threads": len(os.listdir(process / "task")),
            "files": files,
            "bytes": size,
            **self._gauges(),
        }
        for name, value in seen.items():
            self.series[name].append(value)

    def _gauges(self) -> dict[str, float]:
        with urllib.request.urlopen(self.metrics, timeout=30) as answer:
            page = answer.read().decode()
        found = {name: re.search(rf"^broker_lite_{name} (\S+)$", page, re.MULTILINE) for name in GAUGES}
        return {name: float(match[1]) for name, match in found.items() if match is not None}

    def grown(self) -> list[str]:
        """A line for each series that did not stay level."""
        return [line for name, line in self._lines().items() if self._excess(name) > 0]

    def report(self) -> str:
        return "\n".join(self._lines().values())

    def medians(self, name: str) -> list[float]:
        """Of the three thirds."""
        series = self.series[name]
        third = len(series) // 3
        assert third > 0, f"{len(series)} samples of {name} are too few"
        return [median(part) for part in (series[:third], series[third:-third], series[-third:])]

    def _excess(self, name: str) -> float:
        tolerance = TOLERANCES[name]
        _, earlier, later = self.medians(name)
        return later - earlier - max(tolerance.least, tolerance.part * earlier)

    def _lines(self) -> dict[str, str]:
        lines = {}
        for name, series in self.series.items():
            scale = MIB if name in ("rss", "bytes") else 1
            first, earlier, later = (value / scale for value in self.medians(name))
            most = max(series) / scale
            lines[name] = f"{name:16} {first:9.1f} {earlier:9.1f} {later:9.1f}   most {most:9.1f}"
        return lines


def _files(data: Path) -> tuple[int, int]:
    """How many, and their bytes. Any may be removed while we look."""
    count = size = 0
    for folder, _, names in os.walk(data):
        for name in names:
            try:
                size += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
            count += 1
    return count, size
