// franz-go, asked by the scenarios of the client matrix.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"brokerlite/clients/protocol"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type member struct {
	client *kgo.Client
	cancel context.CancelFunc
	mu     sync.Mutex
	owned  map[int32]bool
	early  []protocol.Record
}

var (
	members   = map[string]*member{}
	producers = map[string]*kgo.Client{}
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func main() { protocol.Serve(answer) }

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), protocol.ReadTime)
}

func told(err error) error {
	if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
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
		return take(members[q.Member], q.Count, protocol.ReadTime)
	case "assigned":
		return assigned(members[q.Member])
	case "commit":
		return nil, commit(q)
	case "leave":
		m := members[q.Member]
		delete(members, q.Member)
		m.client.Close()
		m.cancel()
		return nil, nil
	case "open_producer", "begin", "send", "end", "close_producer":
		return nil, transact(q)
	case "send_offsets":
		return nil, sendOffsets(q)
	}
	return administer(q)
}

func outgoing(q *protocol.Question) []*kgo.Record {
	records := make([]*kgo.Record, 0, len(q.Records))
	for _, r := range q.Records {
		record := &kgo.Record{Topic: q.Topic, Partition: q.Partition, Key: protocol.Bytes(r.Key), Value: protocol.Bytes(r.Value)}
		for _, h := range r.Headers {
			value, _ := base64.StdEncoding.DecodeString(*h[1])
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: *h[0], Value: value})
		}
		if r.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*r.Timestamp)
		}
		records = append(records, record)
	}
	return records
}

func incoming(r *kgo.Record) protocol.Record {
	stamp := r.Timestamp.UnixMilli()
	record := protocol.Record{Key: protocol.Field(r.Key), Value: protocol.Field(r.Value), Timestamp: &stamp,
		Partition: r.Partition, Offset: r.Offset}
	for _, h := range r.Headers {
		name, value := h.Key, base64.StdEncoding.EncodeToString(h.Value)
		record.Headers = append(record.Headers, [2]*string{&name, &value})
	}
	return record
}

func connect(q *protocol.Question, options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(q.Bootstrap))
	if config := q.Door.TLS(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch q.Door.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: q.Door.User, Pass: q.Door.Password}.AsMechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: q.Door.User, Pass: q.Door.Password}.AsSha512Mechanism()))
	}
	return kgo.NewClient(options...)
}

func produce(q *protocol.Question) (any, error) {
	acks := map[int]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}[q.Acks]
	options := []kgo.Opt{
		kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codecs[q.Codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchMaxBytes(1_048_576),
		kgo.ProducerLinger(20 * time.Millisecond), // no delivery timeout: franz-go counts it from the record's own time
	}
	if !q.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := connect(q, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := within()
	defer cancel()
	results := client.ProduceSync(ctx, outgoing(q)...)
	if err := results.FirstErr(); err != nil {
		return nil, err
	}
	offsets := []int64{}
	for _, result := range results {
		if q.Acks != 0 {
			offsets = append(offsets, result.Record.Offset)
		}
	}
	return offsets, nil
}

func read(q *protocol.Question) (any, error) {
	start := kgo.NewOffset()
	if q.Timestamp != nil {
		start = start.AfterMilli(*q.Timestamp)
	} else {
		start = start.At(*q.Offset)
	}
	isolation := kgo.ReadUncommitted()
	if q.Committed {
		isolation = kgo.ReadCommitted()
	}
	client, err := connect(q, kgo.FetchIsolationLevel(isolation), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{q.Topic: {q.Partition: start}}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return take(&member{client: client}, q.Count, protocol.ReadTime)
}

func take(m *member, count int, patience time.Duration) ([]protocol.Record, error) {
	m.mu.Lock()
	records := m.early
	m.early = nil
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(records) < count {
		fetches := m.client.PollRecords(ctx, count-len(records))
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, incoming(r)) })
	}
	return records, nil
}

