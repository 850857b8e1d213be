package main

import (
	"context"

	"brokerlite/clients/protocol"
	"brokerlite/clients/scram"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
)

// login is nil where nobody asks who we are.
func login(q *protocol.Question) sasl.Mechanism {
	switch q.Door.Mechanism {
	case "":
		return nil
	case "PLAIN":
		return plain.Mechanism{Username: q.Door.User, Password: q.Door.Password}
	}
	return salted{q.Door}
}

// salted logs in with SCRAM: kafka-go's own needs a module that nobody else here does.
type salted struct{ door protocol.Door }

type session struct{ client *scram.Client }

func (s salted) Name() string { return s.door.Mechanism }

func (s salted) Start(context.Context) (sasl.StateMachine, []byte, error) {
	client := &scram.Client{Mechanism: s.door.Mechanism}
	if err := client.Begin(s.door.User, s.door.Password, ""); err != nil {
		return nil, nil, err
	}
	first, err := client.Step("")
	return session{client}, []byte(first), err
}

func (s session) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	answer, err := s.client.Step(string(challenge))
	return s.client.Done(), []byte(answer), err
}
