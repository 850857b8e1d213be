"""python -m bench [--quick] [--only CHAPTER,…]: broker-lite against Apache Kafka, alternating rounds, one page.

--quick          one short round, five minutes for everything
--only A,B       these chapters alone; the page keeps what it says of the others
--rounds N       other than three
--ours-only      leave the others out, to compare with an earlier run
--page PATH      where the Markdown goes (.cache/bench/bench.md), the pictures beside it
--list           name the chapters
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import tempfile
import time
from pathlib import Path
from types import ModuleType

from bench import chapters, report
from bench.chapter import Bench, Say
from bench.peer import machine

ROOT = Path(__file__).parents[1]
OUT = ROOT / ".cache" / "bench"
FIRST = ("data_path", "append")


def names() -> list[str]:
    """Every chapter; the data path opens the page."""
    found = sorted(module.name for module in pkgutil.iter_modules(chapters.__path__))
    return [name for name in FIRST if name in found] + [name for name in found if name not in FIRST]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--page", type=Path, default=OUT / "bench.md")
    parser.add_argument("--note", default="", help="a sentence about the circumstances")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    wanted = [name for name in asked.only.split(",") if name] or names()
    if unknown := set(wanted) - set(names()):
        parser.error(f"no such chapter: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    if asked.list:
        print("\n".join(names()))
        return
    say = Say()
    for name in wanted:
        _run(name, asked.rounds or (1 if asked.quick else 3), asked, say)
    told = [report.load(path) for name in names() if (path := OUT / f"{name}.json").exists()]
    titles = [_chapter(name).TITLE for name in names()]
    for path in report.write(told, titles, asked.page):
        print(f"wrote {path}")
    print(report.markdown(told, titles))


def _chapter(name: str) -> ModuleType:
    return importlib.import_module(f"bench.chapters.{name}")


def _run(name: str, rounds: int, asked: argparse.Namespace, say: Say) -> None:
    chapter = _chapter(name)
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC"
    say(chapter.TITLE)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        bench = Bench(Path(folder), rounds, asked.quick, asked.ours_only, say)
        chapter.run(bench)
    kind = f"{rounds} round{'s' if rounds > 1 else ''}" + (" of the quick sizes" if asked.quick else "")
    notes = [kind, getattr(chapter, "NOTE", ""), asked.note]
    about = report.About(name, chapter.TITLE, machine(), when, "; ".join(filter(None, notes)))
    report.save(report.Told(about, bench.figures, list(bench.growths.values())), OUT / f"{name}.json")


if __name__ == "__main__":
    main()
