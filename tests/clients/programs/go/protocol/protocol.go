// Package protocol reads questions from stdin, one JSON object a line, and writes one answer each to stdout.
package protocol

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// ReadTime is how long a read waits for its records before it gives back what it has.
const ReadTime = 20 * time.Second

// ErrNotOffered says that the client has no such function.
var ErrNotOffered = errors.New("not offered")

// ErrFenced says that a younger producer owns the transactional id.
var ErrFenced = errors.New("fenced")

type Record struct {
	Key       *[]byte      `json:"key"`
	Value     *[]byte      `json:"value"`
	Headers   [][2]*string `json:"headers"` // name, value in base64
	Timestamp *int64       `json:"timestamp"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
}

// Door is how to get in, where the listener asks for more than the address.
type Door struct {
	Protocol  string `json:"protocol"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	CA        string `json:"ca"`
}

// TLS is nil for a listener without it.
func (d Door) TLS() *tls.Config {
	if !strings.HasSuffix(d.Protocol, "SSL") {
		return nil
	}
	pem, err := os.ReadFile(d.CA)
	if err != nil {
		panic(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: trusted, ServerName: "localhost"}
}

type Question struct {
	Door            Door              `json:"door"`
	Verb            string            `json:"verb"`
	Bootstrap       string            `json:"bootstrap"`
	Topic           string            `json:"topic"`
	Partition       int32             `json:"partition"`
	Partitions      int32             `json:"partitions"`
	Config          map[string]string `json:"config"`
	Name            string            `json:"name"`
	Value           string            `json:"value"`
	Codec           string            `json:"codec"`
	Acks            int               `json:"acks"`
	Idempotent      bool              `json:"idempotent"`
	Records         []Record          `json:"records"`
	Offset          *int64            `json:"offset"`
	Timestamp       *int64            `json:"timestamp"`
	Count           int               `json:"count"`
	Committed       bool              `json:"committed"`
	At              int64             `json:"at"`
	Member          string            `json:"member"`
	Group           string            `json:"group"`
	Protocol        string            `json:"protocol"`
	Offsets         map[string]int64  `json:"offsets"`
	Producer        string            `json:"producer"`
	TransactionalID string            `json:"transactional_id"`
	Commit          bool              `json:"commit"`
}

// Take waits for that many records, and gives back what it has when the time to read is over.
func Take(from <-chan Record, count int) []Record {
	records, over := []Record{}, time.After(ReadTime)
	for len(records) < count {
		select {
		case record := <-from:
			records = append(records, record)
		case <-over:
			return records
		}
	}
	return records
}

// Bytes gives back what a record field holds; nil stays nil, empty stays empty.
func Bytes(field *[]byte) []byte {
	if field == nil {
		return nil
	}
	if *field == nil {
		return []byte{}
	}
	return *field
}

// Field is the reverse of Bytes.
func Field(data []byte) *[]byte {
	if data == nil {
		return nil
	}
	return &data
}

// Serve answers until stdin ends.
func Serve(answer func(*Question) (any, error)) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(in)
	for {
		var q Question
		if err := decoder.Decode(&q); err != nil {
			return
		}
		result, err := guarded(answer, &q)
		switch {
		case err == nil:
			_ = out.Encode(map[string]any{"ok": result})
		case errors.Is(err, ErrNotOffered):
			_ = out.Encode(map[string]any{"error": q.Verb, "not_offered": true})
		case errors.Is(err, ErrFenced):
			_ = out.Encode(map[string]any{"error": err.Error(), "fenced": true})
		default:
			_ = out.Encode(map[string]any{"error": err.Error()})
		}
	}
}

func guarded(answer func(*Question) (any, error), q *Question) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return answer(q)
}
