// Command sarama gets in with sarama.
package main

import (
	"fmt"
	"time"

	"brokerlite/clients/ask"
	"brokerlite/clients/scram"

	"github.com/IBM/sarama"
)

type token string

func (one token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(one)}, nil
}

func settings(way ask.Way) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Metadata.Retry.Max = 0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	if way.IsTLS() {
		made, err := way.TLS()
		if err != nil {
			return nil, err
		}
		config.Net.TLS.Enable, config.Net.TLS.Config = true, made
	}
	if way.Mechanism != "" {
		login := &config.Net.SASL
		login.Enable, login.Mechanism = true, sarama.SASLMechanism(way.Mechanism)
		login.User, login.Password, login.Version = way.User, way.Password, sarama.SASLHandshakeV1
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scram.Client{Mechanism: way.Mechanism} }
		login.TokenProvider = token(way.Token)
	}
	return config, nil
}

func read(way ask.Way) (string, error) {
	config, err := settings(way)
	if err != nil {
		return "", err
	}
	client, err := sarama.NewClient([]string{way.Bootstrap}, config)
	if err != nil {
		return "", err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	message := &sarama.ProducerMessage{Topic: way.Topic, Value: sarama.StringEncoder("hello")}
	if _, _, err := producer.SendMessage(message); err != nil {
		return "", err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(way.Topic, 0, sarama.OffsetOldest)
	if err != nil {
		return "", err
	}
	defer partition.Close()
	select {
	case found := <-partition.Messages():
		return string(found.Value), nil
	case <-time.After(ask.Patience):
		return "", fmt.Errorf("nothing to read")
	}
}

func main() { ask.Answer(read) }
