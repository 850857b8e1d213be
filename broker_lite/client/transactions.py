"""Transactions over the wire: list, describe, and end one that nobody will end."""

from __future__ import annotations

from broker_lite.client.client import Client
from broker_lite.client.groups import TRANSACTIONAL_ID, coordinator_of
from broker_lite.client.views import refused
from broker_lite.errors import InvalidTxnState
from broker_lite.wire.messages import k66_list_transactions as k66
from broker_lite.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker_lite.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from broker_lite.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


async def list_transactions(client: Client, states: list[str] | None = None) -> list[k66.TransactionState]:
    """Of every broker of the cluster, in the order of their names."""
    await client.metadata([])
    found: list[k66.TransactionState] = []
    for node in sorted(client.addresses):
        connection = await client.to_node(node)
        ask = k66.ListTransactionsRequest(state_filters=states or [], producer_id_filters=[])
        answer = await connection.request(ask, k66.ListTransactionsResponse)
        if answer.error_code:
            raise refused(answer.error_code, f"broker {node}")
        found += answer.transaction_states
    return sorted(found, key=lambda one: one.transactional_id)


async def describe_transaction(client: Client, transactional_id: str) -> TransactionState:
    connection = await coordinator_of(client, transactional_id, TRANSACTIONAL_ID)
    ask = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    state = (await connection.request(ask, DescribeTransactionsResponse)).transaction_states[0]
    if state.error_code:
        raise refused(state.error_code, f"transaction {transactional_id}")
    return state


async def producers(client: Client, topic: str, partition: int) -> list[ProducerState]:
    """Who writes to a partition with sequence numbers, and where their open transactions begin."""
    connection = await client.to_leader(topic, partition)
    ask = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    found = (await connection.request(ask, DescribeProducersResponse)).topics[0].partitions[0]
    if found.error_code:
        raise refused(found.error_code, found.error_message or f"{topic}-{partition}")
    return found.active_producers


async def abort(client: Client, topic: str, partition: int, start_offset: int) -> ProducerState:
    """Abort the transaction that began at an offset of a partition, as its coordinator would."""
    found = [one for one in await producers(client, topic, partition) if one.current_txn_start_offset == start_offset]
    if not found:
        raise InvalidTxnState(f"no open transaction of {topic}-{partition} began at offset {start_offset}")
    (state,) = found
    marker = WritableTxnMarker(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=max(0, state.coordinator_epoch),
    )
    connection = await client.to_leader(topic, partition)
    answer = await connection.request(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
    code = answer.markers[0].topics[0].partitions[0].error_code
    if code:
        raise refused(code, f"{topic}-{partition}")
    return state
