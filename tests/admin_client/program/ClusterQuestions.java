import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.time.Duration;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;

record ClusterQuestions(Admin admin, Asking asking, Telling telling) {
    void ask() throws Exception {
        cluster();
        acls();
        quotas();
        users();
        configs();
        tokens();
    }

    private void cluster() throws Exception {
        telling.ask("describeCluster", () -> admin.describeCluster());
        telling.ask("describeCluster and what is allowed", () -> admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true)));
        Map<String, FinalizedVersionRange> finalized = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
        telling.ask("describeFeatures finalized", () -> finalized);
        telling.ask("describeFeatures supported", () -> admin.describeFeatures().featureMetadata().get().supportedFeatures());
        telling.ask("updateFeatures to what it is", () -> admin.updateFeatures(Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()));
        telling.ask("updateFeatures too high", () -> admin.updateFeatures(Map.of("group.version", new FeatureUpdate((short) 99, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()));
        telling.ask("updateFeatures unknown", () -> admin.updateFeatures(Map.of("no.such.feature", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()));
        telling.ask("updateFeatures down, only validated", () -> admin.updateFeatures(
            Map.of("transaction.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)), new UpdateFeaturesOptions().validateOnly(true)));
        telling.ask("updateFeatures of metadata, down", () -> admin.updateFeatures(
            Map.of("metadata.version", new FeatureUpdate((short) 7, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)), new UpdateFeaturesOptions().validateOnly(true)));
        telling.ask("describeMetadataQuorum", () -> {
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            return quorum.leaderId() + " " + quorum.voters().size() + " " + quorum.observers().size() + " " + (quorum.leaderEpoch() > 0) + " " + (quorum.highWatermark() > 0);
        });
        telling.ask("unregisterBroker", () -> admin.unregisterBroker(77));
        telling.ask("addRaftVoter", () -> admin.addRaftVoter(5, new Uuid(1, 2), Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9))));
        telling.ask("removeRaftVoter", () -> admin.removeRaftVoter(5, new Uuid(1, 2)));
        telling.ask("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(1)));
        telling.ask("metrics", () -> admin.metrics().isEmpty());
        telling.ask("registerMetricForSubscription", () -> {
            admin.registerMetricForSubscription(null);
            return null;
        });
        telling.ask("unregisterMetricFromSubscription", () -> {
            admin.unregisterMetricFromSubscription(null);
            return null;
        });
    }

    private void acls() throws Exception {
        AclBinding read = acl(ResourceType.TOPIC, "secret", PatternType.LITERAL, "User:alice", AclOperation.READ, AclPermissionType.ALLOW);
        AclBinding write = acl(ResourceType.TOPIC, "sec", PatternType.PREFIXED, "User:bob", AclOperation.WRITE, AclPermissionType.DENY);
        AclBinding cluster = acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:*", AclOperation.ALTER, AclPermissionType.ALLOW);
        telling.ask("createAcls", () -> admin.createAcls(List.of(read, write, cluster)));
        telling.ask("createAcls again", () -> admin.createAcls(List.of(read)));
        telling.ask("createAcls of another cluster", () -> admin.createAcls(List.of(acl(ResourceType.CLUSTER, "other", PatternType.LITERAL, "User:x", AclOperation.ALTER, AclPermissionType.ALLOW))));
        telling.ask("createAcls without a kind of principal", () -> admin.createAcls(List.of(acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "carol", AclOperation.READ, AclPermissionType.ALLOW))));
        telling.ask("createAcls without a name", () -> admin.createAcls(List.of(acl(ResourceType.TOPIC, "", PatternType.LITERAL, "User:x", AclOperation.READ, AclPermissionType.ALLOW))));
        telling.ask("createAcls with an operation that is not of it", () -> admin.createAcls(List.of(acl(ResourceType.GROUP, "g", PatternType.LITERAL, "User:x", AclOperation.WRITE, AclPermissionType.ALLOW))));
        telling.ask("createAcls with any operation", () -> admin.createAcls(List.of(acl(ResourceType.GROUP, "g", PatternType.LITERAL, "User:x", AclOperation.ANY, AclPermissionType.ALLOW))));
        asking.settle();
        telling.ask("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY));
        telling.ask("describeAcls that match", () -> admin.describeAcls(new AclBindingFilter(new ResourcePatternFilter(ResourceType.TOPIC, "secret", PatternType.MATCH), AccessControlEntryFilter.ANY)));
        telling.ask("describeAcls of a principal", () -> admin.describeAcls(new AclBindingFilter(ResourcePatternFilter.ANY,
            new AccessControlEntryFilter("User:bob", null, AclOperation.ANY, AclPermissionType.ANY))));
        telling.ask("describeTopics of what may be described", () -> admin.describeTopics(List.of("secret")));
        telling.ask("deleteAcls", () -> admin.deleteAcls(List.of(read.toFilter(), new AclBindingFilter(new ResourcePatternFilter(ResourceType.GROUP, null, PatternType.ANY), AccessControlEntryFilter.ANY))));
        telling.ask("deleteAcls of the rest", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
        asking.settle();
        telling.ask("describeAcls after deleteAcls", () -> admin.describeAcls(AclBindingFilter.ANY));
    }

    private static AclBinding acl(ResourceType type, String name, PatternType pattern, String who, AclOperation what, AclPermissionType allowed) {
        return new AclBinding(new ResourcePattern(type, name, pattern), new AccessControlEntry(who, "*", what, allowed));
    }

    private void quotas() throws Exception {
        quota("alterClientQuotas", Map.of("user", "u", "client-id", "c"), "producer_byte_rate", 1000.5);
        quota("alterClientQuotas of the default", java.util.Collections.singletonMap("client-id", null), "request_percentage", 50.0);
        quota("alterClientQuotas of an address", Map.of("ip", "127.0.0.9"), "connection_creation_rate", 10.0);
        quota("alterClientQuotas unknown key", Map.of("user", "u"), "no.such.quota", 1.0);
        quota("alterClientQuotas below nothing", Map.of("user", "u"), "producer_byte_rate", -5.0);
        quota("alterClientQuotas a part of a byte", Map.of("user", "u"), "consumer_byte_rate", 0.5);
        quota("alterClientQuotas no address", Map.of("ip", "not an address"), "connection_creation_rate", 10.0);
        quota("alterClientQuotas of a mixture", Map.of("ip", "127.0.0.1", "user", "u"), "connection_creation_rate", 10.0);
        quota("alterClientQuotas of something", Map.of("planet", "mars"), "producer_byte_rate", 10.0);
        quota("alterClientQuotas without a name", Map.of("user", ""), "producer_byte_rate", 10.0);
        asking.settle();
        telling.ask("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()));
        telling.ask("describeClientQuotas only", () -> admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofDefaultEntity("client-id")))));
        telling.ask("describeClientQuotas of one", () -> admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("user", "u")))));
        telling.ask("describeClientQuotas of something", () -> admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntityType("planet")))));
        telling.ask("describeClientQuotas of a mixture", () -> admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(
            ClientQuotaFilterComponent.ofEntityType("ip"), ClientQuotaFilterComponent.ofEntityType("user")))));
        quota("alterClientQuotas remove", Map.of("user", "u", "client-id", "c"), "producer_byte_rate", null);
        quota("alterClientQuotas remove the default", java.util.Collections.singletonMap("client-id", null), "request_percentage", null);
    }

    private void quota(String about, Map<String, String> of, String key, Double value) {
        telling.ask(about, () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(new TreeMap<>(of)), List.of(new ClientQuotaAlteration.Op(key, value))))));
    }

    private void users() throws Exception {
        ScramCredentialInfo long256 = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        telling.ask("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("dora", long256, "secret"),
            new UserScramCredentialUpsertion("dora", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), "secret"))));
        telling.ask("alterUserScramCredentials too few rounds", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("emil", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 10), "secret"))));
        telling.ask("alterUserScramCredentials too many rounds", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("emil", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 20000), "secret"))));
        telling.ask("alterUserScramCredentials delete what is not there", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("emil", ScramMechanism.SCRAM_SHA_256))));
        telling.ask("alterUserScramCredentials twice", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("frida", long256, "secret"), new UserScramCredentialDeletion("frida", ScramMechanism.SCRAM_SHA_256))));
        telling.ask("alterUserScramCredentials without a name", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("", long256, "secret"))));
        asking.settle();
        telling.ask("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all());
        telling.ask("describeUserScramCredentials of some", () -> admin.describeUserScramCredentials(List.of("dora")).all());
        telling.ask("describeUserScramCredentials of none", () -> admin.describeUserScramCredentials(List.of("emil")).all());
        telling.ask("describeUserScramCredentials twice", () -> admin.describeUserScramCredentials(List.of("dora", "dora")).all());
        telling.ask("alterUserScramCredentials delete", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("dora", ScramMechanism.SCRAM_SHA_256))));
    }

    private void configs() throws Exception {
        set("incrementalAlterConfigs of a broker", ConfigResource.Type.BROKER, "1", "log.retention.bytes", "1000000000");
        set("incrementalAlterConfigs of all brokers", ConfigResource.Type.BROKER, "", "message.max.bytes", "2000000");
        set("incrementalAlterConfigs of what is fixed", ConfigResource.Type.BROKER, "1", "process.roles", "broker");
        Collection<AlterConfigOp> inVain = List.of(new AlterConfigOp(new ConfigEntry("log.retention.ms", "86400000"), AlterConfigOp.OpType.SET));
        telling.ask("incrementalAlterConfigs of another broker", () -> admin.incrementalAlterConfigs(
            Map.of(new ConfigResource(ConfigResource.Type.BROKER, "9"), inVain), new AlterConfigsOptions().timeoutMs(Asking.IN_VAIN_MS)));
        set("incrementalAlterConfigs of a group", ConfigResource.Type.GROUP, "configured", "consumer.session.timeout.ms", "50000");
        set("incrementalAlterConfigs of a group, too short", ConfigResource.Type.GROUP, "configured", "consumer.session.timeout.ms", "10");
        set("incrementalAlterConfigs of a group, a key it has not", ConfigResource.Type.GROUP, "configured", "retention.ms", "10");
        set("incrementalAlterConfigs of telemetry", ConfigResource.Type.CLIENT_METRICS, "measured", "interval.ms", "10000");
        set("incrementalAlterConfigs of telemetry, bad value", ConfigResource.Type.CLIENT_METRICS, "measured", "interval.ms", "1");
        set("incrementalAlterConfigs of telemetry, bad match", ConfigResource.Type.CLIENT_METRICS, "measured", "match", "planet=mars");
        set("incrementalAlterConfigs of a logger that is not there", ConfigResource.Type.BROKER_LOGGER, "1", "no.such.logger", "DEBUG");
        set("incrementalAlterConfigs of a logger, no level", ConfigResource.Type.BROKER_LOGGER, "1", "root", "LOUD");
        asking.settle();
        for (ConfigResource.Type type : List.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS)) {
            String name = type == ConfigResource.Type.GROUP ? "configured" : "measured";
            telling.ask("describeConfigs of " + type, () -> admin.describeConfigs(List.of(new ConfigResource(type, name)), new DescribeConfigsOptions().includeSynonyms(true)).values());
        }
        telling.ask("describeConfigs of another broker", () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "9")), new DescribeConfigsOptions().timeoutMs(Asking.IN_VAIN_MS)).values());
        telling.ask("describeConfigs of no broker", () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "one"))).values());
        telling.ask("describeConfigs of all brokers", () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, ""))).values());
        telling.ask("listConfigResources", () -> admin.listConfigResources(Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS, ConfigResource.Type.BROKER), new ListConfigResourcesOptions()));
        telling.ask("listConfigResources of every kind", () -> admin.listConfigResources().all().get().stream().map(one -> one.type().name()).distinct().toList());
        telling.ask("listClientMetricsResources", () -> admin.listClientMetricsResources());
    }

    private void set(String about, ConfigResource.Type type, String name, String key, String value) {
        Collection<AlterConfigOp> change = List.of(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET));
        telling.ask(about, () -> admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), change)));
    }

    private void tokens() {
        telling.ask("createDelegationToken", () -> admin.createDelegationToken());
        telling.ask("renewDelegationToken", () -> admin.renewDelegationToken(new byte[] {1}));
        telling.ask("expireDelegationToken", () -> admin.expireDelegationToken(new byte[] {1}));
        telling.ask("describeDelegationToken", () -> admin.describeDelegationToken());
    }
}
