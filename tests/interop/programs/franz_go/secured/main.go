// Creates a topic, writes, reads in a group and administers, over each way into a broker.
//
// A line of standard input is a way: name, address, protocol, mechanism, user, secret, authority
// and own certificate with its key (both PEM files), separated by tabs; "-" is none. The secret of
// OAUTHBEARER is the file of a token. Prints "NAME read N" or "NAME failed: " and why.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	count    = 20
	patience = 20 * time.Second
	none     = "-"
)

type way struct {
	name, address, protocol, mechanism, user, secret, authority, own string
}

func parsed(line string) way {
	part := strings.Split(line, "\t")
	return way{part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7]}
}

func (one way) tls() (*tls.Config, error) {
	pem, err := os.ReadFile(one.authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no authority")
	}
	host, _, _ := strings.Cut(one.address, ":")
	config := &tls.Config{RootCAs: roots, ServerName: host}
	if one.own != none {
		own, err := tls.LoadX509KeyPair(one.own, one.own)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func (one way) login() (sasl.Mechanism, error) {
	switch one.mechanism {
	case "PLAIN":
		return plain.Auth{User: one.user, Pass: one.secret}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: one.user, Pass: one.secret}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: one.user, Pass: one.secret}.AsSha512Mechanism(), nil
	}
	token, err := os.ReadFile(one.secret)
	return oauth.Auth{Token: string(token)}.AsMechanism(), err
}

func (one way) options(ctx context.Context) ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(one.address), kgo.WithContext(ctx), kgo.RetryTimeout(5 * time.Second),
		kgo.RequestRetries(1),
	}
	if strings.HasSuffix(one.protocol, "SSL") {
		config, err := one.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if one.mechanism != none {
		login, err := one.login()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(login))
	}
	return options, nil
}

func read(ctx context.Context, topic string, options []kgo.Opt) (int, error) {
	options = append(
		options, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	found := 0
	for found < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return found, err
		}
		found += fetches.NumRecords()
	}
	return found, client.CommitUncommittedOffsets(ctx)
}

func (one way) run() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options, err := one.options(ctx)
	if err != nil {
		return 0, err
	}
	topic := "go-" + one.name
	client, err := kgo.NewClient(append(options, kgo.DefaultProduceTopic(topic))...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if created, err := admin.CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		return 0, err
	} else if created.Err != nil {
		return 0, created.Err
	}
	records := make([]*kgo.Record, count)
	for number := range records {
		records[number] = &kgo.Record{Value: fmt.Appendf(nil, "value %d", number)}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return 0, err
	}
	found, err := read(ctx, topic, options)
	if err != nil {
		return found, err
	}
	committed, err := admin.FetchOffsets(ctx, topic)
	if err != nil {
		return found, err
	}
	if offset, ok := committed.Lookup(topic, 0); !ok || offset.At != count {
		return found, fmt.Errorf("committed: %v", offset.At)
	}
	_, err = admin.DeleteTopics(ctx, topic)
	return found, err
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		one := parsed(lines.Text())
		if found, err := one.run(); err != nil {
			fmt.Printf("%s failed: %s\n", one.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Printf("%s read %d\n", one.name, found)
		}
	}
}
