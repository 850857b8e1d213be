import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;

record TopicQuestions(Admin admin, Asking asking, Telling telling) {
    static final TopicPartition FIRST = new TopicPartition("topics-plain", 0);
    static final TopicPartition NO_PARTITION = new TopicPartition("topics-plain", 99);
    static final TopicPartition NO_TOPIC = new TopicPartition("topics-none", 0);

    void ask() throws Exception {
        making();
        asking.settle();
        looking();
        configuring();
        records();
        moving();
        removing();
    }

    private void making() {
        NewTopic plain = new NewTopic("topics-plain", 3, (short) 1).configs(Map.of("retention.ms", "3600000"));
        telling.ask("createTopics", () -> admin.createTopics(List.of(plain)));
        telling.ask("createTopics again", () -> admin.createTopics(List.of(plain)));
        telling.ask("createTopics by default", () -> admin.createTopics(List.of(new NewTopic("topics-default", Optional.empty(), Optional.empty()))));
        telling.ask("createTopics assigned", () -> admin.createTopics(List.of(new NewTopic("topics-assigned", Map.of(0, List.of(1), 1, List.of(1))))));
        telling.ask("createTopics assigned to a broker that is not there", () -> admin.createTopics(List.of(new NewTopic("topics-far", Map.of(0, List.of(7))))));
        telling.ask("createTopics assigned with a gap", () -> admin.createTopics(List.of(new NewTopic("topics-gap", Map.of(0, List.of(1), 2, List.of(1))))));
        telling.ask("createTopics too many replicas", () -> admin.createTopics(List.of(new NewTopic("topics-many", 1, (short) 3))));
        telling.ask("createTopics no partitions", () -> admin.createTopics(List.of(new NewTopic("topics-zero", 0, (short) 1))));
        telling.ask("createTopics unknown key", () -> admin.createTopics(List.of(new NewTopic("topics-key", 1, (short) 1).configs(Map.of("no.such.key", "1")))));
        telling.ask("createTopics bad value", () -> admin.createTopics(List.of(new NewTopic("topics-value", 1, (short) 1).configs(Map.of("retention.ms", "soon")))));
        telling.ask("createTopics only validated", () -> admin.createTopics(List.of(new NewTopic("topics-checked", 2, (short) 1)), new CreateTopicsOptions().validateOnly(true)));
        telling.ask("createTopics internal", () -> admin.createTopics(List.of(new NewTopic("__share_group_state", 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)));
        telling.ask("createPartitions", () -> admin.createPartitions(Map.of("topics-default", NewPartitions.increaseTo(9))));
        telling.ask("createPartitions fewer", () -> admin.createPartitions(Map.of("topics-plain", NewPartitions.increaseTo(1))));
        telling.ask("createPartitions as many", () -> admin.createPartitions(Map.of("topics-plain", NewPartitions.increaseTo(3))));
        telling.ask("createPartitions of none", () -> admin.createPartitions(Map.of("topics-none", NewPartitions.increaseTo(3))));
        telling.ask("createPartitions assigned", () -> admin.createPartitions(Map.of("topics-assigned", NewPartitions.increaseTo(3, List.of(List.of(1))))));
        telling.ask("createPartitions assigned too often", () -> admin.createPartitions(Map.of("topics-plain", NewPartitions.increaseTo(4, List.of(List.of(1), List.of(1))))));
        telling.ask("createPartitions assigned elsewhere", () -> admin.createPartitions(Map.of("topics-plain", NewPartitions.increaseTo(4, List.of(List.of(5))))));
    }

    private void looking() throws Exception {
        telling.ask("listTopics", () -> admin.listTopics().names().get().stream().filter(name -> name.startsWith("topics-")).toList());
        telling.ask("listTopics and what is internal", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get().stream()
            .filter(one -> one.name().startsWith("topics-")).toList());
        telling.ask("describeTopics", () -> admin.describeTopics(List.of("topics-plain", "topics-none", "topics-assigned", "a b")));
        telling.ask("describeTopics and what is allowed", () -> admin.describeTopics(List.of("topics-plain"), new DescribeTopicsOptions().includeAuthorizedOperations(true))
            .allTopicNames().get().get("topics-plain").authorizedOperations());
        telling.ask("describeTopics in pages", () -> admin.describeTopics(List.of("topics-default", "topics-plain"), new DescribeTopicsOptions().partitionSizeLimitPerResponse(2)));
        Uuid known = admin.describeTopics(List.of("topics-plain")).allTopicNames().get().get("topics-plain").topicId();
        telling.ask("describeTopics by id", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(known))));
        telling.ask("describeTopics by an id that is not there", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(new Uuid(5, 6)))));
        telling.ask("listPartitionReassignments", () -> admin.listPartitionReassignments());
        telling.ask("listPartitionReassignments of one", () -> admin.listPartitionReassignments(Set.of(FIRST)));
        telling.ask("listPartitionReassignments of none", () -> admin.listPartitionReassignments(Set.of(NO_TOPIC)));
    }

    private void configuring() throws Exception {
        ConfigResource plain = new ConfigResource(ConfigResource.Type.TOPIC, "topics-plain");
        ConfigResource none = new ConfigResource(ConfigResource.Type.TOPIC, "topics-none");
        set("incrementalAlterConfigs", plain, "max.message.bytes", "2000", AlterConfigOp.OpType.SET);
        set("incrementalAlterConfigs append", plain, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        set("incrementalAlterConfigs append to what is no list", plain, "retention.ms", "5", AlterConfigOp.OpType.APPEND);
        set("incrementalAlterConfigs subtract", plain, "cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT);
        set("incrementalAlterConfigs delete", plain, "retention.ms", null, AlterConfigOp.OpType.DELETE);
        set("incrementalAlterConfigs bad value", plain, "min.insync.replicas", "0", AlterConfigOp.OpType.SET);
        set("incrementalAlterConfigs unknown key", plain, "no.such.key", "0", AlterConfigOp.OpType.SET);
        set("incrementalAlterConfigs of none", none, "retention.ms", "5", AlterConfigOp.OpType.SET);
        asking.settle();
        telling.ask("describeConfigs", () -> admin.describeConfigs(List.of(plain), new DescribeConfigsOptions().includeSynonyms(true)).values());
        telling.ask("describeConfigs of none", () -> admin.describeConfigs(List.of(none)).values());
    }

    private void set(String about, ConfigResource of, String key, String value, AlterConfigOp.OpType how) {
        Collection<AlterConfigOp> change = List.of(new AlterConfigOp(new ConfigEntry(key, value), how));
        telling.ask(about, () -> admin.incrementalAlterConfigs(Map.of(of, change)));
    }

    private void records() throws Exception {
        try (KafkaProducer<String, String> producer = asking.producer(Map.of())) {
            for (int number = 0; number < 10; number++) {
                long time = 1_000_000L + 10 * (number == 7 ? 100 : number);
                producer.send(new ProducerRecord<>("topics-plain", 0, time, "k" + number, "v" + number)).get();
            }
        }
        Map<String, OffsetSpec> specs = Map.of("latest", OffsetSpec.latest(), "earliest", OffsetSpec.earliest(), "largest time", OffsetSpec.maxTimestamp(),
            "earliest local", OffsetSpec.earliestLocal(), "latest tiered", OffsetSpec.latestTiered(), "pending upload", OffsetSpec.earliestPendingUpload(),
            "at a time", OffsetSpec.forTimestamp(1_000_035), "after all", OffsetSpec.forTimestamp(9_000_000));
        for (Map.Entry<String, OffsetSpec> spec : specs.entrySet()) {
            telling.ask("listOffsets " + spec.getKey(), () -> admin.listOffsets(Map.of(FIRST, spec.getValue(), new TopicPartition("topics-plain", 1), spec.getValue())));
        }
        telling.ask("listOffsets committed", () -> admin.listOffsets(Map.of(FIRST, OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)));
        telling.ask("listOffsets of none", () -> admin.listOffsets(Map.of(NO_PARTITION, OffsetSpec.latest()), new ListOffsetsOptions().timeoutMs(Asking.IN_VAIN_MS)));
        telling.ask("deleteRecords", () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(4))).lowWatermarks());
        telling.ask("deleteRecords below", () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(2))).lowWatermarks());
        telling.ask("deleteRecords above", () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(99))).lowWatermarks());
        telling.ask("deleteRecords of all", () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(-1))).lowWatermarks());
        telling.ask("deleteRecords of none", () -> admin.deleteRecords(Map.of(NO_PARTITION, RecordsToDelete.beforeOffset(1)), new DeleteRecordsOptions().timeoutMs(Asking.IN_VAIN_MS)).lowWatermarks());
        telling.ask("listOffsets after deleteRecords", () -> admin.listOffsets(Map.of(FIRST, OffsetSpec.earliest())));
        telling.ask("listOffsets largest time of nothing", () -> admin.listOffsets(Map.of(FIRST, OffsetSpec.maxTimestamp())));
    }

    private void moving() {
        telling.ask("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(FIRST, NO_PARTITION, NO_TOPIC)).partitions());
        telling.ask("electLeaders unclean", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(FIRST)).partitions());
        telling.ask("electLeaders everywhere", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions());
        for (List<Integer> to : List.of(List.of(1), List.of(2), List.<Integer>of(), List.of(1, 1), List.of(-1))) {
            telling.ask("alterPartitionReassignments " + to, () -> admin.alterPartitionReassignments(Map.of(FIRST, Optional.of(new NewPartitionReassignment(to)))));
        }
        telling.ask("alterPartitionReassignments cancel", () -> admin.alterPartitionReassignments(Map.of(FIRST, Optional.empty())));
        telling.ask("alterPartitionReassignments of none", () -> admin.alterPartitionReassignments(Map.of(NO_TOPIC, Optional.of(new NewPartitionReassignment(List.of(1))))));
        telling.ask("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica("topics-plain", 0, 1), "/nowhere")));
        telling.ask("alterReplicaLogDirs elsewhere", () -> admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica("topics-plain", 0, 9), "/nowhere"), new AlterReplicaLogDirsOptions().timeoutMs(Asking.IN_VAIN_MS)));
        telling.ask("describeReplicaLogDirs", () -> {
            var there = admin.describeReplicaLogDirs(List.of(new TopicPartitionReplica("topics-plain", 0, 1))).all().get().values().iterator().next();
            return (there.getCurrentReplicaLogDir() != null) + " " + there.getCurrentReplicaOffsetLag() + " " + there.getFutureReplicaLogDir() + " " + there.getFutureReplicaOffsetLag();
        });
        telling.ask("describeReplicaLogDirs of none", () -> admin.describeReplicaLogDirs(List.of(new TopicPartitionReplica("topics-none", 0, 1))));
        telling.ask("describeLogDirs", () -> admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values().stream()
            .map(folder -> folder.error() + " " + folder.totalBytes().isPresent() + " " + folder.isCordoned() + " " + folder.replicaInfos().get(FIRST)).toList());
        telling.ask("describeLogDirs elsewhere", () -> admin.describeLogDirs(List.of(9), new DescribeLogDirsOptions().timeoutMs(Asking.IN_VAIN_MS)));
    }

    private void removing() throws Exception {
        telling.ask("deleteTopics", () -> admin.deleteTopics(List.of("topics-assigned", "topics-none", "a b")));
        Uuid known = admin.describeTopics(List.of("topics-default")).allTopicNames().get().get("topics-default").topicId();
        telling.ask("deleteTopics by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(known))));
        asking.settle();
        telling.ask("deleteTopics by an id that is gone", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(known))));
        telling.ask("listTopics after deleteTopics", () -> admin.listTopics().names().get().stream().filter(name -> name.startsWith("topics-")).toList());
    }
}
