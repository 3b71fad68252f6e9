// Transactions of franz-go (version 2, KIP-890): committed, aborted, and a loop that consumes, transforms and produces.
package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Reads committed records until there are count, and a moment longer; their values, sorted.
func (s *session) committed(ctx context.Context, topic string, count int) ([]string, error) {
	found, err := s.read(ctx, topic, count, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond))
	values := []string{}
	for _, records := range found {
		for _, r := range records {
			values = append(values, string(r.Value))
		}
	}
	slices.Sort(values)
	return values, err
}

func transactionsCommitAndAbort(ctx context.Context, s *session) error {
	topic, err := s.create(ctx, unique("go"), partitions, nil)
	if err != nil {
		return err
	}
	client, err := s.client(kgo.TransactionalID(unique("go")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	want := []string{}
	for number := range 9 {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		for i := range 10 {
			value := fmt.Sprintf("%d-%d", number, i)
			client.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: []byte(value)}, nil)
			if number%3 != 1 {
				want = append(want, value)
			}
		}
		if err := client.Flush(ctx); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(number%3 != 1)); err != nil {
			return err
		}
	}
	slices.Sort(want)
	got, err := s.committed(ctx, topic, len(want))
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("read_committed sees %v, want %v", got, want)
	}
	return nil
}

func consumeTransformProduce(ctx context.Context, s *session) error {
	const count = 120
	source, err := s.create(ctx, unique("go"), partitions, nil)
	if err != nil {
		return err
	}
	target, err := s.create(ctx, unique("go"), partitions, nil)
	if err != nil {
		return err
	}
	records, want := []*kgo.Record{}, []string{}
	for i := range count {
		records = append(records, &kgo.Record{Topic: source, Partition: int32(i) % partitions, Value: []byte(strconv.Itoa(i))})
		want = append(want, strconv.Itoa(i))
	}
	if err := s.produce(ctx, records); err != nil {
		return err
	}
	group := unique("go")
	loop, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(s.seeds...), kgo.TransactionalID(unique("go")), kgo.ConsumerGroup(group), kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.FetchMaxWait(50*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer loop.Close()
	for done, rounds := 0, 0; done < count; {
		fetches := loop.PollRecords(ctx, 25)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d of %d: %w", done, count, err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		rounds++
		if err := loop.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) { loop.Produce(ctx, &kgo.Record{Topic: target, Value: r.Value}, nil) })
		committed, err := loop.End(ctx, kgo.TransactionEndTry(rounds%3 != 2))
		if err != nil {
			return err
		}
		if committed {
			done += fetches.NumRecords()
		}
	}
	slices.Sort(want)
	got, err := s.committed(ctx, target, count)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the copy is %v", got)
	}
	offsets, err := s.admin.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, offset := range offsets.Offsets().Sorted() {
		total += offset.At
	}
	if total != count {
		return fmt.Errorf("the group has committed %d of %d", total, count)
	}
	return nil
}
