// What the Java cases share: the server, an admin client, and writing and reading whole topics.
package clients;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Session implements AutoCloseable {
    static final int PARTITIONS = 6;
    static final Duration LIMIT = Duration.ofSeconds(30);

    final String bootstrap;
    final Admin admin;

    Session(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 20000, "request.timeout.ms", 10000));
    }

    @Override
    public void close() {
        admin.close(Duration.ofSeconds(2));
    }

    String create(String topic, int partitions, Map<String, String> configs) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        // Kafka answers a moment before the partitions can be written, and acks=0 would lose what is sent then.
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        partitionsOf(topic, partitions).forEach(p -> ends.put(p, OffsetSpec.latest()));
        for (long deadline = System.nanoTime() + LIMIT.toNanos(); ; Thread.sleep(20)) {
            try {
                admin.listOffsets(ends).all().get();
                return topic;
            } catch (ExecutionException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
            }
        }
    }

    static List<TopicPartition> partitionsOf(String topic, int count) {
        return IntStream.range(0, count).mapToObj(p -> new TopicPartition(topic, p)).toList();
    }

    KafkaProducer<byte[], byte[]> producer(Map<String, ?> options) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "max.block.ms", 15000, "delivery.timeout.ms", 30000,
            "request.timeout.ms", 15000));
        all.putAll(options);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    KafkaConsumer<byte[], byte[]> consumer(Map<String, ?> options) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", false, "auto.offset.reset", "none"));
        all.putAll(options);
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Sends all in order, waits, and checks that the offsets of each partition follow one another. */
    void produce(List<ProducerRecord<byte[], byte[]>> records, Map<String, ?> options) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(options)) {
            List<Future<RecordMetadata>> pending = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records) {
                pending.add(producer.send(record));
            }
            producer.flush();
            Map<Integer, Long> next = new HashMap<>();
            for (Future<RecordMetadata> one : pending) {
                RecordMetadata done = one.get();
                if (done.hasOffset()) {
                    Suite.equal(done.offset(), next.getOrDefault(done.partition(), done.offset()), "offset in partition " + done.partition());
                    next.put(done.partition(), done.offset() + 1);
                }
            }
        }
    }

    /** Reads `count` records of all partitions from the beginning. */
    Map<Integer, List<ConsumerRecord<byte[], byte[]>>> read(String topic, int count, Map<String, ?> options) {
        Map<Integer, List<ConsumerRecord<byte[], byte[]>>> found = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(options)) {
            List<TopicPartition> assigned = partitionsOf(topic, PARTITIONS);
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            int total = 0;
            for (long deadline = System.nanoTime() + LIMIT.toNanos(); total < count && System.nanoTime() < deadline; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    found.computeIfAbsent(record.partition(), p -> new ArrayList<>()).add(record);
                    total++;
                }
            }
            Suite.equal(total, count, "records read");
        }
        return found;
    }

    static void compare(Map<Integer, List<ConsumerRecord<byte[], byte[]>>> found, List<ProducerRecord<byte[], byte[]>> want) {
        Map<Integer, Integer> next = new HashMap<>();
        for (ProducerRecord<byte[], byte[]> sent : want) {
            int at = next.merge(sent.partition(), 1, Integer::sum) - 1;
            ConsumerRecord<byte[], byte[]> got = found.get(sent.partition()).get(at);
            String where = "partition " + sent.partition() + " record " + at;
            Suite.equal(got.offset(), (long) at, where + " offset");
            Suite.equal(got.key(), sent.key(), where + " key");
            Suite.equal(got.value(), sent.value(), where + " value");
            Suite.equal(got.timestamp(), sent.timestamp(), where + " timestamp");
            Header[] headers = got.headers().toArray();
            Header[] wanted = sent.headers().toArray();
            Suite.equal(headers.length, wanted.length, where + " headers");
            for (int h = 0; h < wanted.length; h++) {
                Suite.equal(headers[h].key(), wanted[h].key(), where + " header");
                Suite.equal(headers[h].value(), wanted[h].value(), where + " header " + wanted[h].key());
            }
        }
    }
}
