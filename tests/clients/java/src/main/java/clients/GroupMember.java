// One member of a group: GroupMember classic|consumer HOST:PORT TOPIC GROUP [instance id]. See tests/clients/groups/member.py.
package clients;

import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class GroupMember {
    private static volatile boolean ended;

    private GroupMember() {
    }

    public static void main(String[] args) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[1], "group.id", args[3], "group.protocol", args[0],
            "auto.offset.reset", "earliest", "enable.auto.commit", false, "fetch.max.wait.ms", 100, "metadata.max.age.ms", 2000,
            "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class));
        if (args[0].equals("classic")) {
            // A static member has the time to start again.
            config.putAll(Map.of("session.timeout.ms", args.length > 4 ? 30_000 : 6000, "heartbeat.interval.ms", 300,
                "partition.assignment.strategy", List.of(CooperativeStickyAssignor.class)));
        }
        if (args.length > 4) {
            config.put("group.instance.id", args[4]);
        }
        Thread reader = new Thread(GroupMember::waitForTheEnd);
        reader.setDaemon(true);
        reader.start();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            TreeSet<Integer> held = new TreeSet<>();
            consumer.subscribe(List.of(args[2]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> parts) {
                    parts.forEach(part -> held.remove(part.partition()));
                    say("assigned", held.toString());
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> parts) {
                    parts.forEach(part -> held.add(part.partition()));
                    say("assigned", held.toString());
                }
            });
            while (!ended) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    say("read", "[" + record.partition() + ", " + record.offset() + "]");
                }
                if (!records.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (KafkaException error) {
                        say("error", "\"" + error.getClass().getSimpleName() + "\"");
                    }
                }
            }
        }
    }

    private static synchronized void say(String key, String value) {
        System.out.println("{\"" + key + "\": " + value + "}");
    }

    private static void waitForTheEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            // The end as well.
        }
        ended = true;
    }
}
