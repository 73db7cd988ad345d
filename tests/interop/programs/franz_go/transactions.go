package main

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	sink   = "franz-sink"
	copies = "franz-copies"
)

func producerOf(address, id string, timeout time.Duration) *kgo.Client {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.TransactionalID(id), kgo.DefaultProduceTopic(sink),
		kgo.TransactionTimeout(timeout),
	)
	check("transactional client", err)
	return client
}

func write(ctx context.Context, client *kgo.Client, value string, end kgo.TransactionEndTry) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, end)
}

func readCommitted(ctx context.Context, address, topic string, count int) []string {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check("reader", err)
	defer client.Close()
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		check("poll", fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			values = append(values, string(record.Value))
		})
	}
	sort.Strings(values)
	return values
}

// Copy what is committed, with the offsets of its group in the same transaction.
func copyAll(ctx context.Context, address string, count int) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(address), kgo.TransactionalID("franz-copier"),
		kgo.ConsumerGroup("franz-copiers"), kgo.ConsumeTopics(sink),
		kgo.DefaultProduceTopic(copies), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check("session", err)
	defer session.Close()
	for copied := 0; copied < count; {
		fetches := session.PollFetches(ctx)
		check("poll of session", fetches.Err())
		check("begin of session", session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, kgo.SliceRecord(record.Value), func(_ *kgo.Record, err error) {
				check("produce of session", err)
			})
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		check("end of session", err)
		if committed {
			copied += fetches.NumRecords()
		}
	}
}

// A transaction that takes too long is not committed; a new instance of its producer goes on.
func takeTooLong(ctx context.Context, address string) {
	const timeout = time.Second
	late := producerOf(address, "franz-late", timeout)
	defer late.Close()
	check("begin late", late.BeginTransaction())
	check("send late", late.ProduceSync(ctx, kgo.StringRecord("too late")).FirstErr())
	time.Sleep(3 * timeout)
	if late.EndTransaction(ctx, kgo.TryCommit) == nil {
		check("timeout", fmt.Errorf("the late transaction was committed"))
	}
	again := producerOf(address, "franz-late", time.Minute)
	defer again.Close()
	check("commit after late", write(ctx, again, "after the timeout", kgo.TryCommit))
}

// Commits, aborts, fences, times out and copies in transactions.
func transact(ctx context.Context, admin *kadm.Client, address string) {
	created, err := admin.CreateTopics(ctx, 1, 1, nil, sink, copies)
	check("create", err)
	check("create", created.Error())
	first := producerOf(address, "franz", time.Minute)
	defer first.Close()
	check("commit", write(ctx, first, "committed", kgo.TryCommit))
	check("abort", write(ctx, first, "aborted", kgo.TryAbort))
	check("commit", write(ctx, first, "committed too", kgo.TryCommit))
	second := producerOf(address, "franz", time.Minute)
	defer second.Close()
	check("commit of the second", write(ctx, second, "the second's", kgo.TryCommit))
	if write(ctx, first, "fenced", kgo.TryCommit) == nil {
		check("fencing", fmt.Errorf("the first instance went on"))
	}
	takeTooLong(ctx, address)
	wanted := []string{"after the timeout", "committed", "committed too", "the second's"}
	expect("committed", readCommitted(ctx, address, sink, len(wanted)), wanted)
	copyAll(ctx, address, len(wanted))
	expect("copied", readCommitted(ctx, address, copies, len(wanted)), wanted)
	offsets, err := admin.FetchOffsets(ctx, "franz-copiers")
	check("offsets of copiers", err)
	ends, err := admin.ListCommittedOffsets(ctx, sink)
	check("end of sink", err)
	at, _ := offsets.Lookup(sink, 0)
	end, _ := ends.Lookup(sink, 0)
	if at.At > end.Offset || at.At < int64(len(wanted)) {
		check("offsets of copiers", fmt.Errorf("found %d, the end is %d", at.At, end.Offset))
	}
	fmt.Println("transacted")
}
