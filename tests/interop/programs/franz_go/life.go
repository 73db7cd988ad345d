package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// One life of a transactional producer, as `tests/interop/transactional_clients.py` tells it.
//
// Arguments: ADDRESS TOPIC SOURCE GROUP NAME TIMEOUT_MS OVER_MS. Prints the errors of the producer
// that was fenced, and of the one that took too long.
type life struct {
	ctx                                 context.Context
	address, topic, source, group, name string
}

func (l life) start(suffix string, timeout time.Duration) *kgo.Client {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(l.address), kgo.TransactionalID(l.name+suffix),
		kgo.DefaultProduceTopic(l.topic), kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	check("client", err)
	return client
}

func (l life) send(client *kgo.Client, values ...string) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for _, value := range values {
		if err := client.ProduceSync(l.ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// Commit an offset of the source in the open transaction, as no member of the group.
func (l life) sendOffset(client *kgo.Client, offset int64) {
	id, epoch, err := client.ProducerID(l.ctx)
	check("producer id", err)
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = l.source
	topic.Partitions = append(topic.Partitions, partition)
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	request.TransactionalID, request.Group = l.name, l.group
	request.ProducerID, request.ProducerEpoch = id, epoch
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(l.ctx, client)
	check("offsets", err)
	check("offset", kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode))
}

func (l life) commit(client *kgo.Client) error { return client.EndTransaction(l.ctx, kgo.TryCommit) }

func nameOf(err error) string {
	var known *kerr.Error
	switch {
	case err == nil:
		return "committed"
	case errors.As(err, &known):
		return known.Message
	}
	return err.Error()
}

func milliseconds(text string) time.Duration {
	count, err := strconv.Atoi(text)
	check("milliseconds", err)
	return time.Duration(count) * time.Millisecond
}

func live(ctx context.Context, given []string) {
	l := life{ctx, given[0], given[1], given[2], given[3], given[4]}
	timeout, over := milliseconds(given[5]), milliseconds(given[6])
	first := l.start("", time.Minute)
	defer first.Close()
	check("send", l.send(first, "c1", "c2"))
	l.sendOffset(first, 2)
	check("commit", l.commit(first))
	check("send", l.send(first, "a1"))
	l.sendOffset(first, 9)
	check("abort", first.EndTransaction(ctx, kgo.TryAbort))
	check("send", l.send(first, "c3"))
	check("commit", l.commit(first))

	second := l.start("", time.Minute)
	defer second.Close()
	check("send", l.send(second, "c4"))
	fenced := l.send(first, "f1")
	if fenced == nil {
		fenced = l.commit(first)
	}
	fmt.Println(nameOf(fenced))
	check("commit of the second", l.commit(second))

	late := l.start("-late", timeout)
	defer late.Close()
	check("send", l.send(late, "l1"))
	time.Sleep(over)
	fmt.Println(nameOf(l.commit(late)))
	again := l.start("-late", time.Minute)
	defer again.Close()
	check("send", l.send(again, "c5"))
	check("commit", l.commit(again))
}
