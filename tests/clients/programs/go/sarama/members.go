package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"brokerlite/clients/protocol"

	"github.com/IBM/sarama"
)

// member is a consumer group handler: sarama calls Setup, then ConsumeClaim for each partition, then Cleanup, each generation.
type member struct {
	group   sarama.ConsumerGroup
	cancel  context.CancelFunc
	done    chan struct{}
	records chan protocol.Record
	mu      sync.Mutex
	session sarama.ConsumerGroupSession
	owned   []int32
	topic   string
}

var members = map[string]*member{}

func numbered(offsets map[string]int64) map[int32]int64 {
	numbers := map[int32]int64{}
	for partition, offset := range offsets {
		number, _ := strconv.Atoi(partition)
		numbers[int32(number)] = offset
	}
	return numbers
}

func join(q *protocol.Question) error {
	if q.Protocol == "consumer" {
		return protocol.ErrNotOffered
	}
	group, err := sarama.NewConsumerGroup([]string{q.Bootstrap}, q.Group, settings(q))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: group, cancel: cancel, done: make(chan struct{}), records: make(chan protocol.Record, 1000), topic: q.Topic}
	members[q.Member] = m
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{q.Topic}, m); err != nil && ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return nil
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.owned = session, session.Claims()[m.topic]
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = nil
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.records <- incoming(message)
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) assigned() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int32{}, m.owned...)
}

func (m *member) commit(topic string, offsets map[string]int64) error {
	m.mu.Lock()
	session := m.session
	m.mu.Unlock()
	for partition, offset := range numbered(offsets) {
		session.MarkOffset(topic, partition, offset, "")
	}
	session.Commit()
	return nil
}

func leave(name string) error {
	m := members[name]
	delete(members, name)
	m.cancel()
	<-m.done
	return m.group.Close()
}
