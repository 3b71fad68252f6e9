// Cases of the Java suite that write and read: codecs, acks, idempotence, sizes, seeking, long polls.
package clients;

import static clients.Session.PARTITIONS;
import static clients.Suite.check;
import static clients.Suite.equal;
import static clients.Suite.unique;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

final class ProduceCases {
    private static final long TIMESTAMP_MS = System.currentTimeMillis() - 3_600_000; // an hour ago: younger than any retention
    private static final byte[] EVERY_BYTE = new byte[256];

    static {
        for (int i = 0; i < 256; i++) {
            EVERY_BYTE[i] = (byte) i;
        }
    }

    private final Session session;

    ProduceCases(Session session) {
        this.session = session;
    }

    void addTo(Suite suite) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            suite.add("produce-" + codec + "-reads-back", () -> {
                String topic = topic();
                roundTrip(sample(topic), Map.of("compression.type", codec, "linger.ms", 20));
            });
        }
        for (String acks : List.of("0", "1", "all")) {
            suite.add("acks-" + acks, () -> roundTrip(sample(topic()), Map.of("acks", acks, "enable.idempotence", false)));
        }
        suite.add("idempotent-many-batches-in-flight", () -> roundTrip(small(topic(), 5000),
            Map.of("enable.idempotence", true, "linger.ms", 0, "batch.size", 500, "max.in.flight.requests.per.connection", 5)));
        suite.add("large-record-900-kb", this::large);
        suite.add("many-small-records", () -> roundTrip(small(topic(), 50000), Map.of("linger.ms", 5)));
        suite.add("offsets-beginning-end-and-seek", this::seek);
        suite.add("long-poll-wakes-on-produce", this::longPoll);
        suite.add("read-committed-without-transactions", () -> {
            String topic = topic();
            List<ProducerRecord<byte[], byte[]>> records = small(topic, 100);
            session.produce(records, Map.of());
            Session.compare(session.read(topic, 100, Map.of("isolation.level", "read_committed")), records);
        });
    }

    private String topic() throws Exception {
        return session.create(unique("java"), PARTITIONS, Map.of());
    }

    private void roundTrip(List<ProducerRecord<byte[], byte[]>> records, Map<String, ?> options) throws Exception {
        session.produce(records, options);
        Session.compare(session.read(records.get(0).topic(), records.size(), Map.of()), records);
    }

    /** Records of every shape: null and empty keys and values, repeated headers, all bytes. */
    private static List<ProducerRecord<byte[], byte[]>> sample(String topic) {
        byte[] random = new byte[3000];
        new Random(7).nextBytes(random);
        byte[][] keys = {null, {}, bytes("key"), EVERY_BYTE};
        byte[][] values = {bytes("value"), null, {}, random, bytes("a".repeat(5000))};
        List<List<Header>> headers = List.of(List.of(),
            List.of(new RecordHeader("h", bytes("1")), new RecordHeader("h", bytes("2")), new RecordHeader("h", (byte[]) null)),
            List.of(new RecordHeader("", new byte[0]), new RecordHeader("ключ", EVERY_BYTE)));
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < 120; i++) {
            records.add(new ProducerRecord<>(topic, i % PARTITIONS, TIMESTAMP_MS + i * 7, keys[i % 4], values[i % 5], headers.get(i % 3)));
        }
        return records;
    }

    private static List<ProducerRecord<byte[], byte[]>> small(String topic, int count) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(new ProducerRecord<>(topic, i % PARTITIONS, TIMESTAMP_MS + i, null, bytes("" + i)));
        }
        return records;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void large() throws Exception {
        String topic = topic();
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int p = 0; p < PARTITIONS; p++) {
            byte[] value = new byte[900_000];
            new Random(p).nextBytes(value);
            records.add(new ProducerRecord<>(topic, p, TIMESTAMP_MS, null, value));
        }
        roundTrip(records, Map.of());
        // A fetch whose limits are below the first batch brings it whole all the same.
        Session.compare(session.read(topic, PARTITIONS, Map.of("fetch.max.bytes", 1000, "max.partition.fetch.bytes", 1000)), records);
    }

    private void seek() throws Exception {
        String topic = topic();
        session.produce(small(topic, 60), Map.of());
        List<TopicPartition> all = Session.partitionsOf(topic, PARTITIONS);
        try (KafkaConsumer<byte[], byte[]> consumer = session.consumer(Map.of())) {
            for (TopicPartition one : all) {
                equal(consumer.beginningOffsets(List.of(one)).get(one), 0L, "beginning of " + one);
                equal(consumer.endOffsets(List.of(one)).get(one), 10L, "end of " + one);
            }
            consumer.assign(List.of(all.get(1)));
            consumer.seek(all.get(1), 7);
            List<String> got = new ArrayList<>();
            for (long deadline = System.nanoTime() + Session.LIMIT.toNanos(); got.size() < 3 && System.nanoTime() < deadline; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    got.add(record.offset() + "=" + new String(record.value(), StandardCharsets.UTF_8));
                }
            }
            equal(got, List.of("7=43", "8=49", "9=55"), "records from offset 7");
            equal(consumer.position(all.get(1)), 10L, "position");
        }
    }

    private void longPoll() throws Exception {
        String topic = topic();
        List<TopicPartition> one = Session.partitionsOf(topic, 1);
        try (KafkaConsumer<byte[], byte[]> consumer = session.consumer(Map.of("fetch.max.wait.ms", 10000, "request.timeout.ms", 30000))) {
            consumer.assign(one);
            consumer.seekToBeginning(one);
            consumer.poll(Duration.ofMillis(500)); // the fetch now waits at the server
            CompletableFuture<Long> sent = CompletableFuture.supplyAsync(() -> {
                long at = System.nanoTime();
                try {
                    session.produce(List.of(new ProducerRecord<>(topic, 0, TIMESTAMP_MS, null, bytes("wake"))), Map.of());
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
                return at;
            }, CompletableFuture.delayedExecutor(500, TimeUnit.MILLISECONDS));
            ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofSeconds(15));
            long wokenMs = (System.nanoTime() - sent.get()) / 1_000_000;
            equal(found.count(), 1, "records");
            check(wokenMs < 3000, "the record came after " + wokenMs + " ms, the wait is 10 s");
        }
    }
}
