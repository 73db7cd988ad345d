import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Creates a topic, writes, reads in a group and administers, over each way into a broker.
 *
 * <p>A line of standard input is a way: name, address, protocol, mechanism, user, secret, authority
 * and own certificate with its key (both PEM files), separated by tabs; "-" is none. The secret of
 * OAUTHBEARER is the file of a token. Prints "NAME read N" or "NAME failed: " and why, in one line.
 */
public class Secured {
    static final int COUNT = 20;
    static final Duration PATIENCE = Duration.ofSeconds(30);
    static final String MODULES = "org.apache.kafka.common.security.";

    record Way(
        String name, String address, String protocol, String mechanism, String user, String secret,
        String authority, String own
    ) {
        static Way of(String line) {
            String[] parts = line.split("\t");
            return new Way(
                parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7]);
        }

        Properties settings() {
            Properties found = new Properties();
            found.put("bootstrap.servers", address);
            found.put("security.protocol", protocol);
            found.put("ssl.truststore.type", "PEM");
            found.put("ssl.truststore.location", authority);
            if (!own.equals("-")) {
                found.put("ssl.keystore.type", "PEM");
                found.put("ssl.keystore.location", own);
            }
            if (!mechanism.equals("-")) {
                found.put("sasl.mechanism", mechanism);
                found.put("sasl.jaas.config", jaas());
            }
            if (mechanism.equals("OAUTHBEARER")) {
                String handler = MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler";
                found.put("sasl.login.callback.handler.class", handler);
                found.put("sasl.oauthbearer.token.endpoint.url", "file://" + secret);
            }
            found.put("default.api.timeout.ms", "30000");
            found.put("max.block.ms", "30000");
            return found;
        }

        String jaas() {
            String quoted = "\"" + secret.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
            String given = " required username=\"" + user + "\" password=" + quoted + ";";
            return switch (mechanism) {
                case "OAUTHBEARER" -> MODULES + "oauthbearer.OAuthBearerLoginModule required;";
                case "PLAIN" -> MODULES + "plain.PlainLoginModule" + given;
                default -> MODULES + "scram.ScramLoginModule" + given;
            };
        }
    }

    static int run(Way way) throws Exception {
        Properties settings = way.settings();
        String topic = "java-" + way.name();
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get(30, TimeUnit.SECONDS);
        }
        var text = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, text, text)) {
            for (int number = 0; number < COUNT; number++) {
                producer.send(new ProducerRecord<>(topic, "value " + number));
            }
        }
        settings.put("group.id", topic);
        settings.put("auto.offset.reset", "earliest");
        Set<String> found = new HashSet<>();
        var back = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, back, back)) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + PATIENCE.toNanos();
            while (found.size() < COUNT && System.nanoTime() < end) {
                consumer.poll(Duration.ofMillis(200)).forEach(one -> found.add(one.value()));
            }
            consumer.commitSync();
        }
        try (Admin admin = Admin.create(settings)) {
            var committed = admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
            for (Map.Entry<?, ?> one : committed.entrySet()) {
                if (one.getValue() == null) throw new IllegalStateException("no offset is committed");
            }
            admin.deleteTopics(List.of(topic)).all().get(30, TimeUnit.SECONDS);
        }
        return found.size();
    }

    static String why(Throwable error) {
        StringBuilder said = new StringBuilder();
        for (Throwable one = error; one != null; one = one.getCause()) {
            said.append(one).append(" / ");
        }
        return said.toString().replace('\n', ' ');
    }

    /** The logger, which is not configured, writes lines without an end. */
    static void print(String line) {
        System.out.print("\n" + line + "\n");
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Way way = Way.of(line);
            try {
                print(way.name() + " read " + run(way));
            } catch (Throwable error) {
                print(way.name() + " failed: " + why(error));
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
