import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.TopicExistsException;

/**
 * Kafka Streams, asked by the scenarios of the client matrix. Whatever is read has come through a topology's source, and
 * whatever is written goes out through its sink; the admin client is only used to look whether it has happened.
 */
public final class Streams {
    /** The source of an application that only writes: nobody writes to it, but without a partition there is no task. */
    static final String SILENCE = "streams-silence";
    static final long MARGIN_MS = 5_000;
    static final Map<String, Application> MEMBERS = new HashMap<>();
    static final Map<String, Transaction> TRANSACTIONS = new HashMap<>();

    /** What a transaction is to hold. Streams begins and ends them itself, so it is done when its end is asked for. */
    static final class Transaction {
        final String id;
        Application application;
        List<JsonNode> sends = new ArrayList<>();
        JsonNode consumed;

        Transaction(String id) { this.id = id; }

        void begin() {
            sends = new ArrayList<>();
            consumed = null;
        }
    }

    public static void main(String[] args) throws Exception { Driver.serve(Streams::answer); }

    static Object answer(JsonNode q) throws Exception {
        switch (text(q, "verb")) {
            case "produce": return produce(q);
            case "read": return read(q);
            case "join": MEMBERS.put(text(q, "member"), exactlyOnce(q, text(q, "group"), text(q, "topic"))); return null;
            case "take": return MEMBERS.get(text(q, "member")).take(q.get("count").asInt());
            case "assigned": return MEMBERS.get(text(q, "member")).assigned();
            case "commit": return commit(q);
            case "leave": MEMBERS.remove(text(q, "member")).close(); return null;
            case "open_producer": return open(q);
            case "begin": TRANSACTIONS.get(text(q, "producer")).begin(); return null;
            case "send": TRANSACTIONS.get(text(q, "producer")).sends.add(q); return null;
            case "send_offsets": TRANSACTIONS.get(text(q, "producer")).consumed = q; return null;
            case "end": return end(q, TRANSACTIONS.get(text(q, "producer")));
            case "close_producer": return close(TRANSACTIONS.remove(text(q, "producer")));
            default: throw new Driver.NotOffered(text(q, "verb") + ": Streams leaves that to the admin client");
        }
    }

    static String text(JsonNode q, String name) { return q.get(name).asText(); }

    static Application exactlyOnce(JsonNode q, String id, String source) throws IOException {
        return new Application(Driver.settings(q, "processing.guarantee", "exactly_once_v2"), id, source);
    }

    /** Closing an application waits for what it wrote, and tells what became of it. */
    static Object produce(JsonNode q) throws Exception {
        listen(q);
        Application application = new Application(Driver.settings(q, "producer.acks", text(q, "acks"),
            "producer.compression.type", text(q, "codec"), "producer.enable.idempotence", text(q, "idempotent")), fresh(), SILENCE);
        try {
            application.send(q);
        } finally {
            application.close();
        }
        return List.of();
    }

    static Object read(JsonNode q) throws Exception {
        int count = q.get("count").asInt();
        if (!q.get("timestamp").isNull()) return since(q, q.get("timestamp").asLong(), count);
        if (q.get("offset").asLong() != 0) throw new Driver.NotOffered("an application is told where to start by its commits, an end or a time, not by an offset");
        Application application = q.get("committed").asBoolean()
            ? exactlyOnce(q, fresh(), text(q, "topic"))
            : new Application(Driver.settings(q), fresh(), text(q, "topic"));
        try {
            return application.take(count);
        } finally {
            application.close();
        }
    }

    /**
     * An application may start some time back from the moment at which it asks the broker (KIP-1106). That is a little
     * after it was told how far back, so it goes further by a margin, and leaves out what is too old.
     */
    static Object since(JsonNode q, long time, int count) throws Exception {
        for (int attempt = 0; attempt < 3; attempt++) {
            long began = System.currentTimeMillis();
            Application application = goingBack(q, Duration.ofMillis(began - time + MARGIN_MS));
            try {
                List<Map<String, Object>> records = application.take(1);
                if (System.currentTimeMillis() - began > MARGIN_MS) continue;
                for (Map<String, Object> first : records)
                    if (age(first, time) > MARGIN_MS) throw new KafkaException("it came to a record that is " + age(first, time) + " ms too old");
                while (true) {
                    records.removeIf(each -> age(each, time) > 0);
                    List<Map<String, Object>> more = application.take(Math.min(1, count - records.size()));
                    if (more.isEmpty()) return records;
                    records.addAll(more);
                }
            } finally {
                application.close();
            }
        }
        throw new KafkaException("no application came to its first record within " + MARGIN_MS + " ms");
    }

