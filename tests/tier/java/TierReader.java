import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads the segments of a tier, knowing nothing but the format (src/tier/FORMAT.md), and holds each record against what
 * Kafka's consumer reads of the same topic.
 *
 *   TierReader URL BOOTSTRAP TOPIC        file:///base, or hdfs://namenode/base with Hadoop's client among the jars
 */
public final class TierReader {
    static final int HEADER_BYTES = 25;
    static final int OFFSET_INDEX = 0, TIME_INDEX = 1, LEADER_EPOCHS = 2, PRODUCER_SNAPSHOT = 3, SEGMENT = 5;
    static final Pattern FOLDER = Pattern.compile("(.+)-(\\d+)-([A-Za-z0-9_-]{22})");

    /** Where the files are. */
    interface Store {
        /** Names in a folder below the base; folders end with a slash. */
        List<String> list(String folder) throws IOException;

        byte[] read(String path) throws IOException;
    }

    /** One record, as far as it is compared. */
    record Seen(long timestamp, byte[] key, byte[] value, String headers) {
        boolean is(Seen other) {
            return timestamp == other.timestamp && Arrays.equals(key, other.key) && Arrays.equals(value, other.value)
                && headers.equals(other.headers);
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 3) throw new IllegalArgumentException("TierReader URL BOOTSTRAP TOPIC");
        Store store = open(args[0]);
        Map<Integer, TreeMap<Long, Seen>> tier = new TreeMap<>();
        int files = 0;
        for (String folder : store.list("")) {
            Matcher name = FOLDER.matcher(folder.endsWith("/") ? folder.substring(0, folder.length() - 1) : folder);
            if (!folder.endsWith("/") || !name.matches() || !name.group(1).equals(args[2])) continue;
            Uuid.fromString(name.group(3));
            for (String file : store.list(folder)) {
                Uuid.fromString(file);
                readSegment(folder + file, store.read(folder + file),
                    tier.computeIfAbsent(Integer.parseInt(name.group(2)), partition -> new TreeMap<>()));
                files++;
            }
        }
        if (files == 0) throw new AssertionError("no segment of " + args[2] + " is in " + args[0]);
        long records = compare(args[1], args[2], tier);
        System.out.println("tier-reader: " + records + " records in " + files + " files of " + tier.size() + " partitions agree");
    }

    static Store open(String url) throws Exception {
        if (url.startsWith("file://")) {
            Path base = Path.of(URI.create(url));
            return new Store() {
                @Override public List<String> list(String folder) throws IOException {
                    try (var entries = Files.list(base.resolve(folder))) {
                        return entries.map(entry -> entry.getFileName() + (Files.isDirectory(entry) ? "/" : "")).sorted().toList();
                    }
                }

                @Override public byte[] read(String path) throws IOException {
                    return Files.readAllBytes(base.resolve(path));
                }
            };
        }
        return (Store) Class.forName("HadoopStore").getDeclaredConstructor(String.class).newInstance(url);
    }

