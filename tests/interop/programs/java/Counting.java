import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source connector that counts: each of its `counters` is a source partition, whose offset is the
 * next number. Counter n writes "n 0", "n 1", ... to partition n of `topic`, without an end.
 */
public class Counting extends SourceConnector {
    private static final int AT_ONCE = 10;
    private static final long PAUSE_MS = 20;
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Counter.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int tasks) {
        List<Map<String, String>> found = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            Map<String, String> one = new LinkedHashMap<>(settings);
            one.put("first", String.valueOf(task));
            one.put("step", String.valueOf(tasks));
            found.add(one);
        }
        return found;
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "written to")
            .define("counters", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "how many");
    }

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    /** Counts those of the counters that are its own. */
    public static class Counter extends SourceTask {
        private final Map<Integer, Long> next = new LinkedHashMap<>();
        private String topic;

        private static Map<String, String> partition(int counter) {
            return Map.of("counter", String.valueOf(counter));
        }

        @Override
        public void start(Map<String, String> given) {
            topic = given.get("topic");
            int step = Integer.parseInt(given.get("step"));
            int end = Integer.parseInt(given.get("counters"));
            for (int counter = Integer.parseInt(given.get("first")); counter < end; counter += step) {
                Map<String, Object> found = context.offsetStorageReader().offset(partition(counter));
                next.put(counter, found == null ? 0L : (Long) found.get("next"));
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(PAUSE_MS);
            List<SourceRecord> found = new ArrayList<>();
            for (int counter : next.keySet()) {
                for (int number = 0; number < AT_ONCE; number++) {
                    long now = next.get(counter);
                    next.put(counter, now + 1);
                    found.add(new SourceRecord(
                        partition(counter), Map.of("next", now + 1), topic, counter,
                        Schema.STRING_SCHEMA, counter + " " + now));
                }
            }
            return found;
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }
}
