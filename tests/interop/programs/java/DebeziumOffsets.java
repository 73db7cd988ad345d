import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * An engine that keeps its offsets in a topic, and sends the changes of Debezium's simple source to
 * another one: 100 changes. A second engine finds the offsets of the first one, and no change.
 */
public class DebeziumOffsets {
    private static final int CHANGES = 100;
    private static final long PATIENCE_MS = 60_000;
    private static final long NOTHING_MS = 3_000; // the second engine has started long before

    public static void main(String[] arguments) throws Exception {
        for (int run = 1; run <= 2; run++) {
            System.out.println("run " + run + " changes " + changes(arguments[0], arguments[1]));
        }
        System.exit(0);
    }

    private static int changes(String broker, String topic) throws Exception {
        Properties settings = new Properties();
        settings.put("name", "engine");
        settings.put("connector.class", "io.debezium.connector.simple.SimpleSourceConnector");
        settings.put("topic.name", "changes");
        settings.put("topic.prefix", "any");
        settings.put("batch.count", "5");
        settings.put("record.count.per.batch", String.valueOf(CHANGES / 5));
        settings.put("offset.storage", "org.apache.kafka.connect.storage.KafkaOffsetBackingStore");
        settings.put("offset.storage.topic", "engine-offsets");
        settings.put("offset.storage.partitions", "2");
        settings.put("offset.storage.replication.factor", "1");
        settings.put("offset.flush.interval.ms", "200");
        settings.put("bootstrap.servers", broker);
        Properties sending = new Properties();
        sending.put("bootstrap.servers", broker);
        String strings = "org.apache.kafka.common.serialization.StringSerializer";
        sending.put("key.serializer", strings);
        sending.put("value.serializer", strings);
        AtomicInteger count = new AtomicInteger();
        ExecutorService pool = Executors.newSingleThreadExecutor();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(sending)) {
            DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                    .using(settings)
                    .notifying(change -> {
                        producer.send(new ProducerRecord<>(topic, change.key(), change.value()));
                        count.incrementAndGet();
                    })
                    .build();
            Future<?> running = pool.submit(engine);
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (count.get() < CHANGES && !running.isDone() && System.currentTimeMillis() < end) {
                Thread.sleep(50);
                if (count.get() == 0 && System.currentTimeMillis() > end - PATIENCE_MS + NOTHING_MS) {
                    break;
                }
            }
            Thread.sleep(1_000); // offsets are flushed
            engine.close();
        }
        pool.shutdown();
        pool.awaitTermination(PATIENCE_MS, TimeUnit.MILLISECONDS);
        return count.get();
    }
}
