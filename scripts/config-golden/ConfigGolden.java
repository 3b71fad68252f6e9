// Prints what a Kafka broker says about configs: `java -cp LIBS ConfigGolden.java HOST:PORT topic|broker|answers`.
import java.util.*;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

public class ConfigGolden {
    static Admin admin;

    public static void main(String[] args) throws Exception {
        admin = Admin.create(Map.of("bootstrap.servers", args[0]));
        try (Admin closing = admin) {
            switch (args[1]) {
                case "topic" -> describe(topic());
                case "broker" -> describe(new ConfigResource(ConfigResource.Type.BROKER, "1"));
                case "answers" -> answers();
                default -> throw new IllegalArgumentException(args[1]);
            }
        }
    }

    /** A topic without overrides, made when it is not there yet. */
    static ConfigResource topic() throws Exception {
        if (!admin.listTopics().names().get().contains("golden")) {
            admin.createTopics(List.of(new NewTopic("golden", 1, (short) 1))).all().get();
        }
        return new ConfigResource(ConfigResource.Type.TOPIC, "golden");
    }

    /** One line a config: name, value, type, source, read-only, sensitive, synonyms (name=value:source), documentation. */
    static void describe(ConfigResource resource) throws Exception {
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Config config = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
        List<ConfigEntry> entries = new ArrayList<>(config.entries());
        entries.sort(Comparator.comparing(ConfigEntry::name));
        System.out.println("# name\tvalue\ttype\tsource\tread_only\tsensitive\tsynonyms\tdocumentation");
        for (ConfigEntry entry : entries) {
            StringJoiner synonyms = new StringJoiner(" | ");
            for (ConfigEntry.ConfigSynonym synonym : entry.synonyms()) {
                synonyms.add(synonym.name() + "=" + synonym.value() + ":" + synonym.source());
            }
            System.out.println(String.join("\t", entry.name(), String.valueOf(entry.value()), entry.type().name(),
                entry.source().name(), String.valueOf(entry.isReadOnly()), String.valueOf(entry.isSensitive()),
                synonyms.toString(), String.valueOf(entry.documentation()).replaceAll("\\s+", " ")));
        }
    }

