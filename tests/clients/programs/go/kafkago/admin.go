package main

import (
	"context"
	"errors"
	"time"

	"brokerlite/clients/protocol"

	"github.com/segmentio/kafka-go"
)

func administer(q *protocol.Question) (any, error) {
	transport := &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(q.Bootstrap), Timeout: protocol.ReadTime, Transport: transport}
	ctx, cancel := within()
	defer cancel()
	switch q.Verb {
	case "list_topics", "partitions_of":
		return describe(ctx, client, q)
	case "get_config", "offset_of", "groups", "committed":
		return lookUp(ctx, client, q)
	}
	return nil, change(ctx, client, q)
}

func describe(ctx context.Context, client *kafka.Client, q *protocol.Question) (any, error) {
	asked := &kafka.MetadataRequest{}
	if q.Verb == "partitions_of" {
		asked.Topics = []string{q.Topic}
	}
	told, err := client.Metadata(ctx, asked)
	if err != nil {
		return nil, err
	}
	if q.Verb == "partitions_of" {
		return len(told.Topics[0].Partitions), told.Topics[0].Error
	}
	names := []string{}
	for _, topic := range told.Topics {
		names = append(names, topic.Name)
	}
	return names, nil
}

func change(ctx context.Context, client *kafka.Client, q *protocol.Question) error {
	switch q.Verb {
	case "create_topic":
		topic := kafka.TopicConfig{Topic: q.Topic, NumPartitions: int(q.Partitions), ReplicationFactor: 1}
		for name, value := range q.Config {
			topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
		}
		made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
		if err != nil {
			return err
		}
		return made.Errors[q.Topic]
	case "delete_topic":
		gone, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{q.Topic}})
		if err != nil {
			return err
		}
		return gone.Errors[q.Topic]
	case "grow_topic":
		wanted := []kafka.TopicPartitionsConfig{{Name: q.Topic, Count: q.Partitions}}
		grown, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: wanted})
		if err != nil {
			return err
		}
		return grown.Errors[q.Topic]
	case "set_config":
		wanted := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: q.Topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: q.Name, Value: q.Value, ConfigOperation: kafka.ConfigOperationSet}}}
		told, err := client.IncrementalAlterConfigs(ctx,
			&kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{wanted}})
		if err != nil {
			return err
		}
		return told.Resources[0].Error
	case "delete_group":
		gone, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{q.Group}})
		if err != nil {
			return err
		}
		return gone.Errors[q.Group]
	}
	return protocol.ErrNotOffered
}

func lookUp(ctx context.Context, client *kafka.Client, q *protocol.Question) (any, error) {
	switch q.Verb {
	case "get_config":
		asked := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: q.Topic,
			ConfigNames: []string{q.Name}}
		told, err := client.DescribeConfigs(ctx,
			&kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{asked}})
		if err != nil {
			return nil, err
		}
		if len(told.Resources[0].ConfigEntries) == 0 {
			return nil, errors.Join(errors.New("no such config"), told.Resources[0].Error)
		}
		return told.Resources[0].ConfigEntries[0].ConfigValue, told.Resources[0].Error
	case "offset_of":
		return offsetOf(ctx, client, q)
	case "groups":
		listed, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
		if err != nil {
			return nil, err
		}
		names := []string{}
		for _, group := range listed.Groups {
			names = append(names, group.GroupID)
		}
		return names, listed.Error
	}
	fetched, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: q.Group, Topics: map[string][]int{q.Topic: {0}}})
	if err != nil {
		return nil, err
	}
	offsets := map[int]int64{}
	for _, partition := range fetched.Topics[q.Topic] {
		offsets[partition.Partition] = partition.CommittedOffset
	}
	return offsets, fetched.Error
}

func offsetOf(ctx context.Context, client *kafka.Client, q *protocol.Question) (any, error) {
	asked := kafka.OffsetRequest{Partition: int(q.Partition), Timestamp: q.At}
	told, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{q.Topic: {asked}}})
	if err != nil {
		return nil, err
	}
	found := told.Topics[q.Topic][0]
	switch q.At {
	case kafka.FirstOffset:
		return found.FirstOffset, found.Error
	case kafka.LastOffset:
		return found.LastOffset, found.Error
	}
	for offset := range found.Offsets {
		return offset, found.Error
	}
	return -1, found.Error
}
