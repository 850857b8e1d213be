// sarama as a client of an old broker: produce or read, one JSON line a record.
//
//	produce BOOTSTRAP VERSION TOPIC COUNT CODEC
//	read    BOOTSTRAP VERSION TOPIC COUNT -
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

type told struct {
	Offset    int64  `json:"offset"`
	Key       string `json:"key"`
	Value     string `json:"value"`
	Timestamp int64  `json:"timestamp"`
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4,
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	verb, bootstrap, topic := os.Args[1], os.Args[2], os.Args[4]
	config := sarama.NewConfig()
	version, err := sarama.ParseKafkaVersion(os.Args[3])
	check(err)
	config.Version = version
	config.ApiVersionsRequest = false
	config.Consumer.Fetch.Default = 256
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	count, err := strconv.Atoi(os.Args[5])
	check(err)
	if verb == "produce" {
		config.Producer.Compression = codecs[os.Args[6]]
		produce(bootstrap, topic, count, os.Args[6], config)
	} else {
		read(bootstrap, topic, count, config)
	}
}

func produce(bootstrap, topic string, count int, codec string, config *sarama.Config) {
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	check(err)
	messages := make([]*sarama.ProducerMessage, count)
	for at := range messages {
		messages[at] = &sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder(fmt.Sprintf("key-%d", at)),
			Value: sarama.StringEncoder(fmt.Sprintf("%s-%d", codec, at)),
		}
	}
	check(producer.SendMessages(messages))
	for _, message := range messages {
		print(told{Offset: message.Offset})
	}
	check(producer.Close())
}

func read(bootstrap, topic string, count int, config *sarama.Config) {
	consumer, err := sarama.NewConsumer([]string{bootstrap}, config)
	check(err)
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	check(err)
	late := time.After(25 * time.Second)
	for range count {
		select {
		case message := <-partition.Messages():
			stamp := int64(-1)
			if !message.Timestamp.IsZero() {
				stamp = message.Timestamp.UnixMilli()
			}
			print(told{message.Offset, string(message.Key), string(message.Value), stamp})
		case <-late:
			check(fmt.Errorf("too late"))
		}
	}
}

func print(one told) {
	line, err := json.Marshal(one)
	check(err)
	fmt.Println(string(line))
}
