"""The log of a coordinator refuses a record: what its clients are told, of groups and transactions alike."""

from __future__ import annotations

from broker_lite.errors import TOO_LARGE, BrokerError, CoordinatorNotAvailable, ErrorCode, refusal

_NOT_AVAILABLE = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def coordinator_error(error: BrokerError) -> BrokerError:
    """What a client is told when its coordinator's log refuses: retry, give up, or the error itself, as in Kafka.

    Of a disk that refuses Kafka says NOT_COORDINATOR, because another broker may be; clients treat both alike.
    """
    if error.code in _NOT_AVAILABLE:
        return CoordinatorNotAvailable(f"the coordinator's log cannot be written: {error.message}")
    if error.code in TOO_LARGE:
        return refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordinator's log cannot be written: {error.message}")
    return error
