import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Debezium's engine over a slot that is there: counts change events, writes each to a file, and syncs the file once per
 * batch before the batch is acknowledged. Ends after so many events; prints seconds and latencies in milliseconds.
 *
 * Drain HOST PORT DATABASE SLOT PUBLICATION EVENTS DIRECTORY
 */
public final class Drain {
    static long seen = 0;
    static long began = 0;
    static long[] latencies = new long[1 << 20];

    public static void main(String[] a) throws Exception {
        long wanted = Long.parseLong(a[5]);
        Properties p = new Properties();
        p.setProperty("name", "bench");
        p.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
        p.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        p.setProperty("offset.storage.file.filename", a[6] + "/offsets.dat");
        p.setProperty("offset.flush.interval.ms", "1000");
        p.setProperty("database.hostname", a[0]);
        p.setProperty("database.port", a[1]);
        p.setProperty("database.user", "postgres");
        p.setProperty("database.dbname", a[2]);
        p.setProperty("slot.name", a[3]);
        p.setProperty("publication.name", a[4]);
        p.setProperty("publication.autocreate.mode", "disabled");
        p.setProperty("plugin.name", "pgoutput");
        p.setProperty("topic.prefix", "bench");
        p.setProperty("snapshot.mode", "no_data");
        p.setProperty("tombstones.on.delete", "false");
        p.setProperty("converter.schemas.enable", "false");
        p.setProperty("max.batch.size", "8192");
        p.setProperty("max.queue.size", "32768");
        p.setProperty("poll.interval.ms", "10");
        FileOutputStream out = new FileOutputStream(a[6] + "/events.json");
        ExecutorService executor = Executors.newSingleThreadExecutor();
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(p)
            .notifying((records, committer) -> {
                if (began == 0) began = System.nanoTime();
                StringBuilder text = new StringBuilder();
                for (ChangeEvent<String, String> record : records) {
                    if (record.value() != null) text.append(record.value()).append('\n');
                }
                try {
                    out.write(text.toString().getBytes(StandardCharsets.UTF_8));
                    out.getChannel().force(false);
                } catch (java.io.IOException error) {
                    throw new RuntimeException(error);
                }
                long now = System.currentTimeMillis();
                for (ChangeEvent<String, String> record : records) {
                    if (record.value() == null) continue;
                    int at = record.value().indexOf("\"ts_ms\":", record.value().indexOf("\"source\":"));
                    int end = at + 8;
                    while (Character.isDigit(record.value().charAt(end))) end++;
                    latencies[(int) (seen % latencies.length)] = now - Long.parseLong(record.value().substring(at + 8, end));
                    seen++;
                    committer.markProcessed(record);
                }
                committer.markBatchFinished();
                if (seen >= wanted) report();
            }).build();
        executor.execute(engine);
        System.out.println("ready");
    }

    static void report() {
        double seconds = (System.nanoTime() - began) / 1e9;
        // Those of the first half show how a virtual machine warms up.
        int count = (int) Math.min(seen, latencies.length);
        long[] sorted = Arrays.copyOfRange(latencies, count / 2, count);
        Arrays.sort(sorted);
        System.out.printf("{\"events\": %d, \"seconds\": %.3f, \"p50\": %d, \"p99\": %d}%n", seen, seconds,
            sorted[sorted.length / 2], sorted[(int) (sorted.length * 0.99)]);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
