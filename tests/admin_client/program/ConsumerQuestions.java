import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

record ConsumerQuestions(Admin admin, Asking asking, Telling telling) {
    private static final String TOPIC = "consumer-plain";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    private static final TopicPartition SECOND = new TopicPartition(TOPIC, 1);
    private static final TopicPartition NO_PARTITION = new TopicPartition(TOPIC, 99);
    private static final TopicPartition NO_TOPIC = new TopicPartition("consumer-none", 0);

    void ask() throws Exception {
        admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).all().get();
        asking.settle();
        try (KafkaProducer<String, String> producer = asking.producer(Map.of())) {
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(TOPIC, 0, 1_000_000L + 10 * number, "k" + number, "v" + number)).get();
            }
        }
        for (String protocol : List.of("classic", "consumer")) {
            assigned(protocol);
            subscribed(protocol);
            refused(protocol);
        }
    }

    private void assigned(String protocol) {
        String about = protocol + " ";
        try (KafkaConsumer<String, String> consumer = of(protocol, "assigned", Map.of("auto.offset.reset", "none"))) {
            telling.ask(about + "partitionsFor", () -> consumer.partitionsFor(TOPIC));
            telling.ask(about + "partitionsFor none", () -> consumer.partitionsFor("consumer-none"));
            telling.ask(about + "partitionsFor no name", () -> consumer.partitionsFor("a b"));
            telling.ask(about + "listTopics", () -> consumer.listTopics().get(TOPIC));
            telling.ask(about + "offsetsForTimes", () -> consumer.offsetsForTimes(Map.of(FIRST, 1_000_035L, SECOND, 0L)));
            telling.ask(about + "offsetsForTimes before all", () -> consumer.offsetsForTimes(Map.of(FIRST, 0L)));
            telling.ask(about + "offsetsForTimes at the last", () -> consumer.offsetsForTimes(Map.of(FIRST, 1_000_090L)));
            telling.ask(about + "offsetsForTimes after all", () -> consumer.offsetsForTimes(Map.of(FIRST, Long.MAX_VALUE)));
            telling.ask(about + "offsetsForTimes of none", () -> consumer.offsetsForTimes(Map.of(NO_PARTITION, 0L), Duration.ofSeconds(1)));
            telling.ask(about + "beginningOffsets", () -> consumer.beginningOffsets(List.of(FIRST, SECOND)));
            telling.ask(about + "endOffsets", () -> consumer.endOffsets(List.of(FIRST, SECOND)));
            telling.ask(about + "endOffsets of none", () -> consumer.endOffsets(List.of(NO_PARTITION), Duration.ofSeconds(1)));
            telling.ask(about + "committed of nothing", () -> consumer.committed(Set.of(FIRST)));
            telling.ask(about + "committed of none", () -> consumer.committed(Set.of(NO_PARTITION, NO_TOPIC)));
            consumer.assign(List.of(FIRST));
            telling.ask(about + "position without an offset", () -> consumer.position(FIRST));
            telling.ask(about + "poll without an offset", () -> consumer.poll(Duration.ofSeconds(2)).count());
            consumer.seek(FIRST, 99);
            telling.ask(about + "poll out of range", () -> untilRecords(consumer));
            consumer.seek(FIRST, 7);
            telling.ask(about + "currentLag unknown", () -> consumer.currentLag(FIRST));
            telling.ask(about + "poll", () -> untilRecords(consumer));
            telling.ask(about + "currentLag", () -> consumer.currentLag(FIRST));
            telling.ask(about + "position", () -> consumer.position(FIRST));
            telling.ask(about + "commitSync", () -> commit(consumer, FIRST, new OffsetAndMetadata(5, java.util.Optional.of(0), "note")));
            telling.ask(about + "commitSync past the end", () -> commit(consumer, SECOND, new OffsetAndMetadata(500)));
            telling.ask(about + "commitSync too many words", () -> commit(consumer, FIRST, new OffsetAndMetadata(5, "w".repeat(5000))));
            telling.ask(about + "commitSync to no topic", () -> commit(consumer, NO_TOPIC, new OffsetAndMetadata(5)));
            telling.ask(about + "commitSync to no partition", () -> commit(consumer, NO_PARTITION, new OffsetAndMetadata(5)));
            telling.ask(about + "committed", () -> consumer.committed(Set.of(FIRST, SECOND)));
            telling.ask(about + "groupMetadata", consumer::groupMetadata);
            telling.ask(about + "clientInstanceId", () -> consumer.clientInstanceId(Duration.ofSeconds(1)));
        }
        try (KafkaConsumer<String, String> consumer = of(protocol, "by-duration", Map.of("auto.offset.reset", "by_duration:PT1H"))) {
            consumer.assign(List.of(FIRST));
            telling.ask(about + "position by duration", () -> consumer.position(FIRST, Duration.ofMillis(Asking.IN_VAIN_MS)));
        }
    }

    private void subscribed(String protocol) {
        String about = protocol + " subscribed ";
        try (KafkaConsumer<String, String> consumer = of(protocol, "subscribed", Map.of("auto.offset.reset", "earliest"))) {
            consumer.subscribe(List.of(TOPIC, "consumer-none"));
            Asking.untilAssigned(consumer);
            telling.ask(about + "assignment", consumer::assignment);
            telling.ask(about + "groupMetadata", () -> consumer.groupMetadata().groupId() + " " + consumer.groupMetadata().generationId());
            telling.ask(about + "enforceRebalance", () -> {
                consumer.enforceRebalance("because");
                consumer.poll(Duration.ofSeconds(1));
                return consumer.assignment();
            });
            telling.ask(about + "commitSync of what is not assigned", () -> commit(consumer, NO_PARTITION, new OffsetAndMetadata(1)));
            consumer.unsubscribe();
            consumer.subscribe(Pattern.compile("consumer-pl.*"));
            Asking.untilAssigned(consumer);
            telling.ask(about + "by a pattern", consumer::assignment);
            telling.ask(about + "unsubscribe", () -> {
                consumer.unsubscribe();
                return consumer.assignment();
            });
            telling.ask(about + "by a pattern of the broker", () -> {
                consumer.subscribe(new SubscriptionPattern("consumer-p[l]ain"));
                Asking.untilAssigned(consumer);
                return consumer.assignment();
            });
        }
    }

    private void refused(String protocol) {
        String about = protocol + " refused ";
        refused(about + "a name", protocol, List.of("a b"), Map.of());
        refused(about + "an empty group", protocol, List.of(TOPIC), Map.of("group.id", ""));
        refused(about + "session", protocol, List.of(TOPIC), protocol.equals("classic") ? Map.of("session.timeout.ms", 10, "heartbeat.interval.ms", 3) : Map.of("group.remote.assignor", "none"));
        try (KafkaConsumer<String, String> first = of(protocol, "static", Map.of("group.instance.id", "same"))) {
            first.subscribe(List.of(TOPIC));
            Asking.untilAssigned(first);
            if (protocol.equals("consumer")) {
                refused(about + "a name that is taken", protocol, List.of(TOPIC), Map.of("group.id", protocol + "-static", "group.instance.id", "same"));
            } else {
                try (KafkaConsumer<String, String> second = of(protocol, "static", Map.of("group.instance.id", "same"))) {
                    second.subscribe(List.of(TOPIC));
                    Asking.untilAssigned(second);
                    telling.ask(about + "poll of who was replaced", () -> untilRecords(first));
                }
            }
        }
        try (KafkaConsumer<String, String> consumer = of(protocol, "bad-pattern", Map.of())) {
            telling.ask(about + "a pattern of the broker", () -> {
                consumer.subscribe(new SubscriptionPattern("(unclosed"));
                return untilRecords(consumer);
            });
        }
    }

    private void refused(String about, String protocol, List<String> topics, Map<String, ?> settings) {
        telling.ask(about, () -> {
            try (KafkaConsumer<String, String> consumer = of(protocol, "refused", settings)) {
                consumer.subscribe(topics);
                return untilRecords(consumer);
            }
        });
    }

    private KafkaConsumer<String, String> of(String protocol, String group, Map<String, ?> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("group.protocol", protocol, "group.id", protocol + "-" + group));
        settings.putAll(more);
        return asking.consumer(settings);
    }

    private static Object untilRecords(KafkaConsumer<String, String> consumer) {
        for (int turn = 0; turn < 20; turn++) {
            var records = consumer.poll(Duration.ofMillis(150));
            if (!records.isEmpty()) {
                return records.count() + " " + records.nextOffsets();
            }
        }
        return "nothing";
    }

    private static String commit(KafkaConsumer<?, ?> consumer, TopicPartition partition, OffsetAndMetadata offset) {
        boolean inVain = partition.equals(NO_TOPIC) || partition.equals(NO_PARTITION);
        consumer.commitSync(Map.of(partition, offset), Duration.ofMillis(inVain ? Asking.IN_VAIN_MS : 30_000));
        return "done";
    }
}
