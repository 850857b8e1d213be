// A member of a group with sarama: BOOTSTRAP GROUP TOPIC.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

type worker struct{}

func (worker) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (worker) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (worker) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			fmt.Println("read", message.Partition, message.Offset)
			session.MarkMessage(message, "")
			session.Commit()
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 3 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	group, err := sarama.NewConsumerGroup([]string{os.Args[1]}, os.Args[2], config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{os.Args[3]}, worker{}); err != nil {
			fmt.Println("refused", err)
		}
	}
	_ = group.Close()
}
