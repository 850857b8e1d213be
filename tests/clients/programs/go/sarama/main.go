// sarama, asked by the scenarios of the client matrix.
package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"brokerlite/clients/protocol"
	"brokerlite/clients/scram"

	"github.com/IBM/sarama"
)

var producers = map[string]sarama.SyncProducer{}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func main() {
	sarama.Logger = log.New(io.Discard, "", 0)
	protocol.Serve(answer)
}

func settings(q *protocol.Question) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	if made := q.Door.TLS(); made != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, made
	}
	if q.Door.Mechanism != "" {
		login := &config.Net.SASL
		login.Enable, login.Mechanism = true, sarama.SASLMechanism(q.Door.Mechanism)
		login.User, login.Password, login.Version = q.Door.User, q.Door.Password, sarama.SASLHandshakeV1
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scram.Client{Mechanism: q.Door.Mechanism} }
	}
	return config
}

func told(err error) error {
	if errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch) ||
		errors.Is(err, sarama.ErrFencedInstancedId) {
		return fmt.Errorf("%w: %v", protocol.ErrFenced, err)
	}
	return err
}

func answer(q *protocol.Question) (any, error) {
	switch q.Verb {
	case "produce":
		return produce(q)
	case "read":
		return read(q)
	case "join":
		return nil, join(q)
	case "take":
		return protocol.Take(members[q.Member].records, q.Count), nil
	case "assigned":
		return members[q.Member].assigned(), nil
	case "commit":
		return nil, members[q.Member].commit(q.Topic, q.Offsets)
	case "leave":
		return nil, leave(q.Member)
	case "open_producer", "begin", "send", "send_offsets", "end", "close_producer":
		return nil, transact(q)
	}
	return administer(q)
}

func outgoing(q *protocol.Question) []*sarama.ProducerMessage {
	messages := make([]*sarama.ProducerMessage, 0, len(q.Records))
	for _, r := range q.Records {
		message := &sarama.ProducerMessage{Topic: q.Topic, Partition: q.Partition}
		if r.Key != nil {
			message.Key = sarama.ByteEncoder(protocol.Bytes(r.Key))
		}
		if r.Value != nil {
			message.Value = sarama.ByteEncoder(protocol.Bytes(r.Value))
		}
		for _, h := range r.Headers {
			value, _ := base64.StdEncoding.DecodeString(*h[1])
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(*h[0]), Value: value})
		}
		if r.Timestamp != nil {
			message.Timestamp = time.UnixMilli(*r.Timestamp)
		}
		messages = append(messages, message)
	}
	return messages
}

func incoming(m *sarama.ConsumerMessage) protocol.Record {
	stamp := m.Timestamp.UnixMilli()
	record := protocol.Record{Key: protocol.Field(m.Key), Value: protocol.Field(m.Value), Timestamp: &stamp,
		Partition: m.Partition, Offset: m.Offset}
	for _, h := range m.Headers {
		name, value := string(h.Key), base64.StdEncoding.EncodeToString(h.Value)
		record.Headers = append(record.Headers, [2]*string{&name, &value})
	}
	return record
}

func write(producer sarama.SyncProducer, q *protocol.Question) ([]int64, error) {
	messages := outgoing(q)
	if err := producer.SendMessages(messages); err != nil {
		var several sarama.ProducerErrors
		if errors.As(err, &several) && len(several) > 0 {
			return nil, told(several[0].Err)
		}
		return nil, told(err)
	}
	offsets := []int64{}
	for _, message := range messages {
		offsets = append(offsets, message.Offset)
	}
	return offsets, nil
}

