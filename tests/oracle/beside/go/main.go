// franz-go on secured listeners: the logins are JSON on stdin, one a line; the response to each is a line of JSON.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 15 * time.Second

// Login is one user of one listener.
type Login struct {
	Address, Topic, Group, Mechanism, User, Password, Token, CA, Certificate, Key string

	IsWrong bool
}

// Found is what a client got: errors by Kafka's names, or others in words.
type Found struct {
	Produced string   `json:"produced"`
	Read     []string `json:"read"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var login Login
		must(json.Unmarshal(lines.Bytes(), &login))
		must(json.NewEncoder(os.Stdout).Encode(play(login)))
	}
}

func play(login Login) Found {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options := []kgo.Opt{
		kgo.SeedBrokers(login.Address),
		kgo.DefaultProduceTopic(login.Topic),
		kgo.RetryTimeout(patience / 3),
		kgo.RequestRetries(1),
		kgo.RecordRetries(1),
		kgo.DisableIdempotentWrite(),
		kgo.UnknownTopicRetries(1),
	}
	if login.CA != "" {
		options = append(options, kgo.DialTLSConfig(encryption(login)))
	}
	if login.Mechanism != "" {
		options = append(options, kgo.SASL(mechanism(login)))
	}
	producer, err := kgo.NewClient(options...)
	must(err)
	found := Found{Produced: name(producer.ProduceSync(ctx, kgo.StringRecord("go")).FirstErr()), Read: []string{}}
	producer.Close()
	if login.IsWrong {
		return found
	}
	first := map[string]map[int32]kgo.Offset{login.Topic: {0: kgo.NewOffset().AtStart()}}
	for _, how := range []kgo.Opt{kgo.ConsumePartitions(first), kgo.ConsumerGroup(login.Group)} {
		more := append(append([]kgo.Opt{}, options...), how, kgo.FetchMaxWait(time.Second))
		if len(found.Read) > 0 {
			more = append(more, kgo.ConsumeTopics(login.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		}
		found.Read = append(found.Read, first_of(ctx, more))
	}
	return found
}

func first_of(ctx context.Context, options []kgo.Opt) string {
	reader, err := kgo.NewClient(options...)
	must(err)
	defer reader.Close()
	fetches := reader.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return name(err)
	}
	return string(fetches.Records()[0].Value)
}

func encryption(login Login) *tls.Config {
	pem, err := os.ReadFile(login.CA)
	must(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	found := &tls.Config{RootCAs: trusted}
	if login.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(login.Certificate, login.Key)
		must(err)
		found.Certificates = []tls.Certificate{pair}
	}
	return found
}

func mechanism(login Login) sasl.Mechanism {
	switch login.Mechanism {
	case "PLAIN":
		return plain.Auth{User: login.User, Pass: login.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: login.User, Pass: login.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: login.User, Pass: login.Password}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: login.Token}.AsMechanism()
}

func name(err error) string {
	var known *kerr.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &known):
		return known.Message
	case errors.As(err, &certificate):
		return "certificate"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return err.Error()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
