"""Groups of both protocols, said to both brokers: every API at every version, in every state, right and wrong.

Left out is what depends on time (Apache Kafka plans an assignment at most once a second), what it answers by accident
(a member epoch without a member is an unknown server error), and that a refused request leaves an empty group there.
"""

from __future__ import annotations

import time

from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from broker_lite.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker_lite.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from broker_lite.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker_lite.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker_lite.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from broker_lite.wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from broker_lite.wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker_lite.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.differential.conversations import ID, Conversation
from tests.differential.transacting import SALT, Writer, writer
from tests.differential.wire import Wire

_WITHIN = 20.0
_BY_ID = 10


def ready(wire: Wire, group: str) -> None:
    """Apache Kafka makes its internal topic on the first question."""
    deadline = time.monotonic() + _WITHIN
    while True:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        wire.ask("find", find, 4, FindCoordinatorResponse, note=False)
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        answer = wire.ask("ready", asked, 8, OffsetFetchResponse, note=False)
        assert answer is not None
        if answer.groups[0].error_code == 0:
            return
        assert time.monotonic() < deadline, answer


def join_of(
    group: str,
    member: str = "",
    *,
    instance: str | None = None,
    session: int = 30_000,
    kind: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session,
        rebalance_timeout_ms=30_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=b"m") for name in protocols],
    )


def _enter(wire: Wire, version: int, group: str, *, instance: str | None = None) -> JoinGroupResponse:
    """A member, however many requests that takes."""
    answer = wire.ask("enter", join_of(group, instance=instance), version, JoinGroupResponse)
    assert answer is not None
    if answer.error_code == 79:
        again = join_of(group, answer.member_id, instance=instance)
        answer = wire.ask("enter with the id", again, version, JoinGroupResponse)
        assert answer is not None
    return answer


def _sync(group: str, generation: int, member: str, assigned: dict[str, bytes], **more: str | None) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(member_id=who, assignment=what) for who, what in assigned.items()]
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=more.get("instance"),
        protocol_type=more.get("kind"),
        protocol_name=more.get("name"),
        assignments=assignments,
    )


def describe(wire: Wire, label: str, group: str, version: int = 5) -> None:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=version >= 3)
    wire.ask(label, request, version, DescribeGroupsResponse)


def joining(wire: Wire, both: dict[int, range]) -> None:
    for version in both[11]:
        group = f"jg{version}-{SALT}"
        ready(wire, group)
        for label, request in {
            "no group": join_of(""),
            "short session": join_of(group, session=10),
            "long session": join_of(group, session=10_000_000),
            "no protocols": join_of(group, protocols=()),
            "no kind": join_of(group, kind=""),
            "unknown member": join_of(group, "nobody"),
        }.items():
            wire.ask(label, request, version, JoinGroupResponse)
        me = _enter(wire, version, group)
        describe(wire, f"v{version} joined", group)
        wire.ask("other kind", join_of(group, kind="connect"), version, JoinGroupResponse)
        wire.ask("other protocol", join_of(group, protocols=("sticky",)), version, JoinGroupResponse)
        wire.ask("stranger", join_of(group, "nobody"), version, JoinGroupResponse)
        wire.ask("joined again", join_of(group, me.member_id), version, JoinGroupResponse)
        wire.ask("sync", _sync(group, 1, me.member_id, {me.member_id: b"a"}), 3, SyncGroupResponse)
        describe(wire, f"v{version} stable", group)
        wire.ask("the leader again", join_of(group, me.member_id), version, JoinGroupResponse)
        _leave(wire, group, me.member_id)
        describe(wire, f"v{version} left", group)
        if version >= 5:
            static = f"js{version}-{SALT}"
            one = _enter(wire, version, static, instance="i")
            wire.ask("sync", _sync(static, 1, one.member_id, {one.member_id: b"a"}), 3, SyncGroupResponse)
            wire.ask("static, wrong member", join_of(static, "nobody", instance="i"), version, JoinGroupResponse)
            wire.ask("static, comes back", join_of(static, instance="i"), version, JoinGroupResponse)
            wire.ask("static, the old one", join_of(static, one.member_id, instance="i"), version, JoinGroupResponse)
            describe(wire, f"v{version} static", static)
            _leave(wire, static, "", instance="i")


def _leave(wire: Wire, group: str, member: str, instance: str | None = None) -> None:
    members = [MemberIdentity(member_id=member, group_instance_id=instance)]
    wire.ask("leave", LeaveGroupRequest(group_id=group, members=members), 4, LeaveGroupResponse)


