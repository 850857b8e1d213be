package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"brokerlite/clients/protocol"

	"github.com/segmentio/kafka-go"
)

// member follows its group from generation to generation and reads what each of them gives it.
type member struct {
	group      *kafka.ConsumerGroup
	records    chan protocol.Record
	mu         sync.Mutex
	generation *kafka.Generation
	owned      []int
}

var members = map[string]*member{}

func join(q *protocol.Question) error {
	if q.Protocol == "consumer" {
		return protocol.ErrNotOffered
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: q.Group, Brokers: []string{q.Bootstrap},
		Topics: []string{q.Topic}, StartOffset: kafka.FirstOffset, HeartbeatInterval: 500 * time.Millisecond,
		SessionTimeout: 10 * time.Second, RebalanceTimeout: 10 * time.Second, JoinGroupBackoff: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	m := &member{group: group, records: make(chan protocol.Record, 1000)}
	members[q.Member] = m
	go m.follow(q.Bootstrap, q.Topic)
	return nil
}

func (m *member) follow(bootstrap, topic string) {
	for {
		generation, err := m.group.Next(context.Background())
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err != nil {
			continue // it has waited already, JoinGroupBackoff long
		}
		m.mu.Lock()
		m.generation, m.owned = generation, nil
		for _, given := range generation.Assignments[topic] {
			m.owned = append(m.owned, given.ID)
			generation.Start(func(ctx context.Context) { m.drain(ctx, bootstrap, topic, given) })
		}
		m.mu.Unlock()
	}
}

// drain reads a partition until its generation ends.
func (m *member) drain(ctx context.Context, bootstrap, topic string, given kafka.PartitionAssignment) {
	source := reader(&protocol.Question{Bootstrap: bootstrap, Topic: topic}, given.ID, kafka.ReadUncommitted)
	defer source.Close()
	if source.SetOffset(given.Offset) != nil {
		return
	}
	for {
		message, err := source.ReadMessage(ctx)
		if err != nil {
			return
		}
		m.records <- incoming(message)
	}
}

func (m *member) assigned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int{}, m.owned...)
}

func (m *member) commit(q *protocol.Question) error {
	offsets := map[int]int64{}
	for partition, offset := range q.Offsets {
		number, _ := strconv.Atoi(partition)
		offsets[number] = offset
	}
	m.mu.Lock()
	generation := m.generation
	m.mu.Unlock()
	return generation.CommitOffsets(map[string]map[int]int64{q.Topic: offsets})
}

func leave(name string) error {
	m := members[name]
	delete(members, name)
	return m.group.Close()
}
