"""A log from its folder: the segments as recovery found them, then what the checkpoints say of them."""

from __future__ import annotations

from pathlib import Path

from broker_lite.errors import StorageFailed
from broker_lite.ids import Offset
from broker_lite.log import layout
from broker_lite.log.disk import Disk
from broker_lite.log.log import Log
from broker_lite.log.recovery import open_segments
from broker_lite.log.settings import LogSettings


def open_log(
    path: Path,
    disk: Disk,
    settings: LogSettings,
    *,
    clean: bool,
    recovery_point: Offset | None,
    log_start: Offset | None,
    now_ms: int,
    make: bool = True,
) -> Log:
    """`clean`: the last run ended with `close(clean=True)` and nothing has happened since.
    Not `make`: a folder that is missing is made when there is something to put into it."""
    try:
        opened = open_segments(
            disk,
            path,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
            interval=settings.index_interval_bytes,
            now_ms=now_ms,
            make=make,
            cut_damage=settings.cut_damage,
        )
        log = Log(path, disk, settings, opened)
        log.aborted.load(opened.aborted)
        _settle(log, recovery_point, log_start, now_ms)
    except OSError as error:
        raise StorageFailed(f"cannot open {path}: {error}") from error
    return log


def _settle(log: Log, recovery_point: int | None, log_start: int | None, now_ms: int) -> None:
    scanned, intact = log.recovered.scanned_from is not None, log.recovered.damage is None
    if scanned and intact:
        log.aborted.truncate_end(log.end)
    if log_start is not None and log_start > log.end and not scanned:
        # After a clean stop no record is missing, so it is the checkpoint that is wrong; to follow it deletes the log.
        raise StorageFailed(
            f"the {layout.LOG_STARTS} lets {log.path.name} start at {log_start}, and it ends at {log.end}"
        )
    if log_start is not None and log_start > log.end and intact:
        # All that is left was deleted before, and its end was never synced: go on where the log should start.
        log.begin_again(Offset(log_start), now_ms)
    log.start = Offset(max(log.start, min(log_start or 0, log.end)))
    synced = recovery_point or 0 if scanned else log.end
    log.recovery_point = Offset(max(log.start, min(synced, log.end)))
    log.head.drop_before(log.start, delay_ms=log.settings.cleanup.file_delete_delay_ms)
