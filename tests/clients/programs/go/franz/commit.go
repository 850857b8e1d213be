package main

import (
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
