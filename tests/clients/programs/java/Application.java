import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/** A running Streams application: it keeps what comes out of its source, and puts into its sink what it is told to. */
final class Application {
    enum Order { NONE, COMMIT, ABORT }

    /** Thrown by the application itself: an unfinished transaction is aborted, and another thread goes on. */
    static final class ToldToFail extends RuntimeException { }

    /** Where a record is to go, with the record. */
    static final class Parcel {
        final String topic;
        final int partition;
        final Record<byte[], byte[]> record;

        Parcel(String topic, int partition, Record<byte[], byte[]> record) {
            this.topic = topic;
            this.partition = partition;
            this.record = record;
        }
    }

    /** To start takes long where much else is running. Twice this is still less than the scenarios wait for an answer. */
    static final Duration PATIENCE = Duration.ofSeconds(27);
    final String id;
    private final KafkaStreams streams;
    private final Path folder;
    private final BlockingQueue<Map<String, Object>> taken = new LinkedBlockingQueue<>();
    private final Queue<Parcel> waiting = new ConcurrentLinkedQueue<>();
    /** The first offset of each partition that was not taken yet, whichever thread came across it. */
    private final Map<Integer, Long> next = new ConcurrentHashMap<>();
    /** What the thread that runs now has gone through. */
    private final Map<Integer, Long> position = new ConcurrentHashMap<>();
    private volatile Order order = Order.NONE;
    private volatile Throwable failure;
    private Parcel leaving;

    Application(Properties settings, String id, String source) throws IOException {
        this.id = id;
        folder = Files.createTempDirectory("streams");
        settings.put("application.id", id);
        settings.put("state.dir", folder.toString());
        settings.put("poll.ms", "20");
        settings.put("commit.interval.ms", "60000");
        settings.put("producer.linger.ms", "5");
        settings.put("producer.max.request.size", "2000000");
        settings.put("producer.delivery.timeout.ms", "20000");
        settings.put("producer.request.timeout.ms", "10000");
        settings.put("producer.max.block.ms", "20000");
        settings.put("producer.transaction.timeout.ms", "120000");
        settings.putIfAbsent("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.fetch.max.wait.ms", "100");
        settings.put("consumer.session.timeout.ms", "10000");
        settings.put("consumer.heartbeat.interval.ms", "500");
        // The only way to leave a group that old versions have, and that their own tests use.
        settings.put("consumer.internal.leave.group.on.close", true);
        TopicNameExtractor<byte[], byte[]> topic = (key, value, context) -> leaving.topic;
        Topology topology = new Topology();
        topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), source);
        topology.addProcessor("work", Work::new, "source");
        topology.addSink("sink", topic, new ByteArraySerializer(), new ByteArraySerializer(),
            (name, key, value, count) -> Optional.of(Set.of(leaving.partition)), "work");
        streams = new KafkaStreams(topology, settings);
        streams.setUncaughtExceptionHandler(this::failed);
        streams.start();
    }

    private StreamThreadExceptionResponse failed(Throwable cause) {
        for (Throwable each = cause; each != null; each = each.getCause())
            if (each instanceof ToldToFail) return StreamThreadExceptionResponse.REPLACE_THREAD;
        failure = cause;
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    }

    private final class Work implements Processor<byte[], byte[], byte[], byte[]> {
        private ProcessorContext<byte[], byte[]> context;

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            this.context = context;
            context.schedule(Duration.ofMillis(10), PunctuationType.WALL_CLOCK_TIME, now -> tick());
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            RecordMetadata at = context.recordMetadata().get();
            if (at.offset() >= next.getOrDefault(at.partition(), 0L)) {
                next.put(at.partition(), at.offset() + 1);
                taken.add(told(record, at));
            }
            position.put(at.partition(), at.offset() + 1);
        }

        private void tick() {
            for (Parcel each = waiting.peek(); each != null; each = waiting.peek()) {
                leaving = each;
                context.forward(each.record);
                waiting.remove();
            }
            Order asked = order;
            order = Order.NONE;
            if (asked == Order.COMMIT) context.commit();
            if (asked == Order.ABORT) {
                position.clear();
                throw new ToldToFail();
            }
        }
    }

    static Map<String, Object> told(Record<byte[], byte[]> record, RecordMetadata at) {
        List<List<String>> headers = new ArrayList<>();
        for (Header each : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(each.key());
            pair.add(Driver.packed(each.value()));
            headers.add(pair);
        }
        Map<String, Object> told = new HashMap<>();
        told.put("key", Driver.packed(record.key()));
        told.put("value", Driver.packed(record.value()));
        told.put("headers", headers);
        told.put("timestamp", record.timestamp());
        told.put("partition", at.partition());
        told.put("offset", at.offset());
        return told;
    }

    /** Hand the records of a question to the sink, and wait until it has them. */
    void send(JsonNode q) throws Exception {
        for (JsonNode each : q.get("records")) {
            RecordHeaders headers = new RecordHeaders();
            for (JsonNode header : each.get("headers")) headers.add(header.get(0).asText(), Driver.bytes(header.get(1)));
            long time = each.get("timestamp").isNull() ? System.currentTimeMillis() : each.get("timestamp").asLong();
            Record<byte[], byte[]> record = new Record<>(Driver.bytes(each.get("key")), Driver.bytes(each.get("value")), time, headers);
            waiting.add(new Parcel(q.get("topic").asText(), q.get("partition").asInt(), record));
        }
        Streams.until("the topology has taken the records", this, waiting::isEmpty);
    }

    List<Map<String, Object>> take(int count) throws InterruptedException {
        List<Map<String, Object>> records = new ArrayList<>();
        long over = System.nanoTime() + PATIENCE.toNanos();
        while (records.size() < count && System.nanoTime() < over) {
            check();
            Map<String, Object> record = taken.poll(20, TimeUnit.MILLISECONDS);
            if (record != null) records.add(record);
        }
        return records;
    }

    List<Integer> assigned() {
        List<Integer> owned = new ArrayList<>();
        streams.metadataForLocalThreads().forEach(thread -> thread.activeTasks().forEach(
            task -> task.topicPartitions().forEach(place -> owned.add(place.partition()))));
        return owned;
    }

    void waitForPosition(Map<TopicPartition, OffsetAndMetadata> offsets) throws Exception {
        Streams.until("the thread has read that far", this, () -> offsets.entrySet().stream().allMatch(
            each -> position.getOrDefault(each.getKey().partition(), 0L) >= each.getValue().offset()));
    }

    void order(Order asked) { order = asked; }

    void check() {
        if (failure != null) throw new KafkaException(failure.toString(), failure);
    }

    void close() throws IOException {
        boolean done = streams.close(
            CloseOptions.timeout(PATIENCE).withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        if (done) forget();
        check();
        if (!done) throw new KafkaException("the application did not close");
    }

    /** What is kept in the folder belongs to a member that left, and nobody takes it over. */
    private void forget() throws IOException {
        try (Stream<Path> kept = Files.walk(folder)) {
            for (Path each : kept.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) Files.delete(each);
        }
    }
}
