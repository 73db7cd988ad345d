import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions of one record each, by producers that follow each other with one transactional id.
 *
 * <p>Usage: Transacts ADDRESS TOPIC ID PRODUCERS TRANSACTIONS. Every third transaction is aborted.
 * Prints the value of each record that was committed.
 */
public class Transacts {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[2]);
        for (int life = 0; life < Integer.parseInt(arguments[3]); life++) {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                    settings, new StringSerializer(), new StringSerializer())) {
                producer.initTransactions();
                for (int number = 0; number < Integer.parseInt(arguments[4]); number++) {
                    String value = life + "-" + number;
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(arguments[1], 0, null, value))
                        .get(30, TimeUnit.SECONDS);
                    if (number % 3 == 2) {
                        producer.abortTransaction();
                        continue;
                    }
                    producer.commitTransaction();
                    System.out.println(value);
                }
            }
        }
    }
}
