"""python -m bench [--quick]: broker-lite against Apache Kafka, alternating rounds, one table.

--quick          one short round, under five minutes
--rounds N       other than three
--ours-only      leave Apache Kafka out, to compare with an earlier run
--page PATH      where the Markdown goes (.cache/bench/bench.md), the picture beside it
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench import report
from bench.append import over_partitions, over_size
from bench.peer import ApacheKafka, BrokerLite, machine
from bench.rounds import QUICK, Load, Say, one_round

ROOT = Path(__file__).parents[1]
OUT = ROOT / ".cache" / "bench"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--page", type=Path, default=OUT / "bench.md")
    parser.add_argument("--note", default="", help="a sentence about the circumstances")
    asked = parser.parse_args()
    load = QUICK if asked.quick else Load()
    if asked.rounds:
        load = replace(load, rounds=asked.rounds)
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC"
    kind = f"{load.rounds} round{'s' if load.rounds > 1 else ''} of {load.records:,} records"
    run = report.Run(machine(), when, "; ".join(filter(None, [kind, asked.note])))
    _rounds(run, load, ours_only=asked.ours_only)
    for path in report.write(run, asked.page, OUT / "bench.json"):
        print(f"wrote {path}")
    print(report.markdown(run))


def _rounds(run: report.Run, load: Load, *, ours_only: bool) -> None:
    say = Say()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for number in range(load.rounds):
            folder = Path(name) / str(number)
            pair: list[BrokerLite | ApacheKafka] = [BrokerLite(folder / "ours"), ApacheKafka(folder / "theirs")]
            if number % 2:
                pair.reverse()
            for broker in pair:
                if not ours_only or isinstance(broker, BrokerLite):
                    say(f"round {number + 1} of {load.rounds}: {broker.name}")
                    one_round(broker, load, run.figures, say)
    say("append cost by number of partitions")
    run.over_partitions = over_partitions(load.append_counts, appends=load.appends)
    say("append cost by size of the log")
    run.over_size = over_size(load.append_gigabytes, appends=load.appends)
    say("done")


if __name__ == "__main__":
    main()
