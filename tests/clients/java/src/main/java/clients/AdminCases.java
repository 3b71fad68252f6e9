// Cases of the Java suite that ask about the cluster, its topics and configs, and the errors of all of these.
package clients;

import static clients.Session.PARTITIONS;
import static clients.Suite.check;
import static clients.Suite.equal;
import static clients.Suite.failsWith;
import static clients.Suite.unique;

import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

final class AdminCases {
    private final Session session;
    private final String topic = unique("java");

    AdminCases(Session session) {
        this.session = session;
    }

    void addTo(Suite suite) {
        suite.add("create-topic", this::create);
        suite.add("describe-topic", this::describeTopic);
        suite.add("describe-cluster", this::describeCluster);
        suite.add("list-offsets-earliest-latest", this::listOffsets);
        suite.add("describe-configs-of-topic", this::topicConfigs);
        suite.add("describe-configs-of-broker", this::brokerConfigs);
        suite.add("create-validate-only", this::validateOnly);
        suite.add("error-unknown-topic", () -> {
            failsWith(List.of(UnknownTopicOrPartitionException.class), () -> session.admin.describeTopics(List.of(unique("missing"))).allTopicNames().get());
            failsWith(List.of(UnknownTopicOrPartitionException.class), () -> session.admin.deleteTopics(List.of(unique("missing"))).all().get());
            // A producer asks again until max.block.ms is over, where its question does not create the topic.
            if (!brokerConfig("auto.create.topics.enable").equals("true")) {
                failsWith(List.of(TimeoutException.class), () -> session.produce(List.of(new ProducerRecord<>(unique("missing"), new byte[1])), Map.of("max.block.ms", 1000)));
            }
        });
        suite.add("error-topic-exists", () -> createFails(TopicExistsException.class, topic, 1, 1, Map.of()));
        suite.add("error-invalid-topic-name", () -> {
            for (String name : List.of("a b", ".", "..", "x".repeat(250), "a/b", "")) {
                createFails(InvalidTopicException.class, name, 1, 1, Map.of());
            }
        });
        suite.add("error-unknown-config", () -> createFails(InvalidConfigurationException.class, unique("java"), 1, 1, Map.of("no.such.config", "1")));
        suite.add("error-config-value", () -> createFails(InvalidConfigurationException.class, unique("java"), 1, 1, Map.of("retention.ms", "soon")));
        suite.add("error-replication-factor", () -> createFails(InvalidReplicationFactorException.class, unique("java"), 1, 3, Map.of()));
        suite.add("error-partition-count", () -> createFails(InvalidPartitionsException.class, unique("java"), 0, 1, Map.of()));
        suite.add("error-record-too-large", () -> {
            String limited = session.create(unique("java"), 1, Map.of("max.message.bytes", "1000"));
            failsWith(List.of(RecordTooLargeException.class), () -> session.produce(List.of(new ProducerRecord<>(limited, new byte[2000])), Map.of()));
            session.produce(List.of(new ProducerRecord<>(limited, new byte[500])), Map.of());
        });
        suite.add("delete-topic", this::delete);
    }

    private void createFails(Class<? extends Throwable> wanted, String name, int partitions, int replicas, Map<String, String> configs) throws Exception {
        Collection<Class<? extends Throwable>> classes = List.of(wanted);
        failsWith(classes, () -> session.admin.createTopics(List.of(new NewTopic(name, partitions, (short) replicas).configs(configs))).all().get());
    }

    private void create() throws Exception {
        session.create(topic, PARTITIONS, Map.of("retention.ms", "7200000"));
        check(session.admin.listTopics().names().get().contains(topic), "the new topic is not listed");
    }

    private void describeTopic() throws Exception {
        TopicDescription found = session.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        equal(found.partitions().size(), PARTITIONS, "partitions");
        check(!found.topicId().toString().equals("AAAAAAAAAAAAAAAAAAAAAA"), "no topic id");
        Set<Integer> leaders = new HashSet<>();
        for (TopicPartitionInfo one : found.partitions()) {
            equal(one.replicas(), List.of(one.leader()), "replicas");
            equal(one.isr(), one.replicas(), "in-sync replicas");
            leaders.add(one.leader().id());
        }
        if (Suite.expectedBrokers() > 0) {
            equal(leaders.size(), Suite.expectedBrokers(), "brokers that lead a partition");
        }
    }

    private void describeCluster() throws Exception {
        DescribeClusterResult found = session.admin.describeCluster();
        Collection<Node> nodes = found.nodes().get();
        check(nodes.contains(found.controller().get()), "controller " + found.controller().get() + " is not among " + nodes);
        check(!found.clusterId().get().isEmpty(), "no cluster id");
        if (Suite.expectedBrokers() > 0) {
            equal(nodes.size(), Suite.expectedBrokers(), "brokers");
        }
    }

    private void listOffsets() throws Exception {
        session.produce(List.of(new ProducerRecord<>(topic, 1, null, null, new byte[3]), new ProducerRecord<>(topic, 1, null, null, new byte[3])), Map.of());
        TopicPartition one = new TopicPartition(topic, 1);
        equal(session.admin.listOffsets(Map.of(one, OffsetSpec.earliest())).partitionResult(one).get().offset(), 0L, "earliest");
        equal(session.admin.listOffsets(Map.of(one, OffsetSpec.latest())).partitionResult(one).get().offset(), 2L, "latest");
    }

    private void topicConfigs() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config found = session.admin.describeConfigs(List.of(resource)).all().get().get(resource);
        equal(found.get("retention.ms").value(), "7200000", "retention.ms");
        equal(found.get("retention.ms").isDefault(), false, "retention.ms is a default");
        equal(found.get("cleanup.policy").value(), "delete", "cleanup.policy");
        equal(found.get("cleanup.policy").isDefault(), true, "cleanup.policy is a default");
    }

    private void brokerConfigs() throws Exception {
        for (Node node : session.admin.describeCluster().nodes().get()) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, node.idString());
            Config found = session.admin.describeConfigs(List.of(resource)).all().get().get(resource);
            check(found.get("log.segment.bytes") != null, "broker " + node + " has no log.segment.bytes");
        }
    }

    /** The value at one of the brokers, or "" where it has no such config. */
    private String brokerConfig(String name) throws Exception {
        Node node = session.admin.describeCluster().nodes().get().iterator().next();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, node.idString());
        ConfigEntry entry = session.admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return entry == null ? "" : entry.value();
    }

    private void validateOnly() throws Exception {
        String name = unique("java");
        session.admin.createTopics(List.of(new NewTopic(name, 1, (short) 1)),
            new org.apache.kafka.clients.admin.CreateTopicsOptions().validateOnly(true)).all().get();
        check(!session.admin.listTopics().names().get().contains(name), "validateOnly created the topic");
    }

    private void delete() throws Exception {
        session.admin.deleteTopics(List.of(topic)).all().get();
        for (long deadline = System.nanoTime() + Session.LIMIT.toNanos(); session.admin.listTopics().names().get().contains(topic); Thread.sleep(50)) {
            check(System.nanoTime() < deadline, "the topic is still listed");
        }
    }
}
