import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group: BOOTSTRAP GROUP TOPIC PROTOCOL, where a protocol is eager, cooperative or consumer. */
public class Worker {
    private static volatile boolean stop = false;

    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("group.id", given[1]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "50");
        String assignor = "org.apache.kafka.clients.consumer.";
        switch (given[3]) {
            case "consumer" -> settings.put("group.protocol", "consumer");
            case "cooperative" -> settings.put("partition.assignment.strategy", assignor + "CooperativeStickyAssignor");
            default -> settings.put("partition.assignment.strategy", assignor + "RangeAssignor");
        }
        if (!given[3].equals("consumer")) {
            settings.put("session.timeout.ms", "3000");
            settings.put("heartbeat.interval.ms", "500");
        }
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop = true;
            try {
                main.join(10_000);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(given[2]));
            say("ready");
            while (!stop) {
                var read = consumer.poll(Duration.ofMillis(100));
                read.forEach(record -> say("read " + record.partition() + " " + record.offset()));
                if (!read.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (CommitFailedException refused) {
                        say("refused " + refused.getClass().getSimpleName());
                    } catch (KafkaException refused) {
                        say("refused " + refused);
                    }
                }
            }
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