    /** One line a question: key, value, error code, error name, message. */
    static void answers() throws Exception {
        System.out.println("# config\tkey\tvalue\tcode\terror\tmessage");
        for (String[] pair : CONFIGS) {
            Map<String, String> configs = new LinkedHashMap<>();
            for (int i = 0; i < pair.length; i += 2) {
                configs.put(pair[i], pair[i + 1]);
            }
            NewTopic topic = new NewTopic("asked", 1, (short) 1).configs(configs);
            System.out.println("config\t" + String.join(";", pair) .replaceFirst(";", "\t") + "\t" + ask(topic));
        }
        System.out.println("# name\ttopic\tcode\terror\tmessage");
        admin.createTopics(List.of(new NewTopic("taken.name", 1, (short) 1))).all().get();
        for (String name : NAMES) {
            System.out.println("name\t" + name + "\t" + ask(new NewTopic(name, 1, (short) 1)));
        }
        System.out.println("# shape\tpartitions\treplicas\tcode\terror\tmessage");
        for (int[] shape : new int[][] {{1, 3}, {1, 0}, {0, 1}, {-2, 1}, {-1, -1}, {1, -2}, {1, 2}}) {
            System.out.println("shape\t" + shape[0] + "\t" + shape[1] + "\t"
                + ask(new NewTopic("asked", shape[0], (short) shape[1])));
        }
        System.out.println("# assignment\twhat\tcode\terror\tmessage");
        Map<String, Map<Integer, List<Integer>>> assignments = new LinkedHashMap<>();
        assignments.put("{0=[2]}", Map.of(0, List.of(2)));
        assignments.put("{0=[1,1]}", Map.of(0, List.of(1, 1)));
        assignments.put("{0=[]}", Map.of(0, List.of()));
        assignments.put("{1=[1]}", Map.of(1, List.of(1)));
        assignments.put("{0=[1],2=[1]}", new TreeMap<>(Map.of(0, List.of(1), 2, List.of(1))));
        assignments.put("{0=[-1]}", Map.of(0, List.of(-1)));
        assignments.put("{}", Map.of());
        assignments.forEach((what, assignment) ->
            System.out.println("assignment\t" + what + "\t" + ask(new NewTopic("asked", assignment))));
        System.out.println("# increase\tcount\tcode\terror\tmessage");
        admin.createTopics(List.of(new NewTopic("grown", 3, (short) 1))).all().get();
        for (int count : new int[] {3, 2, 0, -1}) {
            System.out.println("increase\t" + count + "\t"
                + answer(admin.createPartitions(Map.of("grown", NewPartitions.increaseTo(count))).all()));
        }
        System.out.println("increase\t4=[2]\t" + answer(admin.createPartitions(
            Map.of("grown", NewPartitions.increaseTo(4, List.of(List.of(2))))).all()));
        System.out.println("increase\t5=[1]\t" + answer(admin.createPartitions(
            Map.of("grown", NewPartitions.increaseTo(5, List.of(List.of(1))))).all()));
        System.out.println("increase\tunknown\t" + answer(admin.createPartitions(
            Map.of("unknown", NewPartitions.increaseTo(5))).all()));
        System.out.println("delete\tunknown\t" + answer(admin.deleteTopics(List.of("unknown")).all()));
        System.out.println("delete\ta+b\t" + answer(admin.deleteTopics(List.of("a+b")).all()));
        System.out.println("# alter\top\tkey\tvalue\tcode\terror\tmessage");
        ConfigResource golden = topic();
        Object[][] alterations = {
            {AlterConfigOp.OpType.APPEND, "segment.bytes", "1"},
            {AlterConfigOp.OpType.SUBTRACT, "retention.ms", "1"},
            {AlterConfigOp.OpType.APPEND, "cleanup.policy", "foo"},
            {AlterConfigOp.OpType.SET, "no.such", "1"},
            {AlterConfigOp.OpType.DELETE, "no.such", ""},
            {AlterConfigOp.OpType.SET, "retention.ms", "abc"},
            {AlterConfigOp.OpType.SET, "retention.ms", ""},
            {AlterConfigOp.OpType.SUBTRACT, "cleanup.policy", "delete"},
        };
        for (Object[] a : alterations) {
            AlterConfigOp op = new AlterConfigOp(new ConfigEntry((String) a[1], (String) a[2]), (AlterConfigOp.OpType) a[0]);
            System.out.println("alter\t" + a[0] + "\t" + a[1] + "\t" + a[2] + "\t"
                + answer(admin.incrementalAlterConfigs(Map.of(golden, List.of(op))).all()));
        }
        admin.incrementalAlterConfigs(Map.of(golden, List.of(
            new AlterConfigOp(new ConfigEntry("cleanup.policy", ""), AlterConfigOp.OpType.DELETE)))).all().get();
        ConfigResource unknown = new ConfigResource(ConfigResource.Type.TOPIC, "unknown");
        System.out.println("describe\tunknown\t" + answer(admin.describeConfigs(List.of(unknown)).all()));
    }

    /** Creates the topic, and takes it away again where the broker agreed. */
    static String ask(NewTopic topic) {
        String said = answer(admin.createTopics(List.of(topic)).all());
        if (said.startsWith("0\t") && !topic.name().equals("taken.name")) {
            answer(admin.deleteTopics(List.of(topic.name())).all());
        }
        return said;
    }

