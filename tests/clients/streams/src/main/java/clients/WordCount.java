// Counts words with exactly_once_v2 while the server is killed: WordCount HOST:PORT LINES FOLDER. Started by tests/clients/streams/suite.
package clients;

import java.io.File;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

final class WordCount {
    private static final String INPUT = "lines";
    private static final String OUTPUT = "counts";
    private static final int PARTITIONS = 3;
    private static final List<String> WORDS = List.of("log", "segment", "offset", "epoch", "batch", "ring", "core");

    private WordCount() {
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        int lines = Integer.parseInt(args[1]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(INPUT, PARTITIONS, (short) 1), new NewTopic(OUTPUT, PARTITIONS, (short) 1))).all().get();
        }
        Map<String, Long> want = new TreeMap<>();
        KafkaStreams streams = new KafkaStreams(topology(), config(bootstrap, new File(args[2])));
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.start();
        System.out.println("begin");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap, "delivery.timeout.ms", 120_000,
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class))) {
            for (int n = 0; n < lines; n++) {
                String line = WORDS.get(n % WORDS.size()) + " " + WORDS.get((n * 5 + 2) % WORDS.size());
                for (String word : line.split(" ")) {
                    want.merge(word, 1L, Long::sum);
                }
                producer.send(new ProducerRecord<>(INPUT, n % PARTITIONS, null, line));
                // The kills come while it counts.
                Thread.sleep(5);
            }
        }
        System.out.println("written");
        Map<String, Long> seen = counts(bootstrap, want);
        streams.close(Duration.ofSeconds(20));
        System.out.println(lines + " lines, " + (seen.equals(want) ? "each word counted right: " + seen : "counted " + seen + ", want " + want));
        System.exit(seen.equals(want) ? 0 : 1);
    }

    private static org.apache.kafka.streams.Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(INPUT, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream()
            .to(OUTPUT, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    private static Properties config(String bootstrap, File folder) {
        Properties config = new Properties();
        config.putAll(Map.of(StreamsConfig.APPLICATION_ID_CONFIG, "word-count", StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2, StreamsConfig.STATE_DIR_CONFIG, folder.getPath(),
            StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100, StreamsConfig.REPLICATION_FACTOR_CONFIG, 1, StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2,
            StreamsConfig.consumerPrefix("session.timeout.ms"), 10_000));
        return config;
    }

    /** The last count of each word that read_committed sees, once they are those wanted or nothing comes any more. */
    private static Map<String, Long> counts(String bootstrap, Map<String, Long> want) {
        Map<String, Long> seen = new TreeMap<>();
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", "judge", "isolation.level", "read_committed",
            "auto.offset.reset", "earliest", "key.deserializer", StringDeserializer.class, "value.deserializer", LongDeserializer.class));
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(config)) {
            consumer.subscribe(List.of(OUTPUT));
            for (long end = System.nanoTime() + Duration.ofSeconds(90).toNanos(); !seen.equals(want) && System.nanoTime() < end; ) {
                for (ConsumerRecord<String, Long> one : consumer.poll(Duration.ofMillis(300))) {
                    seen.put(one.key(), one.value());
                }
            }
            // Nothing is counted beyond what there is.
            for (ConsumerRecord<String, Long> one : consumer.poll(Duration.ofSeconds(3))) {
                seen.put(one.key(), one.value());
            }
        }
        return seen;
    }
}
