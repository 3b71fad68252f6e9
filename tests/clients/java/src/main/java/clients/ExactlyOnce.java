// Copies a topic exactly once while the server is killed: ExactlyOnce HOST:PORT RECORDS. Started by tests/clients/exactly-once.
package clients;

import static clients.Session.PARTITIONS;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

final class ExactlyOnce {
    private final Session session;
    private final String input = Suite.unique("eos-in");
    private final String output = Suite.unique("eos-out");
    private final String id = Suite.unique("eos");
    private final Random random = new Random(1);
    private int lives;
    private int aborts;

    private ExactlyOnce(Session session) {
        this.session = session;
    }

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        try (Session session = new Session(args[0])) {
            new ExactlyOnce(session).run(count);
        }
    }

    private void run(int count) throws Exception {
        session.create(input, PARTITIONS, Map.of());
        session.create(output, PARTITIONS, Map.of());
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            records.add(new ProducerRecord<>(input, n % PARTITIONS, null, Integer.toString(n).getBytes(StandardCharsets.UTF_8)));
        }
        session.produce(records, Map.of("delivery.timeout.ms", 120_000));
        System.out.println("begin");
        long copied = 0;
        for (long deadline = System.nanoTime() + Duration.ofMinutes(5).toNanos(); copied < count; lives++) {
            Suite.check(System.nanoTime() < deadline, "not all comes out in time: " + copied);
            try {
                copied = live(count);
            } catch (KafkaException error) {
                // The application dies with its transaction, and the next one takes its id over.
            }
        }
        System.out.println("copied");
        judge(count);
    }

    /** One life of the application: ends when all is copied, or with an error. */
    private long live(int count) {
        try (KafkaProducer<byte[], byte[]> producer = session.producer(Map.of("transactional.id", id, "linger.ms", 0));
            KafkaConsumer<byte[], byte[]> consumer = session.consumer(Map.of("group.id", id, "auto.offset.reset", "earliest",
                "isolation.level", "read_committed", "max.poll.records", 20, "session.timeout.ms", 6000))) {
            producer.initTransactions();
            consumer.subscribe(List.of(input));
            for (int round = 0; ; round++) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(300));
                if (polled.isEmpty()) {
                    Map<TopicPartition, OffsetAndMetadata> done =
                        consumer.committed(java.util.Set.copyOf(Session.partitionsOf(input, PARTITIONS)), Session.LIMIT);
                    long copied = done.values().stream().filter(one -> one != null).mapToLong(OffsetAndMetadata::offset).sum();
                    if (copied >= count || round > 100) {
                        return copied;
                    }
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                polled.forEach(one -> {
                    producer.send(new ProducerRecord<>(output, one.partition(), null, one.value()));
                    next.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
                });
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                if (random.nextInt(10) == 0) {
                    aborts++;
                    producer.abortTransaction();
                    throw new KafkaException("what was read is read again by the next life");
                }
                producer.commitTransaction();
            }
        }
    }

    private void judge(int count) {
        Map<String, Integer> seen = new TreeMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = session.consumer(Map.of("isolation.level", "read_committed"))) {
            List<TopicPartition> assigned = Session.partitionsOf(output, PARTITIONS);
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            for (int quiet = 0; quiet < 5; ) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(400));
                quiet = polled.isEmpty() ? quiet + 1 : 0;
                polled.forEach(one -> seen.merge(new String(one.value(), StandardCharsets.UTF_8), 1, Integer::sum));
            }
        }
        long twice = seen.values().stream().filter(times -> times > 1).count();
        System.out.println(count + " in, " + seen.size() + " out, " + twice + " more than once; " + lives + " lives, " + aborts + " aborts");
        System.exit(seen.size() == count && twice == 0 ? 0 : 1);
    }
}