    static String answer(org.apache.kafka.common.KafkaFuture<?> future) {
        try {
            future.get();
            return "0\tNONE\t";
        } catch (ExecutionException e) {
            Errors error = Errors.forException(e.getCause());
            return error.code() + "\t" + error + "\t" + String.valueOf(e.getCause().getMessage()).replace("\n", "\\n");
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    static final String[] NAMES = {"", ".", "..", "a b", "a/b", "a:b", "a+b", "a\u00e9", "a".repeat(249), "a".repeat(250),
        "taken.name", "taken_name", "__consumer_offsets_x", "...", "a\tb".replace("\t", "%"), "__cluster_metadata",
        "__consumer_offsets"};

    static final String[][] CONFIGS = {
        {"segment.bytes", "3000000000"}, {"segment.bytes", "10"}, {"segment.bytes", "1048575"}, {"segment.bytes", " 1048576 "},
        {"segment.bytes", ""}, {"segment.bytes", "1e6"}, {"segment.bytes", "1048576.0"}, {"segment.bytes", "+1048576"},
        {"segment.bytes", "-1"}, {"segment.bytes", "0x100000"}, {"segment.bytes", "2147483647"}, {"segment.bytes", "2147483648"},
        {"cleanup.policy", "foo"}, {"cleanup.policy", "delete,foo"}, {"cleanup.policy", ""}, {"cleanup.policy", "compact,delete"},
        {"cleanup.policy", "delete,delete"}, {"cleanup.policy", " delete , compact "}, {"cleanup.policy", "Delete"},
        {"cleanup.policy", "delete,"}, {"cleanup.policy", ","},
        {"unknown.key", "1"}, {"retention.ms", "abc"}, {"retention.ms", "-2"}, {"retention.ms", "-1"}, {"retention.ms", "0"},
        {"retention.ms", "9223372036854775807"}, {"retention.ms", "9223372036854775808"},
        {"retention.bytes", "-2"}, {"retention.bytes", "abc"}, {"segment.ms", "0"}, {"segment.ms", "1"}, {"segment.jitter.ms", "-1"},
        {"segment.index.bytes", "3"}, {"segment.index.bytes", "4"}, {"index.interval.bytes", "-1"}, {"index.interval.bytes", "0"},
        {"max.message.bytes", "-1"}, {"max.message.bytes", "0"}, {"flush.messages", "0"}, {"flush.messages", "1"}, {"flush.ms", "-1"},
        {"flush.ms", "0"}, {"message.timestamp.type", "foo"}, {"message.timestamp.type", "createtime"},
        {"message.timestamp.before.max.ms", "-1"}, {"message.timestamp.after.max.ms", "-1"}, {"message.timestamp.after.max.ms", "0"},
        {"compression.type", "foo"}, {"compression.type", "LZ4"}, {"compression.type", "uncompressed"}, {"compression.type", "none"},
        {"compression.gzip.level", "0"}, {"compression.gzip.level", "-1"}, {"compression.gzip.level", "10"},
        {"compression.lz4.level", "0"}, {"compression.lz4.level", "18"}, {"compression.zstd.level", "23"},
        {"compression.zstd.level", "-131073"}, {"compression.zstd.level", "-131072"}, {"compression.gzip.level", "abc"},
        {"min.insync.replicas", "0"}, {"min.insync.replicas", "2"}, {"file.delete.delay.ms", "-1"}, {"delete.retention.ms", "-1"},
        {"min.compaction.lag.ms", "-1"}, {"max.compaction.lag.ms", "0"}, {"min.cleanable.dirty.ratio", "1.5"},
        {"min.cleanable.dirty.ratio", "-0.1"}, {"min.cleanable.dirty.ratio", "abc"}, {"min.cleanable.dirty.ratio", "0"},
        {"min.compaction.lag.ms", "10", "max.compaction.lag.ms", "5"},
        {"unclean.leader.election.enable", "maybe"}, {"unclean.leader.election.enable", "TRUE"}, {"unclean.leader.election.enable", ""},
        {"preallocate", "yes"}, {"preallocate", "true"}, {"remote.storage.enable", "true"}, {"remote.storage.enable", "false"},
        {"remote.storage.enable", "x"}, {"local.retention.ms", "-3"}, {"local.retention.ms", "-2"}, {"local.retention.ms", "-1"},
        {"local.retention.bytes", "-3"}, {"local.retention.ms", "10", "retention.ms", "5"},
        {"local.retention.bytes", "10", "retention.bytes", "5"}, {"local.retention.ms", "-1", "retention.ms", "5"},
        {"remote.storage.enable", "true", "local.retention.ms", "10", "retention.ms", "5"},
        {"remote.storage.enable", "true", "local.retention.bytes", "10", "retention.bytes", "5"},
        {"remote.storage.enable", "true", "cleanup.policy", "compact"},
        {"remote.log.copy.disable", "true"}, {"remote.log.delete.on.disable", "true"},
        {"message.format.version", "3.0"}, {"message.downconversion.enable", "false"},
        {"message.timestamp.difference.max.ms", "5"}, {"leader.replication.throttled.replicas", "foo"},
        {"leader.replication.throttled.replicas", "*"}, {"leader.replication.throttled.replicas", "0:1,1:2"},
        {"follower.replication.throttled.replicas", "none"}, {"follower.replication.throttled.replicas", ""},
        {"segment.bytes", "10", "retention.ms", "abc"}, {"unknown.key", "1", "segment.bytes", "10"},
        {"errors.deadletterqueue.group.enable", "x"}, {"internal.segment.bytes", "10"},
    };
}
