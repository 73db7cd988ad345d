import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FenceProducersResult;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Fences producers as Kafka Connect's leader does, by Admin.fenceProducers: one that is idle, one
 * in mid-transaction, one that has just committed, one that never was, and twice.
 *
 * <p>Usage: Fencing ADDRESS TOPIC. Prints the epochs of the answers, and what the producers get.
 */
public class Fencing {
    static String address;
    static String topic;

    static KafkaProducer<String, String> start(String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("transactional.id", id);
        KafkaProducer<String, String> made = new KafkaProducer<>(
            settings, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    static void send(KafkaProducer<String, String> producer, String value) throws Exception {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, value)).get(30, TimeUnit.SECONDS);
    }

    static String written(KafkaProducer<String, String> producer, String value) throws Exception {
        try {
            send(producer, value);
            producer.commitTransaction();
        } catch (KafkaException error) {
            return error.getClass().getSimpleName();
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
        return "committed";
    }

    static String fenced(Admin admin, String... ids) throws Exception {
        FenceProducersResult found = admin.fenceProducers(List.of(ids));
        StringBuilder epochs = new StringBuilder("epochs");
        for (String id : ids) {
            try {
                epochs.append(' ').append(found.epochId(id).get(30, TimeUnit.SECONDS));
            } catch (ExecutionException error) {
                epochs.append(' ').append(error.getCause().getClass().getSimpleName());
            }
        }
        return epochs.toString();
    }

    static void live(Admin admin) throws Exception {
        KafkaProducer<String, String> idle = start("idle");
        KafkaProducer<String, String> open = start("open");
        KafkaProducer<String, String> done = start("done");
        send(open, "open");
        send(done, "done");
        done.commitTransaction();
        System.out.println(fenced(admin, "idle", "open", "done", "never"));
        System.out.println("idle " + written(idle, "idle too late"));
        try {
            open.commitTransaction();
        } catch (KafkaException error) {
            System.out.println("open " + error.getClass().getSimpleName());
        }
        System.out.println("done " + written(done, "done too late"));
        System.out.println(fenced(admin, "idle", "open", "done", "never"));
        System.out.println("next " + written(start("open"), "next"));
    }

    public static void main(String[] arguments) {
        address = arguments[0];
        topic = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        try (Admin admin = Admin.create(settings)) {
            live(admin);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
