// Command franz gets in with franz-go.
package main

import (
	"context"
	"fmt"

	"brokerlite/clients/ask"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(way ask.Way) sasl.Mechanism {
	password := scram.Auth{User: way.User, Pass: way.Password}
	switch way.Mechanism {
	case "PLAIN":
		return plain.Auth{User: way.User, Pass: way.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return password.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return password.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: way.Token}.AsMechanism()
	}
}

func read(way ask.Way) (string, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(way.Bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{way.Topic: {0: kgo.NewOffset().AtStart()}}),
	}
	if way.IsTLS() {
		config, err := way.TLS()
		if err != nil {
			return "", err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if way.Mechanism != "" {
		options = append(options, kgo.SASL(mechanism(way)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	patience, done := context.WithTimeout(context.Background(), ask.Patience)
	defer done()
	if err := client.Ping(patience); err != nil {
		return "", err
	}
	record := &kgo.Record{Topic: way.Topic, Value: []byte("hello")}
	if err := client.ProduceSync(patience, record).FirstErr(); err != nil {
		return "", err
	}
	fetched := client.PollFetches(patience)
	if err := fetched.Err(); err != nil {
		return "", err
	}
	if fetched.Empty() {
		return "", fmt.Errorf("nothing to read")
	}
	return string(fetched.Records()[0].Value), nil
}

func main() { ask.Answer(read) }