func produce(q *protocol.Question) (any, error) {
	config := settings(q)
	config.Producer.RequiredAcks = sarama.RequiredAcks(q.Acks)
	config.Producer.Compression = codecs[q.Codec]
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	config.Producer.Idempotent = q.Idempotent
	if q.Idempotent {
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{q.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	offsets, err := write(producer, q)
	if q.Acks == 0 {
		offsets = nil
	}
	return offsets, err
}

func read(q *protocol.Question) (any, error) {
	config := settings(q)
	if q.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client, err := sarama.NewClient([]string{q.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var start int64
	if q.Timestamp != nil {
		if start, err = client.GetOffset(q.Topic, q.Partition, *q.Timestamp); err != nil {
			return nil, err
		}
	} else {
		start = *q.Offset
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(q.Topic, q.Partition, start)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	records, over := []protocol.Record{}, time.After(protocol.ReadTime)
	for len(records) < q.Count {
		select {
		case message := <-partition.Messages():
			records = append(records, incoming(message))
		case <-over:
			return records, nil
		}
	}
	return records, nil
}

func transact(q *protocol.Question) error {
	if q.Verb == "open_producer" {
		config := settings(q)
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Producer.Idempotent = true
		config.Producer.Transaction.ID = q.TransactionalID
		config.Producer.Transaction.Timeout = 30 * time.Second
		config.Net.MaxOpenRequests = 1
		producer, err := sarama.NewSyncProducer([]string{q.Bootstrap}, config)
		if err == nil {
			producers[q.Producer] = producer
		}
		return told(err)
	}
	producer := producers[q.Producer]
	switch q.Verb {
	case "begin":
		return told(producer.BeginTxn())
	case "send":
		_, err := write(producer, q)
		return err
	case "send_offsets":
		places := []*sarama.PartitionOffsetMetadata{}
		for partition, offset := range numbered(q.Offsets) {
			places = append(places, &sarama.PartitionOffsetMetadata{Partition: partition, Offset: offset})
		}
		return told(producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{q.Topic: places}, q.Group))
	case "end":
		if q.Commit {
			return told(producer.CommitTxn())
		}
		return told(producer.AbortTxn())
	}
	delete(producers, q.Producer)
	_ = producer.Close() // a fenced producer says so once more when it is closed
	return nil
}

func administer(q *protocol.Question) (any, error) {
	client, err := sarama.NewClient([]string{q.Bootstrap}, settings(q))
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	switch q.Verb {
	case "create_topic":
		detail := &sarama.TopicDetail{NumPartitions: q.Partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
		for name, value := range q.Config {
			detail.ConfigEntries[name] = &value
		}
		return nil, admin.CreateTopic(q.Topic, detail, false)
	case "delete_topic":
		return nil, admin.DeleteTopic(q.Topic)
	case "list_topics":
		if err := client.RefreshMetadata(); err != nil {
			return nil, err
		}
		return client.Topics()
	case "partitions_of":
		described, err := admin.DescribeTopics([]string{q.Topic})
		if err != nil {
			return nil, err
		}
		return len(described[0].Partitions), nil
	case "grow_topic":
		return nil, admin.CreatePartitions(q.Topic, q.Partitions, nil, false)
	case "set_config":
		entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &q.Value}
		return nil, admin.IncrementalAlterConfig(sarama.TopicResource, q.Topic, map[string]sarama.IncrementalAlterConfigsEntry{q.Name: entry}, false)
	case "get_config":
		told, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: q.Topic, ConfigNames: []string{q.Name}})
		if err != nil {
			return nil, err
		}
		return told[0].Value, nil
	case "offset_of":
		return client.GetOffset(q.Topic, q.Partition, q.At)
	case "groups":
		listed, err := admin.ListConsumerGroups()
		names := []string{}
		for name := range listed {
			names = append(names, name)
		}
		return names, err
	case "committed":
		fetched, err := admin.ListConsumerGroupOffsets(q.Group, nil)
		if err != nil {
			return nil, err
		}
		offsets := map[int32]int64{}
		for partition, block := range fetched.Blocks[q.Topic] {
			offsets[partition] = block.Offset
		}
		return offsets, nil
	case "delete_group":
		return nil, admin.DeleteConsumerGroup(q.Group)
	}
	return nil, protocol.ErrNotOffered
}
