package main

import (
	"context"
	"errors"
	"strconv"

	"brokerlite/clients/protocol"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// onCommit keeps the first thing that went wrong with a commit.
func onCommit(failure *error) func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {
	return func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, told *kmsg.OffsetCommitResponse, err error) {
		*failure = err
		if told == nil {
			return
		}
		for _, topic := range told.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil && *failure == nil {
					*failure = err
				}
			}
		}
	}
}

// sendOffsets makes a group's offsets part of the transaction. franz-go itself offers that as a GroupTransactSession, where
// consumer and producer are one; here they are two, so the two requests it would send are sent by hand.
func sendOffsets(q *protocol.Question) error {
	ctx, cancel := within()
	defer cancel()
	producer, consumer := producers[q.Producer], members[q.Member].client
	id, epoch, err := producer.ProducerID(ctx)
	if err != nil {
		return told(err)
	}
	transactional, found := producer.OptValue(kgo.TransactionalID).(string)
	if !found {
		return errors.New("the producer has no transactional id")
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = transactional, id, epoch, q.Group
	added, err := add.RequestWith(ctx, producer)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(added.ErrorCode); err != nil {
		return told(err)
	}
	return commitInTransaction(ctx, q, producer, consumer, transactional, id, epoch)
}

func commitInTransaction(
	ctx context.Context, q *protocol.Question, producer, consumer *kgo.Client, transactional string, id int64, epoch int16,
) error {
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = transactional, id, epoch, q.Group
	commit.MemberID, commit.Generation = consumer.GroupMetadata()
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = q.Topic
	for partition, offset := range q.Offsets {
		number, _ := strconv.Atoi(partition)
		place := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		place.Partition, place.Offset = int32(number), offset
		topic.Partitions = append(topic.Partitions, place)
	}
	commit.Topics = append(commit.Topics, topic)
	committed, err := commit.RequestWith(ctx, producer)
	if err != nil {
		return err
	}
	for _, topic := range committed.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return told(err)
			}
		}
	}
	return nil
}