def syncing(wire: Wire, both: dict[int, range]) -> None:
    for version in both[14]:
        group = f"sy{version}-{SALT}"
        ready(wire, group)
        wire.ask("no group", _sync("", 1, "m", {}, kind="consumer", name="range"), version, SyncGroupResponse)
        wire.ask("unknown group", _sync(group, 1, "m", {}, kind="consumer", name="range"), version, SyncGroupResponse)
        me = _enter(wire, 5, group)
        right = {"kind": "consumer", "name": "range"}
        for label, generation, member, more in (
            ("unknown member", 1, "nobody", right),
            ("old generation", 0, me.member_id, right),
            ("next generation", 2, me.member_id, right),
            ("other kind", 1, me.member_id, {"kind": "connect", "name": "range"}),
            ("other name", 1, me.member_id, {"kind": "consumer", "name": "sticky"}),
            ("no kind", 1, me.member_id, {"kind": None, "name": None}),
            ("right", 1, me.member_id, right),
            ("again", 1, me.member_id, right),
            ("again old generation", 0, me.member_id, right),
        ):
            request = _sync(group, generation, member, {me.member_id: b"mine"}, **more)
            wire.ask(label, request, version, SyncGroupResponse)
        if version >= 3:
            request = _sync(group, 1, me.member_id, {}, instance="i", **right)
            wire.ask("unknown instance", request, version, SyncGroupResponse)
        describe(wire, f"v{version}", group)
        _leave(wire, group, me.member_id)
        wire.ask("gone", _sync(group, 1, me.member_id, {}, **right), version, SyncGroupResponse)


def beating(wire: Wire, both: dict[int, range]) -> None:
    for version in both[12]:
        group = f"hb{version}-{SALT}"
        ready(wire, group)

        def beat(
            label: str,
            generation: int,
            member: str,
            name: str = group,
            instance: str | None = None,
            version: int = version,
        ) -> None:
            request = HeartbeatRequest(
                group_id=name, generation_id=generation, member_id=member, group_instance_id=instance
            )
            wire.ask(label, request, version, HeartbeatResponse)

        beat("no group", 1, "m", "")
        beat("unknown group", 1, "m")
        me = _enter(wire, 5, group)
        beat("before the sync", 1, me.member_id)
        wire.ask("sync", _sync(group, 1, me.member_id, {}), 3, SyncGroupResponse)
        beat("right", 1, me.member_id)
        beat("old generation", 0, me.member_id)
        beat("next generation", 2, me.member_id)
        beat("unknown member", 1, "nobody")
        beat("no member", 1, "")
        if version >= 3:
            beat("unknown instance", 1, me.member_id, instance="i")
        _leave(wire, group, me.member_id)
        beat("gone", 1, me.member_id)


def leaving(wire: Wire, both: dict[int, range]) -> None:
    for version in both[13]:
        group = f"lv{version}-{SALT}"
        ready(wire, group)
        me = _enter(wire, 5, group)

        def leave(label: str, name: str, *members: tuple[str, str | None], version: int = version) -> None:
            if version < 3:
                request = LeaveGroupRequest(group_id=name, member_id=members[0][0])
            else:
                gone = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
                request = LeaveGroupRequest(group_id=name, members=gone)
            wire.ask(label, request, version, LeaveGroupResponse)

        leave("no group", "", ("m", None))
        leave("unknown group", f"no{SALT}", ("m", None))
        leave("unknown member", group, ("nobody", None))
        if version >= 3:
            leave("unknown instance", group, ("", "i"))
            leave("nobody", group)
            leave("two", group, ("nobody", None), (me.member_id, None))
        else:
            leave("right", group, (me.member_id, None))
        leave("gone", group, (me.member_id, None))
        describe(wire, f"v{version}", group)


def commit_of(target: Writer, version: int, group: str, **more: object) -> OffsetCommitRequest:
    index, offset, metadata = more.get("index", 0), more.get("offset", 5), more.get("metadata", "m")
    assert isinstance(index, int)
    assert isinstance(offset, int)
    assert metadata is None or isinstance(metadata, str)
    known = more.get("known", True)
    topic = OffsetCommitRequestTopic(
        name=target.topic if known else "nope",
        topic_id=target.topic_id if known else ID,
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=metadata
            )
        ],
    )
    generation, member, instance = more.get("generation", -1), more.get("member", ""), more.get("instance")
    assert isinstance(generation, int)
    assert isinstance(member, str)
    assert instance is None or isinstance(instance, str)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation if version else -1,
        member_id=member if version else "",
        group_instance_id=instance if version >= 7 else None,
        topics=[topic],
    )


def fetch_of(target: Writer, version: int, group: str, indexes: list[int] | None, **more: object) -> OffsetFetchRequest:
    known, member, epoch = more.get("known", True), more.get("member"), more.get("epoch", -1)
    name, topic_id = (target.topic, target.topic_id) if known else ("nope", ID)
    assert member is None or isinstance(member, str)
    assert isinstance(epoch, int)
    if version < 8:
        topics = None if indexes is None else [OffsetFetchRequestTopic(name=name, partition_indexes=indexes)]
        return OffsetFetchRequest(group_id=group, topics=topics)
    one = OffsetFetchRequestGroup(
        group_id=group,
        member_id=member if version >= 9 else None,
        member_epoch=epoch if version >= 9 else -1,
        topics=None
        if indexes is None
        else [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)],
    )
    return OffsetFetchRequest(groups=[one])


