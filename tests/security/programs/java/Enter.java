import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Gets in with Kafka's Java client: one JSON line says where and as whom, one JSON line says how it went. */
public final class Enter {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, String> told;
            try {
                told = Map.of("ok", read(JSON.readTree(line)));
            } catch (Exception refused) {
                Throwable cause = refused instanceof ExecutionException ? refused.getCause() : refused;
                told = Map.of("error", cause.toString());
            }
            System.out.println(JSON.writeValueAsString(told));
        }
        System.exit(0);
    }

    static String read(JsonNode way) throws Exception {
        Properties settings = settings(way);
        String topic = way.get("topic").asText();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.send(new ProducerRecord<>(topic, "hello")).get();
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            TopicPartition first = new TopicPartition(topic, 0);
            consumer.assign(Set.of(first));
            consumer.seekToBeginning(Set.of(first));
            return consumer.poll(Duration.ofSeconds(15)).iterator().next().value();
        }
    }

    static Properties settings(JsonNode way) {
        Properties made = new Properties();
        made.put("bootstrap.servers", way.get("bootstrap").asText());
        made.put("security.protocol", way.get("protocol").asText());
        made.put("key.serializer", StringSerializer.class);
        made.put("value.serializer", StringSerializer.class);
        made.put("key.deserializer", StringDeserializer.class);
        made.put("value.deserializer", StringDeserializer.class);
        made.put("max.block.ms", "15000");
        made.put("ssl.truststore.type", "PEM");
        made.put("ssl.truststore.location", way.get("ca").asText());
        if (!way.get("pem").asText().isEmpty()) {
            made.put("ssl.keystore.type", "PEM");
            made.put("ssl.keystore.location", way.get("pem").asText());
        }
        String mechanism = way.get("mechanism").asText();
        if (mechanism.isEmpty()) {
            return made;
        }
        made.put("sasl.mechanism", mechanism);
        String modules = "org.apache.kafka.common.security.";
        if (mechanism.equals("OAUTHBEARER")) {
            made.put("sasl.login.callback.handler.class", Tokens.class);
            made.put("sasl.jaas.config", modules + "oauthbearer.OAuthBearerLoginModule required token=\""
                + way.get("token").asText() + "\";");
        } else {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            made.put("sasl.jaas.config", modules + module + " required username=\"" + way.get("user").asText()
                + "\" password=\"" + way.get("password").asText() + "\";");
        }
        return made;
    }

    /** Shows whatever token it was told to. */
    public static final class Tokens implements AuthenticateCallbackHandler {
        String token;

        @Override
        public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
            token = String.valueOf(entries.get(0).getOptions().get("token"));
        }

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback) {
                    ((OAuthBearerTokenCallback) callback).token(new Shown(token));
                }
            }
        }

        @Override
        public void close() {
        }
    }

    record Shown(String value) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + 3_600_000;
        }

        @Override
        public String principalName() {
            return "alice";
        }

        @Override
        public Long startTimeMs() {
            return System.currentTimeMillis();
        }
    }
}
