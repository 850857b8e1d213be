// A member of a group with franz-go: BOOTSTRAP GROUP TOPIC.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]), kgo.ConsumerGroup(os.Args[2]), kgo.ConsumeTopics(os.Args[3]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for ctx.Err() == nil {
		poll, done := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := client.PollRecords(poll, 50)
		done()
		read := fetches.Records()
		for _, r := range read {
			fmt.Println("read", r.Partition, r.Offset)
		}
		if len(read) > 0 {
			if err := client.CommitRecords(context.Background(), read...); err != nil {
				fmt.Println("refused", err)
			}
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}