def _fetches(wire: Wire, label: str, target: Writer, version: int, group: str) -> None:
    for indexes in ([0], [0, 1], [9], []):
        request = fetch_of(target, version, group, indexes)
        wire.ask(f"{label} {indexes}", request, version, OffsetFetchResponse)
    wire.ask(f"{label} unknown", fetch_of(target, version, group, [0], known=False), version, OffsetFetchResponse)
    if version >= 2:
        wire.ask(f"{label} all", fetch_of(target, version, group, None), version, OffsetFetchResponse)


def offsets(wire: Wire, both: dict[int, range]) -> None:
    target = writer(wire, "of", 2)
    for version in both[8]:
        group = f"oc{version}-{SALT}"
        ready(wire, group)

        def commit(label: str, name: str = group, version: int = version, **more: object) -> None:
            wire.ask(label, commit_of(target, version, name, **more), version, OffsetCommitResponse)

        commit("no group", "")
        commit("generation of nobody", generation=3, member="nobody")
        commit("unknown topic", known=False)
        commit("unknown partition", index=9)
        commit("much to say", metadata="m" * 5000)
        commit("nobody", member="nobody")
        commit("plain")
        commit("silent", index=1, metadata=None)
        commit("negative", offset=-3)
        commit("back", offset=2)
        commit("generation, then nobody", generation=0)
        describe(wire, f"v{version} simple", group)
        member = f"om{version}-{SALT}"
        ready(wire, member)
        me = _enter(wire, 5, member)
        commit("before the sync", member, generation=1, member=me.member_id)
        wire.ask("sync", _sync(member, 1, me.member_id, {}), 3, SyncGroupResponse)
        commit("member", member, generation=1, member=me.member_id)
        commit("old generation", member, generation=0, member=me.member_id)
        commit("next generation", member, generation=2, member=me.member_id)
        commit("stranger", member, generation=1, member="nobody")
        commit("outsider", member)
        commit("instance", member, generation=1, member=me.member_id, instance="i")
        for at in both[9]:
            _fetches(wire, f"simple after v{version}", target, at, group)
        _leave(wire, member, me.member_id)
        commit("after it left", member)
        _delete(wire, target, group, member, version)
    for version in both[9]:
        for group in ("", f"none-{SALT}"):
            _fetches(wire, "empty" if group else "no group", target, version, group)


def _delete(wire: Wire, target: Writer, group: str, member: str, version: int) -> None:
    for name in (group, member, f"no{SALT}", ""):
        for topic, index in ((target.topic, 0), (target.topic, 7), ("nope", 0)):
            place = OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
            )
            request = OffsetDeleteRequest(group_id=name, topics=[place])
            wire.ask(f"{name[:2]} {topic[:2]} {index} after v{version}", request, 0, OffsetDeleteResponse)


def looking(wire: Wire, both: dict[int, range]) -> None:
    target = writer(wire, "lg")
    for version in both[42]:
        empty, live = f"dg{version}-{SALT}", f"dl{version}-{SALT}"
        ready(wire, empty)
        wire.ask("commit", commit_of(target, 5, empty), 5, OffsetCommitResponse)
        me = _enter(wire, 5, live)
        wire.ask("sync", _sync(live, 1, me.member_id, {me.member_id: b"x"}), 3, SyncGroupResponse)
        for at in both[15]:
            for name in (empty, live, f"no{SALT}", ""):
                describe(wire, f"v{version} {name[:2]}", name, at)
        for name in (live, f"no{SALT}", "", empty, empty):
            wire.ask(f"{name[:2]}", DeleteGroupsRequest(groups_names=[name]), version, DeleteGroupsResponse)
        _leave(wire, live, me.member_id)
        wire.ask("emptied", DeleteGroupsRequest(groups_names=[live]), version, DeleteGroupsResponse)
    group = f"ls-{SALT}"
    wire.ask("commit", commit_of(target, 5, group), 5, OffsetCommitResponse)
    for version in both[16]:
        for states in ([], ["Stable"], ["Empty"], ["empty"], ["Nonsense"]) if version >= 4 else ([],):
            for types in ([], ["classic"], ["Consumer"], ["nonsense"]) if version >= 5 else ([],):
                request = ListGroupsRequest(states_filter=states, types_filter=types)
                answer = wire.ask(f"{states} {types}", request, version, ListGroupsResponse, note=False)
                assert answer is not None
                mine = [
                    (one.protocol_type, one.group_state, one.group_type)
                    for one in answer.groups
                    if one.group_id == group
                ]
                wire.note(16, version, f"ListGroups v{version} {states} {types}", [answer.error_code, *mine])


GROUPS: list[Conversation] = [joining, syncing, beating, leaving, offsets, looking]
