// segmentio/kafka-go, asked by the scenarios of the client matrix.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"sync"
	"time"

	"brokerlite/clients/protocol"

	"github.com/segmentio/kafka-go"
)

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func main() { protocol.Serve(answer) }

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), protocol.ReadTime)
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
		return nil, members[q.Member].commit(q)
	case "leave":
		return nil, leave(q.Member)
	}
	return administer(q)
}

func outgoing(q *protocol.Question) []kafka.Message {
	messages := make([]kafka.Message, 0, len(q.Records))
	for _, r := range q.Records {
		message := kafka.Message{Key: protocol.Bytes(r.Key), Value: protocol.Bytes(r.Value)}
		for _, h := range r.Headers {
			value, _ := base64.StdEncoding.DecodeString(*h[1])
			message.Headers = append(message.Headers, kafka.Header{Key: *h[0], Value: value})
		}
		if r.Timestamp != nil {
			message.Time = time.UnixMilli(*r.Timestamp)
		}
		messages = append(messages, message)
	}
	return messages
}

func incoming(m kafka.Message) protocol.Record {
	stamp := m.Time.UnixMilli()
	record := protocol.Record{Key: protocol.Field(m.Key), Value: protocol.Field(m.Value), Timestamp: &stamp,
		Partition: int32(m.Partition), Offset: m.Offset}
	for _, h := range m.Headers {
		name, value := h.Key, base64.StdEncoding.EncodeToString(h.Value)
		record.Headers = append(record.Headers, [2]*string{&name, &value})
	}
	return record
}

func produce(q *protocol.Question) (any, error) {
	if q.Idempotent {
		return nil, protocol.ErrNotOffered
	}
	offsets, mu := []int64{}, sync.Mutex{}
	transport := &kafka.Transport{TLS: q.Door.TLS(), SASL: login(q)}
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr: kafka.TCP(q.Bootstrap), Topic: q.Topic, AllowAutoTopicCreation: true, Transport: transport,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return int(q.Partition) }),
		RequiredAcks: kafka.RequiredAcks(q.Acks), Compression: codecs[q.Codec], BatchTimeout: 20 * time.Millisecond,
		Completion: func(messages []kafka.Message, err error) {
			mu.Lock()
			defer mu.Unlock()
			for _, message := range messages {
				if err == nil && q.Acks != 0 {
					offsets = append(offsets, message.Offset)
				}
			}
		},
	}
	ctx, cancel := within()
	defer cancel()
	err := errors.Join(patiently(ctx, writer, outgoing(q)), writer.Close())
	mu.Lock()
	defer mu.Unlock()
	return offsets, err
}

// patiently writes again while the topic is only being made: the writer itself gives up, and its manual says to do this.
func patiently(ctx context.Context, writer *kafka.Writer, messages []kafka.Message) error {
	for {
		err := writer.WriteMessages(ctx, messages...)
		early := errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, kafka.LeaderNotAvailable)
		if !early || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func reader(q *protocol.Question, partition int, isolation kafka.IsolationLevel) *kafka.Reader {
	dialer := &kafka.Dialer{Timeout: 10 * time.Second, DualStack: true, TLS: q.Door.TLS(), SASLMechanism: login(q)}
	return kafka.NewReader(kafka.ReaderConfig{Brokers: []string{q.Bootstrap}, Topic: q.Topic, Partition: partition, MinBytes: 1, Dialer: dialer,
		MaxBytes: 10_000_000, MaxWait: 100 * time.Millisecond, ReadBackoffMin: 20 * time.Millisecond, IsolationLevel: isolation})
}

func read(q *protocol.Question) (any, error) {
	isolation := kafka.ReadUncommitted
	if q.Committed {
		isolation = kafka.ReadCommitted
	}
	ctx, cancel := within()
	defer cancel()
	source := reader(q, int(q.Partition), isolation)
	defer source.Close()
	var err error
	if q.Timestamp != nil {
		err = source.SetOffsetAt(ctx, time.UnixMilli(*q.Timestamp))
	} else {
		err = source.SetOffset(*q.Offset)
	}
	records := []protocol.Record{}
	for err == nil && len(records) < q.Count {
		var message kafka.Message
		if message, err = source.ReadMessage(ctx); err == nil {
			records = append(records, incoming(message))
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return records, err
}
