"""What a topic's configuration means for its partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.clock import ManualClock
from broker_lite.config.start import TopicAtStart
from broker_lite.ids import Offset
from broker_lite.records.compression import Codec
from tests.support.talk import NOW, talking

SENTENCE = b"".join(b"%d is followed by %d; " % (at * at, at) for at in range(4000))


@pytest.mark.parametrize(
    ("codec", "fast", "thorough"),
    [("gzip", "1", "9"), ("lz4", "9", "12"), ("zstd", "-100", "22"), ("lz4", "9", "3")],
)
async def test_a_topic_with_a_codec_of_its_own_compresses_as_hard_as_it_is_told(
    tmp_path: Path, codec: str, fast: str, thorough: str
) -> None:
    topics = [
        TopicAtStart("fast", 1, {"compression.type": codec, f"compression.{codec}.level": fast}),
        TopicAtStart("thorough", 1, {"compression.type": codec, f"compression.{codec}.level": thorough}),
    ]
    async with talking(tmp_path, ManualClock(NOW), topics=topics) as talk:
        sizes = []
        for topic in ("fast", "thorough"):
            assert (await talk.produce(topic, SENTENCE)).error_code == 0
            batch = talk.broker.topics.partition(topic, 0).log.batch_at(Offset(0))
            assert batch is not None
            assert batch.codec == Codec[codec.upper()]
            sizes.append(batch.size)
    assert sizes[0] > sizes[1]


async def test_a_brokers_level_is_the_topics_unless_it_has_its_own(tmp_path: Path) -> None:
    topics = [TopicAtStart("t", 1, {"compression.type": "zstd"}), TopicAtStart("plain", 1, {})]
    async with talking(tmp_path, ManualClock(NOW), settings={"compression.zstd.level": "19"}, topics=topics) as talk:
        rules = talk.broker.topics.partition("t", 0).settings.rules
        assert (rules.compression, rules.compression_level) == (Codec.ZSTD, 19)
        rules = talk.broker.topics.partition("plain", 0).settings.rules
        assert (rules.compression, rules.compression_level) == (None, None)
