// Idempotent produce in every codec, two kinds of groups, the admin calls and transactions, by
// franz-go.
//
// Usage: franz_go ADDRESS. Prints a line for each thing done; ends with 1 at the first surprise.
// With more arguments: `live`.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "franz"
	partitions = 3
	perCodec   = 100
)

func check(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func expect(what string, found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		check(what, fmt.Errorf("found %v, wanted %v", found, wanted))
	}
}

func produce(ctx context.Context, address string) int {
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for _, codec := range codecs {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic),
			kgo.ProducerBatchCompression(codec),
		)
		check("client", err)
		records := make([]*kgo.Record, perCodec)
		for number := range records {
			text := fmt.Appendf(nil, "value %d value value value", number)
			records[number] = &kgo.Record{Key: fmt.Appendf(nil, "%d", number), Value: text}
		}
		check("produce", client.ProduceSync(ctx, records...).FirstErr())
		client.Close()
	}
	return len(codecs) * perCodec
}

func consume(ctx context.Context, address, group string, count int, options ...kgo.Opt) {
	options = append(
		options, kgo.SeedBrokers(address), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
	)
	client, err := kgo.NewClient(options...)
	check("client", err)
	seen := map[string]bool{}
	for len(seen) < count {
		fetches := client.PollFetches(ctx)
		check("poll", fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			place := fmt.Sprint(record.Partition, ":", record.Offset)
			if seen[place] {
				check(group, fmt.Errorf("%s was read twice", place))
			}
			seen[place] = true
		})
	}
	check("commit", client.CommitUncommittedOffsets(ctx))
	client.Close()
	fmt.Println(group, "read", len(seen))
}

func administer(ctx context.Context, admin *kadm.Client, count int) {
	ends, err := admin.ListEndOffsets(ctx, topic)
	check("end offsets", err)
	total := int64(0)
	ends.Each(func(one kadm.ListedOffset) { total += one.Offset })
	expect("end offsets", total, count)

	lags, err := admin.Lag(ctx, "classic")
	check("lag", err)
	check("lag", lags.Error())
	expect("lag", lags["classic"].Lag.Total(), 0)
	expect("state", lags["classic"].State, "Empty")
	described, err := admin.DescribeConsumerGroups(ctx, "next")
	check("describe next", err)
	expect("state of next", described["next"].State, "Empty")
	committed, err := admin.FetchOffsets(ctx, "next")
	check("offsets of next", err)
	total = 0
	committed.Each(func(one kadm.OffsetResponse) { total += one.At })
	expect("offsets of next", total, count)

	value := "123456"
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, topic)
	check("alter configs", err)
	check("alter configs", altered[0].Err)
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	check("describe configs", err)
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" {
			expect("retention.ms", config.MaybeValue(), value)
		}
	}

	before := kadm.Offsets{}
	before.Add(kadm.Offset{Topic: topic, Partition: 0, At: 5, LeaderEpoch: -1})
	deleted, err := admin.DeleteRecords(ctx, before)
	check("delete records", err)
	check("delete records", deleted.Error())
	starts, err := admin.ListStartOffsets(ctx, topic)
	check("start offsets", err)
	start, _ := starts.Lookup(topic, 0)
	expect("start offset", start.Offset, 5)

	gone, err := admin.DeleteGroups(ctx, "classic", "next")
	check("delete groups", err)
	check("delete groups", gone.Error())
	topics, err := admin.DeleteTopics(ctx, topic)
	check("delete topic", err)
	check("delete topic", topics.Error())
	fmt.Println("administered")
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	if len(os.Args) > 2 {
		live(ctx, os.Args[1:])
		return
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	check("client", err)
	defer client.Close()
	admin := kadm.NewClient(client)
	created, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
	check("create", err)
	check("create", created.Err)

	count := produce(ctx, os.Args[1])
	fmt.Println("produced", count)
	consume(ctx, os.Args[1], "classic", count, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	consume(
		ctx, os.Args[1], "next", count, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()),
	)
	administer(ctx, admin, count)
	transact(ctx, admin, os.Args[1])
}
