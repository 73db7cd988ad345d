import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Groups of the Java consumer, of any kafka-clients since 2.1.
 *
 * <p>Usage: Groups ADDRESS TOPIC MODE... The topic has four partitions. For every mode a member reads
 * what an idempotent producer has written in all codecs, a second one comes and shares, more is
 * written, and the second one leaves, or, being static, comes back to what it had. Prints a line for
 * every mode; ends with 1 when something is not so in time.
 */
public class Groups {
    static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";
    static String address;
    static String topic;
    static int written;

    static final class Member extends Thread {
        final KafkaConsumer<String, String> consumer;
        final Map<String, Integer> seen;
        volatile boolean leaves;
        volatile int owned;

        Member(String mode, int number, Map<String, Integer> seen) {
            this.seen = seen;
            consumer = new KafkaConsumer<>(
                settings(mode, number), new StringDeserializer(), new StringDeserializer());
            ConsumerRebalanceListener commits = new ConsumerRebalanceListener() {
                @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    if (!partitions.isEmpty()) consumer.commitSync();
                }

                @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) { }
            };
            if (mode.contains("regex")) consumer.subscribe(Pattern.compile(topic + ".*"), commits);
            else consumer.subscribe(List.of(topic), commits);
            setDaemon(true);
            start();
        }

        @Override public void run() {
            while (!leaves) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
                    seen.merge(record.partition() + ":" + record.offset(), 1, Integer::sum);
                owned = consumer.assignment().size();
            }
            consumer.commitSync();
            consumer.close();
        }

        void leave() throws InterruptedException {
            leaves = true;
            join(20_000);
        }
    }

    static Properties settings(String mode, int number) {
        Properties made = new Properties();
        made.put("bootstrap.servers", address);
        made.put("group.id", topic + "-" + mode);
        made.put("auto.offset.reset", "earliest");
        made.put("enable.auto.commit", "false");
        made.put("metadata.max.age.ms", "1000");
        if (mode.contains("static")) made.put("group.instance.id", "instance" + number);
        if (mode.startsWith("consumer")) {
            made.put("group.protocol", "consumer");
            return made;
        }
        made.put("session.timeout.ms", "10000");
        made.put("heartbeat.interval.ms", "300");
        String assignor = mode.startsWith("cooperative") ? "CooperativeSticky" : "Range";
        made.put("partition.assignment.strategy", ASSIGNORS + assignor + "Assignor");
        return made;
    }

    static void produce(String codec, int count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("enable.idempotence", "true");
        settings.put("compression.type", codec);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++)
                sent.add(producer.send(new ProducerRecord<>(topic, "key" + number, codec + number)));
            for (Future<RecordMetadata> one : sent) one.get(30, TimeUnit.SECONDS);
        }
        written += count;
    }

    static void await(String what, BooleanSupplier done) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > deadline) throw new AssertionError("not in time: " + what);
            Thread.sleep(20);
        }
    }

    static void run(String mode) throws Exception {
        Map<String, Integer> seen = new ConcurrentHashMap<>();
        Member first = new Member(mode, 1, seen);
        await(mode + ": all is read", () -> seen.size() == written);
        Member second = new Member(mode, 2, seen);
        await(mode + ": both share", () -> first.owned == 2 && second.owned == 2);
        produce("none", 100);
        await(mode + ": all is read by both", () -> seen.size() == written);
        second.leave();
        if (mode.contains("static")) {
            Member again = new Member(mode, 2, seen);
            await(mode + ": it has come back", () -> again.owned == 2);
            again.leave();
        } else {
            await(mode + ": the other has all", () -> first.owned == 4);
        }
        first.leave();
        long twice = seen.values().stream().filter(times -> times > 1).count();
        System.out.println(mode + " read " + seen.size() + " twice " + twice);
    }

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        topic = arguments[1];
        try {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) produce(codec, 100);
            for (String mode : List.of(arguments).subList(2, arguments.length)) run(mode);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
