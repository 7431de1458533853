// franz-go: read, work and write in transactions. Its argument is bootstrap.servers.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 1_000

func main() {
	ctx := context.Background()
	cluster := kgo.SeedBrokers(strings.Split(os.Args[1], ",")...)
	produce(ctx, cluster)
	square(ctx, cluster)
	check(ctx, cluster)
}

func produce(ctx context.Context, cluster kgo.Opt) {
	producer, err := kgo.NewClient(cluster, kgo.DefaultProduceTopic("go-numbers"), kgo.AllowAutoTopicCreation())
	must(err)
	defer producer.Close()
	for number := 0; number < count; number++ {
		producer.Produce(ctx, kgo.StringRecord(strconv.Itoa(number)), func(_ *kgo.Record, err error) { must(err) })
	}
	must(producer.Flush(ctx))
}

func square(ctx context.Context, cluster kgo.Opt) {
	session, err := kgo.NewGroupTransactSession(
		cluster,
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumerGroup("go-squares"),
		kgo.ConsumeTopics("go-numbers"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DefaultProduceTopic("go-results"),
		kgo.TransactionalID("go-squares-1"),
		kgo.RequireStableFetchOffsets(),
	)
	must(err)
	defer session.Close()
	for done := 0; done < count; {
		records := fetched(session.PollFetches(ctx))
		must(session.Begin())
		for _, record := range records {
			number, err := strconv.Atoi(string(record.Value))
			must(err)
			square := kgo.StringRecord(strconv.Itoa(number * number))
			session.Produce(ctx, square, func(_ *kgo.Record, err error) { must(err) })
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		must(err)
		if committed { // else the group moved meanwhile: the records come again
			done += len(records)
		}
	}
}

func check(ctx context.Context, cluster kgo.Opt) {
	checker, err := kgo.NewClient(
		cluster,
		kgo.ConsumeTopics("go-results"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	must(err)
	defer checker.Close()
	found, sum := 0, 0
	for found < count {
		for _, record := range fetched(checker.PollFetches(ctx)) {
			number, err := strconv.Atoi(string(record.Value))
			must(err)
			found, sum = found+1, sum+number
		}
	}
	fmt.Printf("franz-go: %d squares, sum %d\n", found, sum)
}

func fetched(fetches kgo.Fetches) []*kgo.Record {
	must(fetches.Err())
	return fetches.Records()
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
