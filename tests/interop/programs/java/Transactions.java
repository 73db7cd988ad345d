import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The life of a transactional producer that `transactional_clients.py` tells, by the Java client.
 *
 * <p>Usage: Transactions ADDRESS TOPIC SOURCE GROUP ID TIMEOUT_MS OVER_MS. Prints what the first of
 * two instances gets when it ends its transaction, and what one gets that has taken too long. Here
 * a batch that comes too late is aborted by its own producer, which then goes on; if it may not, as
 * in clients before 4, another one does.
 */
public class Transactions {
    static String address;
    static String topic;

    static KafkaProducer<String, String> start(String id, int timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", String.valueOf(timeoutMs));
        KafkaProducer<String, String> made = new KafkaProducer<>(
            settings, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    static void send(KafkaProducer<String, String> producer, String... values) throws Exception {
        producer.beginTransaction();
        for (String value : values)
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get(30, TimeUnit.SECONDS);
    }

    static String ended(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
        } catch (KafkaException error) {
            return error.getClass().getSimpleName();
        }
        return "committed";
    }

    static String aborted(KafkaProducer<String, String> producer) {
        try {
            producer.abortTransaction();
        } catch (KafkaException error) {
            return error.getClass().getSimpleName();
        }
        return "aborted";
    }

    static String sent(KafkaProducer<String, String> producer, String value) throws Exception {
        try {
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get(30, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
        return "sent";
    }

    static void live(String source, String group, String id, int timeoutMs, long overMs)
            throws Exception {
        TopicPartition read = new TopicPartition(source, 0);
        ConsumerGroupMetadata reader = new ConsumerGroupMetadata(group);
        KafkaProducer<String, String> first = start(id, 60_000);
        send(first, "c1", "c2");
        first.sendOffsetsToTransaction(Map.of(read, new OffsetAndMetadata(2)), reader);
        first.commitTransaction();
        send(first, "a1");
        first.sendOffsetsToTransaction(Map.of(read, new OffsetAndMetadata(9)), reader);
        first.abortTransaction();
        send(first, "c3");
        first.commitTransaction();
        KafkaProducer<String, String> second = start(id, 60_000);
        send(second, "c4");
        first.beginTransaction();
        System.out.println(sent(first, "f1") + " " + ended(first));
        second.commitTransaction();
        KafkaProducer<String, String> late = start(id + "-late", timeoutMs);
        send(late, "l1");
        Thread.sleep(overMs);
        String told = sent(late, "l2");
        String end = aborted(late);
        System.out.println(told + " " + end);
        if (!end.equals("aborted")) late = start(id + "-late", timeoutMs);
        send(late, "l3");
        Thread.sleep(overMs);
        System.out.println(ended(late));
        KafkaProducer<String, String> again = start(id + "-late", 60_000);
        send(again, "c5");
        again.commitTransaction();
    }

    public static void main(String[] arguments) {
        address = arguments[0];
        topic = arguments[1];
        try {
            live(arguments[2], arguments[3], arguments[4], Integer.parseInt(arguments[5]),
                Long.parseLong(arguments[6]));
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
