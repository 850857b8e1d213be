import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;

record GroupQuestions(Admin admin, Asking asking, Telling telling) {
    private static final String TOPIC = "groups-plain";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    private static final TopicPartition NO_PARTITION = new TopicPartition(TOPIC, 99);

    void ask() throws Exception {
        // One partition, because Java tells those of a member in an order that differs from run to run.
        admin.createTopics(List.of(new NewTopic(TOPIC, 1, (short) 1))).all().get();
        asking.settle();
        for (String protocol : List.of("classic", "consumer")) {
            String group = "groups-" + protocol;
            Map<String, Object> settings = Map.of("group.id", group, "group.protocol", protocol, "group.instance.id", "steady", "client.id", "one");
            try (KafkaConsumer<String, String> consumer = asking.consumer(settings)) {
                consumer.subscribe(List.of(TOPIC));
                Asking.untilAssigned(consumer);
                consumer.commitSync(Map.of(FIRST, new OffsetAndMetadata(0, "mark")));
                living(protocol, group);
            }
            left(protocol, group);
        }
        resting();
        others();
    }

    private void living(String protocol, String group) {
        String about = protocol + " group with a member ";
        telling.ask(about + "describeConsumerGroups", () -> admin.describeConsumerGroups(List.of(group)));
        telling.ask(about + "describeConsumerGroups and what is allowed", () -> admin.describeConsumerGroups(List.of(group), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true))
            .all().get().get(group).authorizedOperations());
        telling.ask(about + "describeClassicGroups", () -> admin.describeClassicGroups(List.of(group)));
        telling.ask(about + "describeShareGroups", () -> admin.describeShareGroups(List.of(group)).all());
        telling.ask(about + "listGroups", () -> listed(new ListGroupsOptions()));
        telling.ask(about + "listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(group));
        telling.ask(about + "listConsumerGroupOffsets of some", () -> admin.listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(FIRST, NO_PARTITION)))));
        telling.ask(about + "alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(group, Map.of(FIRST, new OffsetAndMetadata(1))));
        telling.ask(about + "deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(group, Set.of(FIRST)).all());
        telling.ask(about + "deleteConsumerGroupOffsets of none", () -> admin.deleteConsumerGroupOffsets(group, Set.of(NO_PARTITION)).all());
        telling.ask(about + "deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(group)));
        telling.ask(about + "removeMembersFromConsumerGroup of none", () -> admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("nobody")))).all());
        telling.ask(about + "removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all());
    }

    private void left(String protocol, String group) {
        String about = protocol + " group without members ";
        telling.ask(about + "removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all());
        telling.ask(about + "describeConsumerGroups", () -> admin.describeConsumerGroups(List.of(group)));
        telling.ask(about + "alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(group, Map.of(FIRST, new OffsetAndMetadata(1))).all());
        telling.ask(about + "alterConsumerGroupOffsets of none", () -> admin.alterConsumerGroupOffsets(group, Map.of(NO_PARTITION, new OffsetAndMetadata(1))).all());
        telling.ask(about + "listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(group).all());
        telling.ask(about + "deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(group, Set.of(FIRST)).all());
        telling.ask(about + "deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(group)));
        telling.ask(about + "deleteConsumerGroups again", () -> admin.deleteConsumerGroups(List.of(group)));
    }

    private void resting() {
        telling.ask("alterConsumerGroupOffsets of a new group", () -> admin.alterConsumerGroupOffsets("groups-made", Map.of(FIRST, new OffsetAndMetadata(3, "made"))).all());
        telling.ask("describeConsumerGroups of that group", () -> admin.describeConsumerGroups(List.of("groups-made")));
        telling.ask("describeClassicGroups of that group", () -> admin.describeClassicGroups(List.of("groups-made")));
        telling.ask("listGroups of that group", () -> listed(new ListGroupsOptions()));
        telling.ask("listGroups that are stable", () -> listed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE))));
        telling.ask("listGroups of a type", () -> listed(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))));
        telling.ask("listGroups of a protocol", () -> listed(new ListGroupsOptions().withProtocolTypes(Set.of("consumer"))));
        telling.ask("listGroups for shares", () -> listed(ListGroupsOptions.forShareGroups()));
        telling.ask("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream().filter(one -> one.groupId().startsWith("groups-")).toList());
        telling.ask("describeConsumerGroups of none", () -> admin.describeConsumerGroups(List.of("groups-none")));
        telling.ask("describeClassicGroups of none", () -> admin.describeClassicGroups(List.of("groups-none")));
        telling.ask("listConsumerGroupOffsets of none", () -> admin.listConsumerGroupOffsets("groups-none").all());
        telling.ask("deleteConsumerGroupOffsets of none", () -> admin.deleteConsumerGroupOffsets("groups-none", Set.of(FIRST)).all());
        telling.ask("removeMembersFromConsumerGroup of none", () -> admin.removeMembersFromConsumerGroup("groups-none", new RemoveMembersFromConsumerGroupOptions()).all());
        telling.ask("deleteConsumerGroups without a name", () -> admin.deleteConsumerGroups(List.of("")));
    }

    /** Share and streams groups, which a broker may not have. */
    private void others() {
        telling.ask("describeShareGroups", () -> admin.describeShareGroups(List.of("shares")).all());
        telling.ask("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("shares", Map.of(FIRST, 0L)).all());
        telling.ask("listShareGroupOffsets", () -> admin.listShareGroupOffsets(Map.of("shares", new ListShareGroupOffsetsSpec())).all());
        telling.ask("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("shares", Set.of(TOPIC)).all());
        telling.ask("deleteShareGroups", () -> admin.deleteShareGroups(List.of("shares")).all());
        telling.ask("describeStreamsGroups", () -> admin.describeStreamsGroups(List.of("streams")).all());
        telling.ask("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets("streams", Map.of(FIRST, new OffsetAndMetadata(1))).all());
        telling.ask("listStreamsGroupOffsets", () -> admin.listStreamsGroupOffsets(Map.of("streams", new ListStreamsGroupOffsetsSpec())).all());
        telling.ask("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets("streams", Set.of(FIRST)).all());
        telling.ask("deleteStreamsGroups", () -> admin.deleteStreamsGroups(List.of("streams")).all());
    }

    private Object listed(ListGroupsOptions options) throws Exception {
        return admin.listGroups(options).all().get().stream().filter(one -> one.groupId().startsWith("groups-")).toList();
    }
}