func join(q *protocol.Question) error {
	m := &member{owned: map[int32]bool{}}
	note := func(own bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, partition := range given[q.Topic] {
				if own {
					m.owned[partition] = true
				} else {
					delete(m.owned, partition)
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if q.Protocol == "consumer" {
		ctx = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)
	}
	client, err := connect(q, kgo.WithContext(ctx), kgo.ConsumerGroup(q.Group), kgo.ConsumeTopics(q.Topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.SessionTimeout(10*time.Second),
		kgo.OnPartitionsAssigned(note(true)), kgo.OnPartitionsRevoked(note(false)), kgo.OnPartitionsLost(note(false)))
	if err != nil {
		cancel()
		return err
	}
	m.client, m.cancel = client, cancel
	members[q.Member] = m
	return nil
}

func assigned(m *member) (any, error) {
	early, err := take(m, 1000, 100*time.Millisecond)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.early = early
	owned := []int32{}
	for partition := range m.owned {
		owned = append(owned, partition)
	}
	return owned, nil
}

func commit(q *protocol.Question) error {
	offsets := map[int32]kgo.EpochOffset{}
	for partition, offset := range q.Offsets {
		number, _ := strconv.Atoi(partition)
		offsets[int32(number)] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	ctx, cancel := within()
	defer cancel()
	admin := members[q.Member].client
	var failure error
	admin.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{q.Topic: offsets}, onCommit(&failure))
	return failure
}

func transact(q *protocol.Question) error {
	ctx, cancel := within()
	defer cancel()
	switch q.Verb {
	case "open_producer":
		client, err := connect(q, kgo.TransactionalID(q.TransactionalID),
			kgo.TransactionTimeout(30*time.Second), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			return err
		}
		producers[q.Producer] = client
		_, _, err = client.ProducerID(ctx) // the epoch is taken now, not with the first record
		return told(err)
	case "begin":
		return told(producers[q.Producer].BeginTransaction())
	case "send":
		return told(producers[q.Producer].ProduceSync(ctx, outgoing(q)...).FirstErr())
	case "end":
		return told(producers[q.Producer].EndTransaction(ctx, kgo.TransactionEndTry(q.Commit)))
	}
	producers[q.Producer].Close()
	delete(producers, q.Producer)
	return nil
}

func administer(q *protocol.Question) (any, error) {
	client, err := connect(q)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx, cancel := within()
	defer cancel()
	switch q.Verb {
	case "create_topic":
		config := map[string]*string{}
		for name, value := range q.Config {
			config[name] = &value
		}
		made, err := admin.CreateTopic(ctx, q.Partitions, 1, config, q.Topic)
		return nil, errors.Join(err, made.Err)
	case "delete_topic":
		gone, err := admin.DeleteTopics(ctx, q.Topic)
		return nil, errors.Join(err, gone[q.Topic].Err)
	case "list_topics":
		topics, err := admin.ListTopics(ctx)
		return topics.Names(), err
	case "partitions_of":
		topics, err := admin.ListTopics(ctx, q.Topic)
		return len(topics[q.Topic].Partitions), err
	case "grow_topic":
		grown, err := admin.UpdatePartitions(ctx, int(q.Partitions), q.Topic)
		return nil, errors.Join(err, grown[q.Topic].Err)
	case "set_config":
		told, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: q.Name, Value: &q.Value}}, q.Topic)
		if err == nil {
			err = told[0].Err
		}
		return nil, err
	case "get_config":
		told, err := admin.DescribeTopicConfigs(ctx, q.Topic)
		if err != nil {
			return nil, err
		}
		for _, config := range told[0].Configs {
			if config.Key == q.Name {
				return config.MaybeValue(), nil
			}
		}
		return nil, errors.New("no such config")
	case "offset_of":
		return lookUp(ctx, admin, q)
	case "groups":
		listed, err := admin.ListGroups(ctx)
		return listed.Groups(), err
	case "committed":
		fetched, err := admin.FetchOffsets(ctx, q.Group)
		offsets := map[int32]int64{}
		fetched.Offsets().Each(func(o kadm.Offset) {
			if o.Topic == q.Topic {
				offsets[o.Partition] = o.At
			}
		})
		return offsets, err
	case "delete_group":
		gone, err := admin.DeleteGroups(ctx, q.Group)
		return nil, errors.Join(err, gone[q.Group].Err)
	}
	return nil, protocol.ErrNotOffered
}

func lookUp(ctx context.Context, admin *kadm.Client, q *protocol.Question) (any, error) {
	var listed kadm.ListedOffsets
	var err error
	switch q.At {
	case -2:
		listed, err = admin.ListStartOffsets(ctx, q.Topic)
	case -1:
		listed, err = admin.ListEndOffsets(ctx, q.Topic)
	default:
		listed, err = admin.ListOffsetsAfterMilli(ctx, q.At, q.Topic)
	}
	found, _ := listed.Lookup(q.Topic, q.Partition)
	return found.Offset, errors.Join(err, found.Err)
}
