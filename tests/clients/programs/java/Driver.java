import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own Java clients, asked by the scenarios of the client matrix: a JSON question a line, a JSON answer each. */
public final class Driver {
    static final long READ_MS = 20_000;
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, KafkaConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();
    static final Map<String, List<Map<String, Object>>> EARLY = new HashMap<>();
    static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    static final class NotOffered extends RuntimeException {
        NotOffered(String what) { super(what); }
    }

    interface Answering { Object answer(JsonNode question) throws Exception; }

    public static void main(String[] args) throws Exception { serve(Driver::answer); }

    static void serve(Answering answering) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> told = new LinkedHashMap<>();
            try {
                told.put("ok", answering.answer(JSON.readTree(line)));
            } catch (NotOffered none) {
                told.put("error", none.getMessage());
                told.put("not_offered", true);
            } catch (Exception refused) {
                Throwable cause = refused instanceof ExecutionException ? refused.getCause() : refused;
                told.put("error", cause.toString());
                told.put("fenced", fenced(refused));
            }
            if (Boolean.FALSE.equals(told.get("fenced"))) told.remove("fenced");
            out.println(JSON.writeValueAsString(told));
        }
        System.exit(0);
    }

    static boolean fenced(Throwable cause) {
        for (; cause != null; cause = cause.getCause())
            if (cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException) return true;
        return false;
    }

    static Object answer(JsonNode q) throws Exception {
        switch (q.get("verb").asText()) {
            case "produce": return produce(q);
            case "read": return read(q);
            case "join": return join(q);
            case "take": return take(q);
            case "assigned": return assigned(q);
            case "commit": MEMBERS.get(text(q, "member")).commitSync(offsets(q)); return null;
            case "leave": MEMBERS.remove(text(q, "member")).close(); return null;
            case "open_producer": case "begin": case "send": case "send_offsets": case "end": case "close_producer": return transact(q);
            default: return administer(q);
        }
    }

    static String text(JsonNode q, String name) { return q.get(name).asText(); }

    static Properties settings(JsonNode q, String... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", text(q, "bootstrap"));
        if (q.has("door")) enter(settings, q.get("door"));
        for (int i = 0; i < pairs.length; i += 2) settings.put(pairs[i], pairs[i + 1]);
        return settings;
    }

    static void enter(Properties settings, JsonNode door) {
        settings.put("security.protocol", text(door, "protocol"));
        if (text(door, "protocol").endsWith("SSL")) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", text(door, "ca"));
        }
        String mechanism = text(door, "mechanism");
        if (mechanism.isEmpty()) return;
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        settings.put("sasl.mechanism", mechanism);
        settings.put("sasl.jaas.config", String.format("org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
            module, text(door, "user"), text(door, "password")));
    }

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static String packed(byte[] data) { return data == null ? null : Base64.getEncoder().encodeToString(data); }

    static List<Long> write(KafkaProducer<byte[], byte[]> producer, JsonNode q) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode r : q.get("records")) {
            Long stamp = r.get("timestamp").isNull() ? null : r.get("timestamp").asLong();
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                text(q, "topic"), q.get("partition").asInt(), stamp, bytes(r.get("key")), bytes(r.get("value")));
            for (JsonNode h : r.get("headers")) record.headers().add(h.get(0).asText(), bytes(h.get(1)));
            sent.add(producer.send(record));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) offsets.add(each.get(READ_MS, TimeUnit.MILLISECONDS).offset());
        return offsets;
    }

    static Object produce(JsonNode q) throws Exception {
        Properties settings = settings(q, "acks", text(q, "acks"), "compression.type", text(q, "codec"),
            "enable.idempotence", text(q, "idempotent"), "linger.ms", "20", "delivery.timeout.ms", "20000", "request.timeout.ms", "10000",
            "max.block.ms", "20000", "max.request.size", "2000000");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Long> offsets = write(producer, q);
            return text(q, "acks").equals("0") ? List.of() : offsets;
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(JsonNode q, String... pairs) {
        Properties settings = settings(q, pairs);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", "100");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Map<String, Object> told(ConsumerRecord<byte[], byte[]> r) {
        List<List<String>> headers = new ArrayList<>();
        for (Header h : r.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(h.key());
            pair.add(packed(h.value()));
            headers.add(pair);
        }
        Map<String, Object> record = new HashMap<>();
        record.put("key", packed(r.key()));
        record.put("value", packed(r.value()));
        record.put("headers", headers);
        record.put("timestamp", r.timestamp());
        record.put("partition", r.partition());
        record.put("offset", r.offset());
        return record;
    }

    static List<Map<String, Object>> poll(KafkaConsumer<byte[], byte[]> consumer, int count, long within) {
        List<Map<String, Object>> records = new ArrayList<>();
        long over = System.nanoTime() + within * 1_000_000;
        while (records.size() < count && System.nanoTime() < over)
            for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(Math.min(within, 200)))) records.add(told(r));
        return records;
    }

    static Object read(JsonNode q) {
        String isolation = q.get("committed").asBoolean() ? "read_committed" : "read_uncommitted";
        TopicPartition place = new TopicPartition(text(q, "topic"), q.get("partition").asInt());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(q, "isolation.level", isolation)) {
            consumer.assign(List.of(place));
            long start = q.get("timestamp").isNull()
                ? q.get("offset").asLong()
                : consumer.offsetsForTimes(Map.of(place, q.get("timestamp").asLong())).get(place).offset();
            consumer.seek(place, start);
            int count = q.get("count").asInt();
            List<Map<String, Object>> records = poll(consumer, count, READ_MS);
            return records.subList(0, Math.min(count, records.size()));
        }
    }

    static Object join(JsonNode q) {
        boolean classic = text(q, "protocol").equals("classic");
        KafkaConsumer<byte[], byte[]> consumer = classic
            ? consumer(q, "group.id", text(q, "group"), "session.timeout.ms", "10000", "heartbeat.interval.ms", "500")
            : consumer(q, "group.id", text(q, "group"), "group.protocol", "consumer");
        consumer.subscribe(List.of(text(q, "topic")));
        MEMBERS.put(text(q, "member"), consumer);
        EARLY.put(text(q, "member"), new ArrayList<>());
        return null;
    }

    static Object take(JsonNode q) {
        List<Map<String, Object>> records = EARLY.get(text(q, "member"));
        EARLY.put(text(q, "member"), new ArrayList<>());
        int count = q.get("count").asInt() - records.size();
        if (count > 0) records.addAll(poll(MEMBERS.get(text(q, "member")), count, READ_MS));
        return records;
    }

    static Object assigned(JsonNode q) {
        KafkaConsumer<byte[], byte[]> consumer = MEMBERS.get(text(q, "member"));
        EARLY.get(text(q, "member")).addAll(poll(consumer, Integer.MAX_VALUE, 200));
        List<Integer> owned = new ArrayList<>();
        for (TopicPartition place : consumer.assignment()) owned.add(place.partition());
        return owned;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode q) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        q.get("offsets").fields().forEachRemaining(each -> offsets.put(
            new TopicPartition(text(q, "topic"), Integer.parseInt(each.getKey())), new OffsetAndMetadata(each.getValue().asLong())));
        return offsets;
    }

    static Object transact(JsonNode q) throws Exception {
        String name = text(q, "producer");
        if (text(q, "verb").equals("open_producer")) {
            Properties settings = settings(q, "transactional.id", text(q, "transactional_id"), "transaction.timeout.ms", "30000",
                "delivery.timeout.ms", "20000", "request.timeout.ms", "10000", "max.block.ms", "20000");
            PRODUCERS.put(name, new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()));
            PRODUCERS.get(name).initTransactions();
            return null;
        }
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(name);
        switch (text(q, "verb")) {
            case "begin": producer.beginTransaction(); break;
            case "send": write(producer, q); break;
            case "send_offsets": producer.sendOffsetsToTransaction(offsets(q), MEMBERS.get(text(q, "member")).groupMetadata()); break;
            case "end":
                if (q.get("commit").asBoolean()) producer.commitTransaction();
                else producer.abortTransaction();
                break;
            default: PRODUCERS.remove(name).close(Duration.ofSeconds(1));
        }
        return null;
    }

    static Object administer(JsonNode q) throws Exception {
        String topic = q.has("topic") ? text(q, "topic") : null;
        try (Admin admin = Admin.create(settings(q, "default.api.timeout.ms", "20000", "request.timeout.ms", "10000"))) {
            switch (text(q, "verb")) {
                case "create_topic": {
                    NewTopic made = new NewTopic(topic, q.get("partitions").asInt(), (short) 1);
                    Map<String, String> config = new HashMap<>();
                    q.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
                    return admin.createTopics(List.of(made.configs(config))).all().get();
                }
                case "delete_topic": return admin.deleteTopics(List.of(topic)).all().get();
                case "list_topics": return admin.listTopics().names().get();
                case "partitions_of": return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
                case "grow_topic":
                    return admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(q.get("partitions").asInt()))).all().get();
                case "set_config": {
                    AlterConfigOp set = new AlterConfigOp(new ConfigEntry(text(q, "name"), text(q, "value")), AlterConfigOp.OpType.SET);
                    Map<ConfigResource, Collection<AlterConfigOp>> ops = Map.of(resource(topic), Set.of(set));
                    return admin.incrementalAlterConfigs(ops).all().get();
                }
                case "get_config":
                    return admin.describeConfigs(List.of(resource(topic))).all().get().get(resource(topic)).get(text(q, "name")).value();
                case "offset_of": {
                    TopicPartition place = new TopicPartition(topic, q.get("partition").asInt());
                    long at = q.get("at").asLong();
                    OffsetSpec spec = at == -2 ? OffsetSpec.earliest() : at == -1 ? OffsetSpec.latest() : OffsetSpec.forTimestamp(at);
                    return admin.listOffsets(Map.of(place, spec)).all().get().get(place).offset();
                }
                case "groups": {
                    List<String> names = new ArrayList<>();
                    admin.listGroups().all().get().forEach(group -> names.add(group.groupId()));
                    return names;
                }
                case "committed": {
                    Map<String, Long> found = new HashMap<>();
                    admin.listConsumerGroupOffsets(text(q, "group")).partitionsToOffsetAndMetadata().get().forEach((place, offset) -> {
                        if (place.topic().equals(topic)) found.put(String.valueOf(place.partition()), offset.offset());
                    });
                    return found;
                }
                case "delete_group": return admin.deleteConsumerGroups(List.of(text(q, "group"))).all().get();
                default: throw new KafkaException("no such verb");
            }
        }
    }

    static ConfigResource resource(String topic) { return new ConfigResource(ConfigResource.Type.TOPIC, topic); }
}
