"""Every refusal has a number that Kafka's clients know, and one sentence for people.

Rooms raise a named refusal with the expected and the actual value in its message.
Whoever answers the request turns it into the code; nobody in between catches it.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


class BrokerError(Exception):
    """A request, or one part of it, is refused. `code` is what the client is told."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR

    @property
    def message(self) -> str:
        return str(self) or self.code.name.lower().replace("_", " ")


class Malformed(Exception):
    """Bytes that cannot be what they claim to be. The connection that sent them is closed, unanswered."""


class StartRefused(Exception):
    """The broker cannot start; the message is the one line that the user sees."""


def refusal(code: ErrorCode, text: str) -> BrokerError:
    """A refusal whose code is only known at run time."""
    error = BrokerError(text)
    error.code = code
    return error


class OffsetOutOfRange(BrokerError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessage(BrokerError):
    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicOrPartition(BrokerError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class MessageTooLarge(BrokerError):
    code = ErrorCode.MESSAGE_TOO_LARGE


TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""What a log says of a batch that will never fit into it."""


class CoordinatorLoadInProgress(BrokerError):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(BrokerError):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class InvalidTopic(BrokerError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class RecordListTooLarge(BrokerError):
    code = ErrorCode.RECORD_LIST_TOO_LARGE


class InvalidRequiredAcks(BrokerError):
    code = ErrorCode.INVALID_REQUIRED_ACKS


class IllegalGeneration(BrokerError):
    code = ErrorCode.ILLEGAL_GENERATION


class InconsistentGroupProtocol(BrokerError):
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidGroupId(BrokerError):
    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberId(BrokerError):
    code = ErrorCode.UNKNOWN_MEMBER_ID


class InvalidSessionTimeout(BrokerError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT


class RebalanceInProgress(BrokerError):
    code = ErrorCode.REBALANCE_IN_PROGRESS


class UnsupportedVersion(BrokerError):
    code = ErrorCode.UNSUPPORTED_VERSION


class TopicAlreadyExists(BrokerError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(BrokerError):
    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(BrokerError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(BrokerError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(BrokerError):
    code = ErrorCode.INVALID_CONFIG


class InvalidRequest(BrokerError):
    code = ErrorCode.INVALID_REQUEST


class PolicyViolation(BrokerError):
    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequence(BrokerError):
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(BrokerError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(BrokerError):
    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMapping(BrokerError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionTimeout(BrokerError):
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class ConcurrentTransactions(BrokerError):
    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionCoordinatorFenced(BrokerError):
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class StorageFailed(BrokerError):
    code = ErrorCode.KAFKA_STORAGE_ERROR


class NonEmptyGroup(BrokerError):
    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFound(BrokerError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


class FetchSessionIdNotFound(BrokerError):
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class InvalidFetchSessionEpoch(BrokerError):
    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class FencedLeaderEpoch(BrokerError):
    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(BrokerError):
    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class UnsupportedCompressionType(BrokerError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class GroupMaxSizeReached(BrokerError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class FencedInstanceId(BrokerError):
    code = ErrorCode.FENCED_INSTANCE_ID


class InvalidRecord(BrokerError):
    code = ErrorCode.INVALID_RECORD


class UnstableOffsetCommit(BrokerError):
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT


class ProducerFenced(BrokerError):
    code = ErrorCode.PRODUCER_FENCED


class UnknownTopicId(BrokerError):
    code = ErrorCode.UNKNOWN_TOPIC_ID


class InconsistentTopicId(BrokerError):
    code = ErrorCode.INCONSISTENT_TOPIC_ID


class FetchSessionTopicIdError(BrokerError):
    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


class TransactionalIdNotFound(BrokerError):
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class FencedMemberEpoch(BrokerError):
    code = ErrorCode.FENCED_MEMBER_EPOCH


class UnreleasedInstanceId(BrokerError):
    code = ErrorCode.UNRELEASED_INSTANCE_ID


class UnsupportedAssignor(BrokerError):
    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class StaleMemberEpoch(BrokerError):
    code = ErrorCode.STALE_MEMBER_EPOCH


class TransactionAbortable(BrokerError):
    code = ErrorCode.TRANSACTION_ABORTABLE


class InvalidRegularExpression(BrokerError):
    code = ErrorCode.INVALID_REGULAR_EXPRESSION
