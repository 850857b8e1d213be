"""Limits, users, the quorum and features, said to both brokers at every version."""

from __future__ import annotations

from broker_lite.wire.messages import k48_describe_client_quotas as k48
from broker_lite.wire.messages import k49_alter_client_quotas as k49
from broker_lite.wire.messages import k50_describe_user_scram_credentials as k50
from broker_lite.wire.messages import k51_alter_user_scram_credentials as k51
from broker_lite.wire.messages import k55_describe_quorum as k55
from broker_lite.wire.messages import k57_update_features as k57
from tests.differential.conversations import Conversation, until
from tests.differential.wire import Wire

EXACTLY, DEFAULT, ANY = 0, 1, 2
RATE = "producer_byte_rate"


def _limits_of(user: str, how: int = EXACTLY, *, strict: bool = False) -> k48.DescribeClientQuotasRequest:
    component = k48.ComponentData(entity_type="user", match_type=how, match=user if how == EXACTLY else None)
    return k48.DescribeClientQuotasRequest(components=[component], strict=strict)


def _limit(entity: dict[str, str | None], key: str, value: float, *, remove: bool = False) -> k49.EntryData:
    parts = [k49.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return k49.EntryData(entity=parts, ops=[k49.OpData(key=key, value=value, remove=remove)])


def quotas(wire: Wire, both: dict[int, range]) -> None:
    for version in both[49]:
        user = f"bob{version}"
        cases = {
            "good": _limit({"user": user}, RATE, 1000.0),
            "half": _limit({"user": user}, RATE, 1000.5),
            "both": _limit({"user": user, "client-id": "c"}, RATE, 7.0),
            "unknown key": _limit({"user": user}, "nope", 1.0),
            "zero": _limit({"user": user}, RATE, 0.0),
            "less": _limit({"user": user}, RATE, -1.0),
            "wrong entity": _limit({"bogus": "x"}, RATE, 1.0),
            "nobody": _limit({}, RATE, 1.0),
            "a key of addresses": _limit({"user": user}, "connection_creation_rate", 1.0),
            "empty name": _limit({"user": ""}, RATE, 1.0),
        }
        for label, entry in cases.items():
            for only in (True, False):
                request = k49.AlterClientQuotasRequest(entries=[entry], validate_only=only)
                wire.ask(f"{label} {only}", request, version, k49.AlterClientQuotasResponse)
        _has_limits(wire, user, 2)
        for at in both[48]:
            for strict in (False, True):
                wire.ask(f"{user} {strict}", _limits_of(user, strict=strict), at, k48.DescribeClientQuotasResponse)
                for how in (DEFAULT, 9):
                    asked = _limits_of(user, how, strict=strict)
                    wire.ask(f"{how} {strict}", asked, at, k48.DescribeClientQuotasResponse)
        for entity in ({"user": user}, {"user": user, "client-id": "c"}, {"user": user}):
            gone = k49.AlterClientQuotasRequest(
                entries=[_limit(dict(entity), RATE, 0.0, remove=True)], validate_only=False
            )
            wire.ask(f"gone {sorted(entity)}", gone, version, k49.AlterClientQuotasResponse)
        _has_limits(wire, user, 0)


def _has_limits(wire: Wire, user: str, count: int) -> None:
    until(
        lambda: wire.ask("limits", _limits_of(user), 1, k48.DescribeClientQuotasResponse, note=False),
        lambda answer: len(answer.entries or []) == count,
    )


def _credential(name: str, mechanism: int = 1, iterations: int = 4096) -> k51.AlterUserScramCredentialsRequest:
    added = k51.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
    )
    return k51.AlterUserScramCredentialsRequest(deletions=[], upsertions=[added])


def _without(name: str, mechanism: int = 1) -> k51.AlterUserScramCredentialsRequest:
    gone = k51.ScramCredentialDeletion(name=name, mechanism=mechanism)
    return k51.AlterUserScramCredentialsRequest(deletions=[gone], upsertions=[])


def users(wire: Wire, both: dict[int, range]) -> None:
    for version in both[51]:
        for label, request in {
            "good": _credential("carol"),
            "other mechanism": _credential("carol", 2, 8192),
            "no such mechanism": _credential("carol", 9),
            "few rounds": _credential("carol", 1, 4095),
            "many rounds": _credential("carol", 1, 16385),
            "no name": _credential(""),
            "nobody": _without("nobody"),
            "gone, no such mechanism": _without("carol", 9),
        }.items():
            wire.ask(label, request, version, k51.AlterUserScramCredentialsResponse)
        until(
            lambda: wire.ask("users", _named("carol"), 0, k50.DescribeUserScramCredentialsResponse, note=False),
            lambda answer: len(answer.results[0].credential_infos) == 2,
        )
        for at in both[50]:
            for names in (["carol"], ["nobody"], ["carol", "carol"], ["carol", "nobody"], [""]):
                wire.ask(f"{names}", _named(*names), at, k50.DescribeUserScramCredentialsResponse)
        for mechanism in (1, 2, 1):
            wire.ask(f"gone {mechanism}", _without("carol", mechanism), version, k51.AlterUserScramCredentialsResponse)


def _named(*names: str) -> k50.DescribeUserScramCredentialsRequest:
    return k50.DescribeUserScramCredentialsRequest(users=[k50.UserName(name=name) for name in names])


def quorum(wire: Wire, both: dict[int, range]) -> None:
    for version in both[55]:
        for name, index in (("__cluster_metadata", 0), ("__cluster_metadata", 1), ("none", 0), ("", 0)):
            wanted = k55.TopicData(topic_name=name, partitions=[k55.PartitionData(partition_index=index)])
            wire.ask(f"{name}-{index}", k55.DescribeQuorumRequest(topics=[wanted]), version, k55.DescribeQuorumResponse)
        wire.ask("nothing", k55.DescribeQuorumRequest(topics=[]), version, k55.DescribeQuorumResponse)


def features(wire: Wire, both: dict[int, range]) -> None:
    for version in both[57]:
        for name, level in (
            ("nope", 1),
            ("transaction.version", 2),
            ("transaction.version", 9),
            ("group.version", 1),
            ("", 1),
        ):
            for how in (1, 2, 9) if version else (1,):
                update = k57.FeatureUpdateKey(feature=name, max_version_level=level)
                update.upgrade_type = how
                request = k57.UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update])
                wire.ask(f"{name!r} {level} {how}", request, version, k57.UpdateFeaturesResponse)
                if version:
                    request.validate_only = True
                    wire.ask(f"{name!r} {level} {how} checked", request, version, k57.UpdateFeaturesResponse)
        twice = [k57.FeatureUpdateKey(feature="group.version", max_version_level=1) for _ in range(2)]
        request = k57.UpdateFeaturesRequest(timeout_ms=5000, feature_updates=twice)
        wire.ask("twice", request, version, k57.UpdateFeaturesResponse)
        wire.ask(
            "nothing",
            k57.UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[]),
            version,
            k57.UpdateFeaturesResponse,
        )


LIMITS: list[Conversation] = [quotas, users, quorum, features]
