import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Copies a topic to another one in capitals, exactly once, as the group "flink". */
public class FlinkCopy {
    private static final int TASKS = 2;
    private static final long CHECKPOINT_MS = 500;

    public static void main(String[] arguments) throws Exception {
        String broker = arguments[0];
        var source = KafkaSource.<String>builder()
                .setBootstrapServers(broker).setTopics(arguments[1]).setGroupId("flink")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.latest())
                .setValueOnlyDeserializer(new SimpleStringSchema()).build();
        var records = KafkaRecordSerializationSchema.<String>builder()
                .setTopic(arguments[2]).setValueSerializationSchema(new SimpleStringSchema()).build();
        var sink = KafkaSink.<String>builder()
                .setBootstrapServers(broker).setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("flink-").setProperty("transaction.timeout.ms", "60000")
                .setRecordSerializer(records).build();
        var job = StreamExecutionEnvironment.createLocalEnvironment(TASKS);
        job.enableCheckpointing(CHECKPOINT_MS);
        job.fromSource(source, WatermarkStrategy.noWatermarks(), "in")
                .map(value -> value.toUpperCase()).sinkTo(sink);
        job.execute("copy");
        System.out.println("done");
    }
}
