import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

record ProducerQuestions(Admin admin, Asking asking, Telling telling) {
    private static final TopicPartition PLAIN = new TopicPartition("producer-plain", 0);

    void ask() throws Exception {
        admin.createTopics(List.of(new NewTopic("producer-plain", 2, (short) 1),
            new NewTopic("producer-compacted", 1, (short) 1).configs(Map.of("cleanup.policy", "compact")),
            new NewTopic("producer-small", 1, (short) 1).configs(Map.of("max.message.bytes", "500")),
            new NewTopic("producer-dated", 1, (short) 1).configs(Map.of("message.timestamp.before.max.ms", "1000", "message.timestamp.after.max.ms", "1000")),
            new NewTopic("producer-stamped", 1, (short) 1).configs(Map.of("message.timestamp.type", "LogAppendTime")))).all().get();
        asking.settle();
        sending();
        transactions();
        administering();
    }

    private void sending() {
        try (KafkaProducer<String, String> producer = asking.producer(Map.of())) {
            telling.ask("producer.partitionsFor", () -> producer.partitionsFor("producer-plain"));
            telling.ask("producer.partitionsFor what is made by asking", () -> producer.partitionsFor("producer-by-asking").size());
            telling.ask("producer.partitionsFor no name", () -> producer.partitionsFor("a b"));
            try (KafkaProducer<String, String> hasty = asking.producer(Map.of("max.block.ms", Asking.IN_VAIN_MS))) {
                telling.ask("producer.send to no partition", () -> hasty.send(new ProducerRecord<>("producer-plain", 99, "k", "v")));
            }
            telling.ask("producer.send", () -> producer.send(new ProducerRecord<>("producer-plain", 0, 5L, "k", "v")));
            telling.ask("producer.send no key to a compacted topic", () -> producer.send(new ProducerRecord<>("producer-compacted", "v")));
            telling.ask("producer.send too much", () -> producer.send(new ProducerRecord<>("producer-small", "v".repeat(1000))));
            telling.ask("producer.send too old", () -> producer.send(new ProducerRecord<>("producer-dated", 0, 5L, "k", "v")));
            telling.ask("producer.send too new", () -> producer.send(new ProducerRecord<>("producer-dated", 0, System.currentTimeMillis() + 3_600_000, "k", "v")));
            telling.ask("producer.send stamped by the broker", () -> producer.send(new ProducerRecord<>("producer-stamped", 0, 5L, "k", "v")).get().timestamp() > 5);
            telling.ask("producer.clientInstanceId", () -> producer.clientInstanceId(Duration.ofSeconds(1)));
        }
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            for (String acks : List.of("0", "1", "all")) {
                try (KafkaProducer<String, String> producer = asking.producer(Map.of("compression.type", codec, "acks", acks, "enable.idempotence", acks.equals("all")))) {
                    telling.ask("producer.send " + codec + " acks " + acks, () -> producer.send(new ProducerRecord<>("producer-plain", 1, 5L, "k", "v".repeat(500))));
                }
            }
        }
    }

    private void transactions() throws Exception {
        try (KafkaProducer<String, String> producer = transactional("tx-1"); KafkaProducer<String, String> rival = transactional("tx-1")) {
            telling.ask("producer.beginTransaction too early", () -> run(producer::beginTransaction));
            telling.ask("producer.initTransactions", () -> run(producer::initTransactions));
            telling.ask("producer.commitTransaction of nothing", () -> run(() -> {
                producer.beginTransaction();
                producer.commitTransaction();
            }));
            telling.ask("producer.abortTransaction", () -> run(() -> {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("producer-plain", 0, 6L, "k", "aborted"));
                producer.flush();
                producer.abortTransaction();
            }));
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("producer-plain", 0, 7L, "k", "open")).get();
            asking.settle();
            telling.ask("describeProducers of an open transaction", () -> admin.describeProducers(List.of(PLAIN)).all().get().get(PLAIN).activeProducers().stream()
                .map(state -> state.producerEpoch() + " " + state.lastSequence() + " " + state.currentTransactionStartOffset()).toList());
            telling.ask("describeTransactions of an open one", () -> {
                TransactionDescription open = admin.describeTransactions(List.of("tx-1")).all().get().get("tx-1");
                return open.coordinatorId() + " " + open.state() + " " + open.transactionTimeoutMs() + " " + open.topicPartitions() + " " + open.transactionStartTimeMs().isPresent();
            });
            telling.ask("listOffsets committed, with an open transaction", () -> admin.listOffsets(Map.of(PLAIN, OffsetSpec.latest()), new ListOffsetsOptions(org.apache.kafka.common.IsolationLevel.READ_COMMITTED)));
            telling.ask("producer.sendOffsetsToTransaction for a member that is not there", () -> run(() -> producer.sendOffsetsToTransaction(
                Map.of(PLAIN, new OffsetAndMetadata(1)), new ConsumerGroupMetadata("producer-group", 5, "nobody", Optional.empty()))));
            telling.ask("producer.abortTransaction after that", () -> run(producer::abortTransaction));
            telling.ask("producer.sendOffsetsToTransaction", () -> run(() -> {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(PLAIN, new OffsetAndMetadata(1, "said")), new ConsumerGroupMetadata("producer-group"));
                producer.commitTransaction();
            }));
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("producer-plain", 0, 8L, "k", "left open")).get();
            telling.ask("rival.initTransactions", () -> run(rival::initTransactions));
            telling.ask("producer.send when fenced", () -> producer.send(new ProducerRecord<>("producer-plain", 0, 9L, "k", "fenced")));
            telling.ask("producer.commitTransaction when fenced", () -> kind(producer::commitTransaction));
        }
        try (KafkaProducer<String, String> producer = asking.producer(Map.of("transactional.id", "tx-long", "transaction.timeout.ms", 2_000_000_000))) {
            telling.ask("producer.initTransactions for too long", () -> run(producer::initTransactions));
        }
    }

    private void administering() throws Exception {
        asking.settle();
        telling.ask("listConsumerGroupOffsets of a transaction", () -> admin.listConsumerGroupOffsets("producer-group").all());
        telling.ask("listTransactions", () -> transactions(new ListTransactionsOptions()));
        telling.ask("listTransactions that are empty", () -> transactions(new ListTransactionsOptions().filterStates(List.of(TransactionState.EMPTY))));
        telling.ask("listTransactions that match", () -> transactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("tx-.*")));
        telling.ask("listTransactions that match nothing sensible", () -> transactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("(")));
        telling.ask("listTransactions that are long", () -> transactions(new ListTransactionsOptions().filterOnDuration(1)));
        telling.ask("listTransactions of a producer", () -> transactions(new ListTransactionsOptions().filterProducerIds(List.of(999_999L))));
        telling.ask("describeTransactions of none", () -> admin.describeTransactions(List.of("tx-none")));
        telling.ask("describeProducers of none", () -> admin.describeProducers(List.of(new TopicPartition("producer-none", 0)), new DescribeProducersOptions().timeoutMs(Asking.IN_VAIN_MS)));
        telling.ask("describeProducers elsewhere", () -> admin.describeProducers(List.of(PLAIN), new DescribeProducersOptions().brokerId(9)));
        telling.ask("fenceProducers", () -> admin.fenceProducers(List.of("tx-1")).all());
        telling.ask("fenceProducers of none", () -> admin.fenceProducers(List.of("tx-new")).all());
        telling.ask("abortTransaction that is not there", () -> admin.abortTransaction(new AbortTransactionSpec(PLAIN, 999_999L, (short) 0, 0)));
        try (KafkaProducer<String, String> producer = transactional("tx-ended")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("producer-plain", 1, 8L, "k", "v")).get();
            telling.ask("forceTerminateTransaction", () -> admin.forceTerminateTransaction("tx-ended"));
            telling.ask("producer.commitTransaction after forceTerminateTransaction", () -> kind(producer::commitTransaction));
        }
        telling.ask("forceTerminateTransaction of none", () -> admin.forceTerminateTransaction("tx-nobody"));
        try (KafkaProducer<String, String> earlier = transactional("tx-hanging"); KafkaProducer<String, String> producer = transactional("tx-hanging")) {
            earlier.initTransactions();
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("producer-plain", 1, 8L, "k", "v")).get();
            TopicPartition second = new TopicPartition("producer-plain", 1);
            ProducerState state = admin.describeProducers(List.of(second)).all().get().get(second).activeProducers().stream()
                .filter(one -> one.currentTransactionStartOffset().isPresent()).findFirst().orElseThrow();
            short epoch = (short) state.producerEpoch();
            telling.ask("abortTransaction of an older epoch", () -> admin.abortTransaction(new AbortTransactionSpec(second, state.producerId(), (short) (epoch - 1), 0)));
            telling.ask("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(second, state.producerId(), epoch, state.coordinatorEpoch().orElse(0))));
            telling.ask("producer.commitTransaction after abortTransaction", () -> kind(producer::commitTransaction));
        }
    }

    private Object transactions(ListTransactionsOptions options) throws Exception {
        return admin.listTransactions(options).all().get().stream().map(one -> one.transactionalId() + " " + one.state()).toList();
    }

    private KafkaProducer<String, String> transactional(String name) {
        return asking.producer(Map.of("transactional.id", name, "transaction.timeout.ms", 30_000));
    }

    /** What kind of failure it is; its text says which of the client's threads was first. */
    private static String kind(Runnable action) {
        try {
            return run(action);
        } catch (KafkaException failure) {
            return failure.getClass().getSimpleName();
        }
    }

    private static String run(Runnable action) {
        action.run();
        return "done";
    }
}
