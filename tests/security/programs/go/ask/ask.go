// Package ask is how the tests talk to a client: one JSON line says where and as whom, one JSON line says how it went.
package ask

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Patience is how long one question may take.
const Patience = 15 * time.Second

// Way is how to get in.
type Way struct {
	Bootstrap, Protocol, Mechanism, User, Password, Token, Topic string
	CA, Cert, Key                                                string
}

func (way Way) IsTLS() bool { return strings.HasSuffix(way.Protocol, "SSL") }

// TLS trusts our CA, and shows a certificate if there is one.
func (way Way) TLS() (*tls.Config, error) {
	pem, err := os.ReadFile(way.CA)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: trusted, ServerName: "localhost"}
	if way.Cert != "" {
		own, err := tls.LoadX509KeyPair(way.Cert, way.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Answer reads ways until there are no more, and writes what `read` gives for each: the value that was written and read.
func Answer(read func(Way) (string, error)) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var way Way
		told := map[string]string{}
		err := json.Unmarshal(lines.Bytes(), &way)
		if err == nil {
			told["ok"], err = read(way)
		}
		if err != nil {
			told = map[string]string{"error": err.Error()}
		}
		line, _ := json.Marshal(told)
		fmt.Println(string(line))
	}
}
