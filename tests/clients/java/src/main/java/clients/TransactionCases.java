// Cases of the Java suite with transactions: commit and abort, fencing, time-outs, exactly once, and what an operator sees.
package clients;

import static clients.Session.PARTITIONS;
import static clients.Suite.check;
import static clients.Suite.equal;
import static clients.Suite.failsWith;
import static clients.Suite.unique;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

final class TransactionCases {
    private final Session session;

    TransactionCases(Session session) {
        this.session = session;
    }

    void addTo(Suite suite) {
        suite.add("transactions-commit-and-abort", this::commitAndAbort);
        suite.add("C126-one-record-and-one-marker", this::oneMarker);
        suite.add("C119-an-open-transaction-holds-readers-back", this::openHoldsBack);
        suite.add("C123-a-second-producer-fences-the-first", this::fencing);
        suite.add("C123-a-timeout-over-the-maximum-is-refused", this::timeoutOverMax);
        suite.add("C124-an-expired-transaction-is-aborted", this::expiry);
        suite.add("transactions-consume-transform-produce", this::exactlyOnce);
        suite.add("transactions-are-listed-described-and-aborted", this::operator);
    }

    private String topic() throws Exception {
        return session.create(unique("txn"), PARTITIONS, Map.of());
    }

    private KafkaProducer<byte[], byte[]> producer(String id, Map<String, ?> options) {
        Map<String, Object> all = new HashMap<>(Map.of("transactional.id", id, "linger.ms", 0));
        all.putAll(options);
        KafkaProducer<byte[], byte[]> producer = session.producer(all);
        producer.initTransactions();
        return producer;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, String value) {
        return new ProducerRecord<>(topic, partition, null, value.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(ConsumerRecord<byte[], byte[]> record) {
        return new String(record.value(), StandardCharsets.UTF_8);
    }

    /** All values up to the end that a reader of this isolation sees. */
    private Set<String> values(String topic, String isolation) {
        Set<String> found = new TreeSet<>();
        try (KafkaConsumer<byte[], byte[]> consumer = session.consumer(Map.of("isolation.level", isolation))) {
            List<TopicPartition> assigned = Session.partitionsOf(topic, PARTITIONS);
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            Map<TopicPartition, Long> ends = consumer.endOffsets(assigned);
            for (long deadline = System.nanoTime() + Session.LIMIT.toNanos(); ; ) {
                consumer.poll(Duration.ofMillis(200)).forEach(record ->
                    check(found.add(text(record)), "read twice: " + text(record)));
                if (assigned.stream().allMatch(partition -> consumer.position(partition) >= ends.get(partition))) {
                    return found;
                }
                check(System.nanoTime() < deadline, "the reader does not come to the end");
            }
        }
    }

    private void commitAndAbort() throws Exception {
        String topic = topic();
        Set<String> committed = new TreeSet<>();
        Set<String> all = new TreeSet<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(unique("id"), Map.of())) {
            for (int round = 0; round < 20; round++) {
                producer.beginTransaction();
                boolean commits = round % 3 != 1;
                for (int n = 0; n < 10; n++) {
                    String value = "round " + round + " record " + n;
                    producer.send(record(topic, n % PARTITIONS, value));
                    all.add(value);
                    if (commits) {
                        committed.add(value);
                    }
                }
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
            equal(values(topic, "read_committed"), committed, "read_committed");
            equal(values(topic, "read_uncommitted"), all, "read_uncommitted");
        }
    }

    private long end(String topic, int partition) throws Exception {
        TopicPartition at = new TopicPartition(topic, partition);
        return session.admin.listOffsets(Map.of(at, OffsetSpec.latest())).all().get().get(at).offset();
    }

    private void oneMarker() throws Exception {
        String topic = topic();
        try (KafkaProducer<byte[], byte[]> producer = producer(unique("id"), Map.of())) {
            for (int partition = 0; partition < 2; partition++) {
                producer.beginTransaction();
                producer.send(record(topic, partition, "one")).get();
                if (partition == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            // The marker follows the answer.
            for (int partition = 0; partition < 2; partition++) {
                for (long deadline = System.nanoTime() + Session.LIMIT.toNanos(); end(topic, partition) < 2; Thread.sleep(20)) {
                    check(System.nanoTime() < deadline, "no marker in partition " + partition);
                }
            }
            producer.beginTransaction();
            producer.send(record(topic, 0, "two")).get();
            producer.commitTransaction();
            equal(end(topic, 1), 2L, "end of the partition with one aborted record");
        }
    }

    private void openHoldsBack() throws Exception {
        String topic = topic();
        try (KafkaProducer<byte[], byte[]> first = producer(unique("id"), Map.of());
            KafkaProducer<byte[], byte[]> second = producer(unique("id"), Map.of())) {
            first.beginTransaction();
            first.send(record(topic, 0, "first")).get();
            second.beginTransaction();
            second.send(record(topic, 0, "second")).get();
            second.commitTransaction();
            equal(values(topic, "read_committed"), Set.of(), "while the first is open");
            equal(values(topic, "read_uncommitted"), new TreeSet<>(Set.of("first", "second")), "read_uncommitted");
            first.abortTransaction();
            for (long deadline = System.nanoTime() + Session.LIMIT.toNanos(); !values(topic, "read_committed").equals(Set.of("second")); ) {
                check(System.nanoTime() < deadline, "the committed record does not come");
            }
        }
    }

    private void fencing() throws Exception {
        String topic = topic();
        String id = unique("id");
        try (KafkaProducer<byte[], byte[]> old = producer(id, Map.of())) {
            old.beginTransaction();
            old.send(record(topic, 0, "lost")).get();
            try (KafkaProducer<byte[], byte[]> fresh = producer(id, Map.of())) {
                fresh.beginTransaction();
                fresh.send(record(topic, 0, "kept")).get();
                fresh.commitTransaction();
                failsWith(List.of(ProducerFencedException.class, InvalidProducerEpochException.class), () -> {
                    old.send(record(topic, 0, "too late")).get();
                    old.commitTransaction();
                });
                equal(values(topic, "read_committed"), Set.of("kept"), "read_committed");
            }
        }
    }

    private void timeoutOverMax() throws Exception {
        try {
            producer(unique("id"), Map.of("transaction.timeout.ms", 900_001)).close();
        } catch (KafkaException error) {
            // The client has no class of its own for it here.
            check(error.getMessage().contains("larger than the maximum value"), error.getMessage());
            return;
        }
        throw new AssertionError("a timeout over the maximum was taken");
    }

    private void expiry() throws Exception {
        String topic = topic();
        try (KafkaProducer<byte[], byte[]> producer = producer(unique("id"), Map.of("transaction.timeout.ms", 1000,
            "delivery.timeout.ms", 1000, "request.timeout.ms", 900))) {
            producer.beginTransaction();
            producer.send(record(topic, 0, "lost")).get();
            session.produce(List.of(record(topic, 0, "kept")), Map.of());
            long began = System.nanoTime();
            while (!values(topic, "read_committed").equals(Set.of("kept"))) {
                check(System.nanoTime() - began < Duration.ofSeconds(15).toNanos(), "the transaction is not aborted");
                Thread.sleep(100);
            }
        }
    }

    private void exactlyOnce() throws Exception {
        String input = topic();
        String output = topic();
        String group = unique("group");
        Set<String> want = new TreeSet<>();
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int n = 0; n < 60; n++) {
            records.add(record(input, n % PARTITIONS, "record " + n));
            want.add("record " + n);
        }
        session.produce(records, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = producer(unique("id"), Map.of());
            KafkaConsumer<byte[], byte[]> consumer = session.consumer(Map.of("group.id", group, "auto.offset.reset", "earliest",
                "isolation.level", "read_committed", "max.poll.records", 7))) {
            consumer.subscribe(List.of(input));
            int rounds = 0;
            for (long deadline = System.nanoTime() + 2 * Session.LIMIT.toNanos(); !values(output, "read_committed").equals(want); rounds++) {
                check(System.nanoTime() < deadline, "not all comes out");
                var polled = consumer.poll(Duration.ofMillis(500));
                if (polled.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                polled.forEach(one -> {
                    producer.send(record(output, one.partition(), text(one)));
                    next.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
                });
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                if (rounds % 3 == 2) {
                    producer.abortTransaction();
                    // Back to what is committed.
                    Set<TopicPartition> assigned = consumer.assignment();
                    Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(assigned, Session.LIMIT);
                    assigned.forEach(at -> consumer.seek(at, committed.get(at) == null ? 0 : committed.get(at).offset()));
                } else {
                    producer.commitTransaction();
                }
            }
            Map<TopicPartition, OffsetAndMetadata> committed =
                consumer.committed(Set.copyOf(Session.partitionsOf(input, PARTITIONS)), Session.LIMIT);
            equal(committed.values().stream().mapToLong(OffsetAndMetadata::offset).sum(), 60L, "committed offsets");
        }
    }

    private void operator() throws Exception {
        String topic = topic();
        String id = unique("id");
        TopicPartition at = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> producer = producer(id, Map.of())) {
            producer.beginTransaction();
            producer.send(record(topic, 0, "open")).get();
            check(session.admin.listTransactions().all().get().stream()
                .anyMatch(one -> one.transactionalId().equals(id) && one.state() == TransactionState.ONGOING), "it is listed");
            TransactionDescription described = session.admin.describeTransactions(List.of(id)).description(id).get();
            equal(described.state(), TransactionState.ONGOING, "state");
            equal(described.topicPartitions(), Set.of(at), "partitions");
            List<ProducerState> producers = session.admin.describeProducers(List.of(at)).partitionResult(at).get().activeProducers();
            equal(producers.size(), 1, "producers");
            ProducerState one = producers.get(0);
            equal(one.currentTransactionStartOffset().orElse(-1), 0L, "first offset of the transaction");
            session.admin.abortTransaction(new AbortTransactionSpec(at, one.producerId(), (short) one.producerEpoch(),
                one.coordinatorEpoch().orElse(0))).all().get();
            equal(values(topic, "read_committed"), Set.of(), "aborted by the operator");
            equal(end(topic, 0), 2L, "the marker");
        }
    }
}
