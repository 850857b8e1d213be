import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.Arrays;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Every method of Admin, and the consumer's and producer's rarer calls, asked of one broker. */
public final class Asking {
    private static final int LONG_ENOUGH_MS = 30_000;
    /** For questions that are never answered. */
    static final int IN_VAIN_MS = 1000;
    /** Kafka's broker learns a little later what its controller decided, and nothing tells when it has. */
    private static final int SETTLED_MS = 400;
    private final String bootstrap;

    private Asking(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        Asking asking = new Asking(arguments[0]);
        Telling telling = new Telling(arguments[0]);
        Set<String> unasked = new TreeSet<>();
        Arrays.stream(Admin.class.getMethods()).filter(method -> !java.lang.reflect.Modifier.isStatic(method.getModifiers()))
            .forEach(method -> unasked.add(method.getName()));
        try (Admin real = Admin.create(asking.settings(Map.of()))) {
            Admin admin = (Admin) Proxy.newProxyInstance(Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, (proxy, method, given) -> {
                unasked.remove(method.getName());
                try {
                    return method.invoke(real, given);
                } catch (InvocationTargetException failure) {
                    throw failure.getCause();
                }
            });
            new TopicQuestions(admin, asking, telling).ask();
            new ClusterQuestions(admin, asking, telling).ask();
            new ProducerQuestions(admin, asking, telling).ask();
            new ConsumerQuestions(admin, asking, telling).ask();
            new GroupQuestions(admin, asking, telling).ask();
            admin.close();
        }
        telling.ask("methods of Admin that nobody asked", () -> unasked);
    }

    Map<String, Object> settings(Map<String, ?> more) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "default.api.timeout.ms", LONG_ENOUGH_MS, "request.timeout.ms", LONG_ENOUGH_MS,
            "enable.metrics.push", false));
        settings.putAll(more);
        return settings;
    }

    KafkaConsumer<String, String> consumer(Map<String, ?> more) {
        Map<String, Object> settings = settings(Map.of("enable.auto.commit", false, "allow.auto.create.topics", false));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    KafkaProducer<String, String> producer(Map<String, ?> more) {
        Map<String, Object> settings = settings(Map.of("max.block.ms", LONG_ENOUGH_MS, "delivery.timeout.ms", 2 * LONG_ENOUGH_MS));
        settings.putAll(more);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    void settle() throws InterruptedException {
        Thread.sleep(SETTLED_MS);
    }

    /** Poll until the consumer has partitions, or give up and let the next question show it. */
    static void untilAssigned(KafkaConsumer<?, ?> consumer) {
        for (int turn = 0; turn < 100 && consumer.assignment().isEmpty(); turn++) {
            consumer.poll(Duration.ofMillis(100));
        }
    }
}
