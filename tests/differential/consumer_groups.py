"""Groups of the consumer protocol (KIP-848), said to both brokers, and what the classic requests say about them."""

from __future__ import annotations

from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchResponse,
)
from broker_lite.wire.messages.k11_join_group import JoinGroupResponse
from broker_lite.wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker_lite.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tests.differential.conversations import Conversation
from tests.differential.groups import commit_of, describe, fetch_of, join_of, ready
from tests.differential.transacting import SALT, writer
from tests.differential.wire import Wire


def _beat(group: str, member: str, epoch: int, **more: object) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch)
    for name, value in more.items():
        setattr(request, name, value)
    return request


def consuming(wire: Wire, both: dict[int, range]) -> None:
    target = writer(wire, "cg", 3)
    first: dict[str, object] = {
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": [target.topic],
        "topic_partitions": [],
    }
    for version in both[68]:
        group = f"cg{version}-{SALT}"
        ready(wire, group)

        def beat(label: str, request: ConsumerGroupHeartbeatRequest, version: int = version) -> int:
            answer = wire.ask(label, request, version, ConsumerGroupHeartbeatResponse)
            return -1 if answer is None else answer.member_epoch

        name = "aaaaaaaaaaaaaaaaaaaaaa" + str(version)
        beat("no group", _beat("", name, 0, **first))
        beat("unknown group", _beat(group, name, 3))
        beat("no member", _beat(f"cn{version}-{SALT}", "", 0, **first))
        beat("no time-out", _beat(group, name, 0, subscribed_topic_names=[target.topic], topic_partitions=[]))
        beat("no topics", _beat(group, name, 0, rebalance_timeout_ms=30_000, topic_partitions=[]))
        beat("no partitions", _beat(group, name, 0, rebalance_timeout_ms=30_000, subscribed_topic_names=["x"]))
        beat("owns at first", _beat(group, name, 0, **{**first, "topic_partitions": [
            TopicPartitions(topic_id=target.topic_id, partitions=[0])
        ]}))  # fmt: skip
        beat("bad assignor", _beat(group, name, 0, **first, server_assignor="nonsense"))
        beat("below", _beat(group, name, -3, **first))
        beat("empty instance", _beat(group, name, 0, **first, instance_id=""))
        epoch = beat("joins", _beat(group, name, 0, **first))
        wire.ask("join of the other kind", join_of(group), 5, JoinGroupResponse)
        _consumer_group(wire, both, f"v{version} joined", group)
        owned = [TopicPartitions(topic_id=target.topic_id, partitions=[0, 1, 2])]
        beat("owns", _beat(group, name, epoch, topic_partitions=owned))
        beat("as before", _beat(group, name, epoch))
        beat("stale", _beat(group, name, epoch - 1))
        beat("future", _beat(group, name, epoch + 1))
        beat("stranger", _beat(group, "bbbbbbbbbbbbbbbbbbbbbb", epoch))
        beat("instance of nobody", _beat(group, name, epoch, instance_id="i"))
        if version >= 1:
            for number, pattern in enumerate(("(", "(?!x)", "")):
                request = _beat(f"cr{number}-{SALT}", name, 0, **first, subscribed_topic_regex=pattern)
                beat(f"pattern {pattern}", request)
        for at in both[8]:
            for label, generation, member in (
                ("member", epoch, name), ("stale", epoch - 1, name), ("future", epoch + 7, name),
                ("stranger", epoch, "bb"), ("outsider", -1, ""),
            ):  # fmt: skip
                committing = commit_of(target, at, group, generation=generation, member=member)
                wire.ask(f"consumer {label} after v{version}", committing, at, OffsetCommitResponse)
        for at in both[9]:
            if at >= 9:
                for label, generation, who in (
                    ("member", epoch, name), ("stale", epoch - 1, name), ("future", epoch + 7, name),
                    ("stranger", epoch, "bb"), ("outsider", -1, None),
                ):  # fmt: skip
                    request_of = fetch_of(target, at, group, [0], member=who, epoch=generation)
                    wire.ask(f"consumer {label} after v{version}", request_of, at, OffsetFetchResponse)
        describe(wire, f"v{version} consumer", group)
        wire.ask("live", DeleteGroupsRequest(groups_names=[group]), 2, DeleteGroupsResponse)
        beat("leaves", _beat(group, name, -1))
        beat("leaves again", _beat(group, name, -1))
        _consumer_group(wire, both, f"v{version} left", group)
        static = f"cs{version}-{SALT}"
        beat("static joins", _beat(static, name, 0, **first, instance_id="i"))
        beat("twin joins", _beat(static, "c" * 22, 0, **first, instance_id="i"))
        beat("static goes for a while", _beat(static, name, -2, instance_id="i"))
        beat("twin joins then", _beat(static, "c" * 22, 0, **first, instance_id="i"))
        beat("the old one", _beat(static, name, 1, instance_id="i"))
        beat("twin leaves", _beat(static, "c" * 22, -1, instance_id="i"))


def _consumer_group(wire: Wire, both: dict[int, range], label: str, group: str) -> None:
    for version in both[69]:
        for name in (group, f"no{SALT}", ""):
            request = ConsumerGroupDescribeRequest(group_ids=[name], include_authorized_operations=True)
            wire.ask(f"{label} {name[:2]}", request, version, ConsumerGroupDescribeResponse)


CONSUMER_GROUPS: list[Conversation] = [consuming]
