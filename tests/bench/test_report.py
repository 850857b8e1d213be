"""The page of the bench: what it keeps, and what its picture shows."""

from __future__ import annotations

from bench.measures import OURS, THEIRS, Figures, Measure
from bench.pictures import Judged
from bench.report import About, Told, judged, markdown

TITLES = ("Writing", "Reading", "Starting")
WRITES = Measure("writes", "records/s", 1.0)
READS = Measure("reads", "records/s", 1.0)
START = Measure("start", "s", 0.1, less_is_better=True)
MEMORY = Measure("memory", "MiB", less_is_better=True, limit=512)


def told(title: str, measure: Measure, ours: float, theirs: float) -> Told:
    figures = Figures()
    figures.note(measure, OURS, ours)
    figures.note(measure, THEIRS, theirs)
    return Told(About(title.lower(), title, "a machine", "today", "1 round"), figures, [])


def test_a_chapter_that_is_not_measured_again_stays_on_the_page() -> None:
    page = markdown([told("Reading", READS, 300, 200), told("Writing", WRITES, 100, 200)], TITLES)
    again = markdown([told("Writing", WRITES, 400, 200)], TITLES, before=page)
    assert "| writes (records/s) | 400 | 200 | 2.00x | ≥ 1x | yes |" in again
    assert "| reads (records/s) | 300 | 200 | 1.50x | ≥ 1x | yes |" in again
    assert "**no**" not in again


def test_chapters_stand_in_their_order_whenever_they_were_measured() -> None:
    page = markdown([told("Starting", START, 1, 2)], TITLES)
    page = markdown([told("Writing", WRITES, 1, 2)], TITLES, before=page)
    assert page.index("## Writing") < page.index("## Starting")


def test_a_page_written_again_is_the_same_page() -> None:
    page = markdown([told("Reading", READS, 300, 200), told("Starting", START, 1, 2)], TITLES)
    assert markdown([], TITLES, before=page) == page


def test_the_picture_shows_every_row_with_a_bar_against_kafka() -> None:
    chapters = [told("Writing", WRITES, 100, 200), told("Starting", START, 1, 20), told("Reading", MEMORY, 100, 200)]
    page = markdown(chapters, TITLES)
    assert judged(page) == [Judged("writes", 0.5, met=False), Judged("start", 20.0, met=True)]