    static void readSegment(String path, byte[] bytes, TreeMap<Long, Seen> into) {
        ByteBuffer file = ByteBuffer.wrap(bytes);
        check(bytes.length >= HEADER_BYTES && file.get() == 0, path, "its version byte is not 0");
        int[] at = new int[7];
        for (int section = 0; section < 6; section++) at[section] = file.getInt();
        at[6] = bytes.length;
        check(at[0] == HEADER_BYTES, path, "the first section is not at 25");
        for (int section = 0; section < 6; section++) check(at[section] <= at[section + 1], path, "positions run backwards");
        TreeMap<Integer, MutableRecordBatch> batches = new TreeMap<>();
        ByteBuffer log = ByteBuffer.wrap(bytes, at[SEGMENT], bytes.length - at[SEGMENT]).slice();
        int position = 0;
        long end = -1, maxTimestamp = -1;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(log).batches()) {
            batch.ensureValid();
            check(batch.baseOffset() > end, path, "offsets go back at " + batch.baseOffset());
            end = batch.lastOffset();
            maxTimestamp = Math.max(maxTimestamp, batch.maxTimestamp());
            batches.put(position, batch);
            position += batch.sizeInBytes();
            if (batch.isControlBatch()) continue;
            for (Record record : batch) {
                Seen before = into.put(record.offset(), seen(record));
                check(before == null, path, "offset " + record.offset() + " is in two segments");
            }
        }
        check(position == log.capacity() && position > 0, path, "the records end at " + position + " of " + log.capacity());
        long base = batches.firstEntry().getValue().baseOffset();
        ByteBuffer offsets = section(bytes, at, OFFSET_INDEX);
        while (offsets.hasRemaining()) {
            long offset = base + Integer.toUnsignedLong(offsets.getInt());
            MutableRecordBatch batch = batches.get(offsets.getInt());
            check(batch != null && batch.baseOffset() <= offset && offset <= batch.lastOffset(), path, "its offset index is wrong at " + offset);
        }
        ByteBuffer times = section(bytes, at, TIME_INDEX);
        long last = -1;
        while (times.hasRemaining()) {
            check(times.getLong() > last, path, "times do not rise");
            last = times.getLong(times.position() - 8);
            times.getInt();
        }
        check(last == maxTimestamp, path, "its time index ends with " + last + ", the largest time is " + maxTimestamp);
        String[] epochs = new String(bytes, at[LEADER_EPOCHS], at[LEADER_EPOCHS + 1] - at[LEADER_EPOCHS], StandardCharsets.UTF_8).split("\n");
        check(epochs[0].equals("0") && Integer.parseInt(epochs[1]) == epochs.length - 2, path, "its leader epochs make no sense");
        ByteBuffer producers = section(bytes, at, PRODUCER_SNAPSHOT);
        check(!producers.hasRemaining() || producers.getShort() == 1, path, "its producer snapshot is of another version");
    }

    static ByteBuffer section(byte[] bytes, int[] at, int section) {
        return ByteBuffer.wrap(bytes, at[section], at[section + 1] - at[section]).slice();
    }

    static Seen seen(Record record) {
        StringBuilder headers = new StringBuilder();
        for (var header : record.headers()) headers.append(header.key()).append('=').append(Arrays.toString(header.value())).append(';');
        return new Seen(record.timestamp(), array(record.key()), array(record.value()), headers.toString());
    }

    static byte[] array(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    /** Reads the topic up to where the tier ends; every record of the tier must come, and be the same. */
    static long compare(String bootstrap, String topic, Map<Integer, TreeMap<Long, Seen>> tier) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", "read_uncommitted");
        Map<TopicPartition, TreeMap<Long, Seen>> left = new HashMap<>();
        tier.forEach((partition, records) -> left.put(new TopicPartition(topic, partition), records));
        long agreed = 0;
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var partitions = new ArrayList<>(left.keySet());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (left.values().stream().anyMatch(records -> !records.isEmpty())) {
                check(System.nanoTime() < deadline, topic, "the consumer did not bring all: " + left.values().stream().mapToInt(Map::size).sum() + " are left");
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    Seen expected = left.get(new TopicPartition(topic, record.partition())).remove(record.offset());
                    if (expected == null) continue;
                    StringBuilder headers = new StringBuilder();
                    record.headers().forEach(header -> headers.append(header.key()).append('=').append(Arrays.toString(header.value())).append(';'));
                    check(new Seen(record.timestamp(), record.key(), record.value(), headers.toString()).is(expected), topic,
                        "partition " + record.partition() + ", offset " + record.offset() + " is another record in the tier");
                    agreed++;
                }
            }
        }
        return agreed;
    }

    static void check(boolean holds, String where, String what) {
        if (!holds) throw new AssertionError(where + ": " + what);
    }
}
