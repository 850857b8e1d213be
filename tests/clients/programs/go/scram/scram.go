// Package scram is RFC 5802 for clients that leave it to their users, with the methods that sarama asks for.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// Client is one log-in; Mechanism says with which hash.
type Client struct {
	Mechanism                              string
	user, password, nonce, first, expected string
	steps                                  int
}

func (s *Client) hash() func() hash.Hash {
	if s.Mechanism == "SCRAM-SHA-256" {
		return sha256.New
	}
	return sha512.New
}

func (s *Client) mac(key []byte, text string) []byte {
	made := hmac.New(s.hash(), key)
	made.Write([]byte(text))
	return made.Sum(nil)
}

func (s *Client) Begin(user, password, _ string) error {
	random := make([]byte, 18)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	s.user, s.password, s.nonce = user, password, base64.StdEncoding.EncodeToString(random)
	return nil
}

func (s *Client) Step(challenge string) (string, error) {
	s.steps++
	switch s.steps {
	case 1:
		s.first = fmt.Sprintf("n=%s,r=%s", s.user, s.nonce)
		return "n,," + s.first, nil
	case 2:
		return s.final(challenge)
	default:
		if challenge != s.expected {
			return "", fmt.Errorf("the server does not know the password: %s", challenge)
		}
		return "", nil
	}
}

func (s *Client) final(challenge string) (string, error) {
	fields := map[byte]string{}
	for _, part := range strings.Split(challenge, ",") {
		fields[part[0]] = part[2:]
	}
	salt, err := base64.StdEncoding.DecodeString(fields['s'])
	if err != nil {
		return "", err
	}
	often, err := strconv.Atoi(fields['i'])
	if err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(s.hash(), s.password, salt, often, s.hash()().Size())
	if err != nil {
		return "", err
	}
	without := "c=biws,r=" + fields['r']
	whole := strings.Join([]string{s.first, challenge, without}, ",")
	key := s.mac(salted, "Client Key")
	stored := s.hash()()
	stored.Write(key)
	for at, byte := range s.mac(stored.Sum(nil), whole) {
		key[at] ^= byte
	}
	s.expected = "v=" + base64.StdEncoding.EncodeToString(s.mac(s.mac(salted, "Server Key"), whole))
	return without + ",p=" + base64.StdEncoding.EncodeToString(key), nil
}

func (s *Client) Done() bool { return s.steps > 2 }
