"""What can go wrong in the pipeline, by name. Every message is one line and says where."""

from __future__ import annotations


class PipelineError(Exception):
    """The job cannot go on; the text is what a person should read."""


class NotThere(PipelineError):
    """A folder, a topic or a partition that does not exist, or is not what it was said to be."""


class DataLost(PipelineError):
    """Offsets that were asked for are no longer in the log."""


class Refused(PipelineError):
    """What lies there already does not go with what is asked; nothing of it was touched."""


class WrongOption(PipelineError):
    """An option that nobody knows, or a value that it cannot have."""


class Damaged(PipelineError):
    """Bytes of a log that are not what they should be."""

    def __init__(self, where: str, position: int, why: str, offset: int | None = None) -> None:
        self.where, self.position, self.why, self.offset = where, position, why, offset
        batch = "" if offset is None else f", batch at offset {offset}"
        super().__init__(f"{where}: byte {position}{batch}: {why}")

    def __reduce__(self) -> tuple[type[Damaged], tuple[str, int, str, int | None]]:
        return type(self), (self.where, self.position, self.why, self.offset)


class CutBatch(Damaged):
    """A batch that says it is longer than what is left, or a length that no batch can have."""


class WrongChecksum(Damaged):
    """The checksum is not that of the bytes."""


class BadRecord(Damaged):
    """The checksum is right, but what it covers is no sequence of records."""