    static long age(Map<String, Object> record, long time) { return time - (long) record.get("timestamp"); }

    static Application goingBack(JsonNode q, Duration far) throws IOException {
        try {
            return new Application(Driver.settings(q, "consumer.auto.offset.reset", "by_duration:" + far), fresh(), text(q, "topic"));
        } catch (ConfigException old) {
            throw new Driver.NotOffered(old.getMessage());
        }
    }

    static String fresh() { return "streams-" + UUID.randomUUID(); }

    static void listen(JsonNode q) throws Exception {
        try (Admin admin = admin(q)) {
            admin.createTopics(List.of(new NewTopic(SILENCE, 1, (short) 1))).all().get();
        } catch (ExecutionException refused) {
            if (!(refused.getCause() instanceof TopicExistsException)) throw refused;
        }
    }

    static Object commit(JsonNode q) throws Exception {
        Application application = MEMBERS.get(text(q, "member"));
        application.order(Application.Order.COMMIT);
        Map<TopicPartition, OffsetAndMetadata> wanted = Driver.offsets(q);
        try (Admin admin = admin(q)) {
            until("the offsets are committed", application, () -> {
                Map<TopicPartition, OffsetAndMetadata> found =
                    admin.listConsumerGroupOffsets(application.id).partitionsToOffsetAndMetadata().get();
                return wanted.entrySet().stream().allMatch(each ->
                    found.containsKey(each.getKey()) && found.get(each.getKey()).offset() == each.getValue().offset());
            });
        }
        return null;
    }

    static Object open(JsonNode q) throws Exception {
        String id = text(q, "transactional_id");
        for (Transaction each : TRANSACTIONS.values())
            if (each.id.equals(id)) throw new Driver.NotOffered("Streams chooses transactional ids itself, and no two are alike");
        listen(q);
        TRANSACTIONS.put(text(q, "producer"), new Transaction(id));
        return null;
    }

    /** Sends what was collected, in the transaction of the member that consumed or of an application that only writes. */
    static Object end(JsonNode q, Transaction transaction) throws Exception {
        Application application = transaction.application;
        if (transaction.consumed != null) {
            application = MEMBERS.get(text(transaction.consumed, "member"));
            application.waitForPosition(Driver.offsets(transaction.consumed));
        } else if (application == null) {
            application = transaction.application = exactlyOnce(q, transaction.id, SILENCE);
        }
        Application sending = application;
        Map<TopicPartition, Long> sent = new HashMap<>();
        try (Admin admin = admin(q)) {
            for (JsonNode each : transaction.sends) {
                TopicPartition place = new TopicPartition(text(each, "topic"), each.get("partition").asInt());
                sent.put(place, end(admin, place, IsolationLevel.READ_UNCOMMITTED) + each.get("records").size());
                sending.send(each);
                until("the records are in the log", sending, () -> end(admin, place, IsolationLevel.READ_UNCOMMITTED) >= sent.get(place));
            }
            sending.order(q.get("commit").asBoolean() ? Application.Order.COMMIT : Application.Order.ABORT);
            for (TopicPartition place : sent.keySet())
                until("the transaction has ended", sending, () -> end(admin, place, IsolationLevel.READ_COMMITTED) > sent.get(place));
        }
        return null;
    }

    static Object close(Transaction transaction) throws IOException {
        if (transaction.application != null) transaction.application.close();
        return null;
    }

    static long end(Admin admin, TopicPartition place, IsolationLevel isolation) throws Exception {
        return admin.listOffsets(Map.of(place, OffsetSpec.latest()), new ListOffsetsOptions(isolation)).all().get().get(place).offset();
    }

    static Admin admin(JsonNode q) {
        return Admin.create(Driver.settings(q, "default.api.timeout.ms", "20000", "request.timeout.ms", "10000"));
    }

    static void until(String what, Application application, Callable<Boolean> isTrue) throws Exception {
        long over = System.nanoTime() + Application.PATIENCE.toNanos();
        while (!isTrue.call()) {
            application.check();
            if (System.nanoTime() > over) throw new KafkaException("it did not happen that " + what);
            Thread.sleep(10);
        }
    }
}
