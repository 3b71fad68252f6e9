// The cases of the franz-go suite, in the order in which they run.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func cases() []testCase {
	list := []testCase{
		{"create-topic", func(ctx context.Context, s *session) error {
			_, err := s.create(ctx, s.topic, partitions, nil)
			return err
		}},
		{"metadata-describes-partitions", describesPartitions},
	}
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		list = append(list, testCase{"produce-" + name + "-reads-back", roundTrip(sample, kgo.ProducerBatchCompression(codecs[name]))})
	}
	notIdempotent := kgo.DisableIdempotentWrite()
	return append(list,
		testCase{"acks-0", roundTrip(sample, kgo.RequiredAcks(kgo.NoAck()), notIdempotent)},
		testCase{"acks-1", roundTrip(sample, kgo.RequiredAcks(kgo.LeaderAck()), notIdempotent)},
		testCase{"acks-all", roundTrip(sample, kgo.RequiredAcks(kgo.AllISRAcks()), notIdempotent)},
		testCase{"idempotent-many-batches-in-flight", roundTrip(func() []*kgo.Record { return small(5000) },
			kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(2000), kgo.ProducerBatchCompression(kgo.NoCompression()))},
		testCase{"large-record-900-kb", roundTrip(large, kgo.ProducerBatchCompression(kgo.NoCompression()))},
		testCase{"large-record-small-fetch-limits", smallLimits},
		testCase{"many-small-records", roundTrip(func() []*kgo.Record { return small(30000) })},
		testCase{"offsets-beginning-end-and-seek", offsets},
		testCase{"long-poll-wakes-on-produce", longPoll},
		testCase{"describe-configs", describeConfigs},
		testCase{"error-unknown-topic", unknownTopic},
		testCase{"error-topic-exists", func(ctx context.Context, s *session) error {
			_, err := s.create(ctx, s.topic, 1, nil)
			return wants(err, kerr.TopicAlreadyExists)
		}},
		testCase{"error-invalid-topic-name", func(ctx context.Context, s *session) error {
			_, err := s.create(ctx, "a b", 1, nil)
			return wants(err, kerr.InvalidTopicException)
		}},
		testCase{"error-unknown-config", func(ctx context.Context, s *session) error {
			_, err := s.create(ctx, unique("go"), 1, map[string]*string{"no.such.config": text("1")})
			return wants(err, kerr.InvalidConfig)
		}},
		testCase{"error-replication-factor", func(ctx context.Context, s *session) error {
			reply, err := s.admin.CreateTopic(ctx, 1, 3, nil, unique("go"))
			if err == nil {
				err = reply.Err
			}
			return wants(err, kerr.InvalidReplicationFactor)
		}},
		testCase{"error-record-too-large", tooLarge},
		testCase{"recreated-topic-has-a-new-id", recreated},
		testCase{"transactions-commit-and-abort", transactionsCommitAndAbort},
		testCase{"consume-transform-produce-exactly-once", consumeTransformProduce},
		testCase{"delete-topic", deleteTopic},
	)
}

func text(s string) *string { return &s }

func wants(err error, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("got %v, want %v", err, want)
}

// sample has records of every shape: null and empty keys and values, repeated headers, all bytes.
func sample() []*kgo.Record {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	random := make([]byte, 3000)
	rand.Read(random)
	keys := [][]byte{nil, {}, []byte("key"), every}
	values := [][]byte{[]byte("value"), nil, {}, random, bytes.Repeat([]byte("a"), 5000)}
	headers := [][]kgo.RecordHeader{nil, {{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte("2")}, {Key: "h"}}, {{Key: "", Value: []byte{}}, {Key: "ключ", Value: every}}}
	var records []*kgo.Record
	for i := 0; i < 120; i++ {
		records = append(records, &kgo.Record{Partition: int32(i % partitions), Key: keys[i%4], Value: values[i%5], Headers: headers[i%3],
			Timestamp: timestamp.Add(time.Duration(i) * time.Millisecond)})
	}
	return records
}

func small(count int) []*kgo.Record {
	var records []*kgo.Record
	for i := 0; i < count; i++ {
		records = append(records, &kgo.Record{Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d", i), Timestamp: timestamp})
	}
	return records
}

func large() []*kgo.Record {
	var records []*kgo.Record
	for i := 0; i < 3; i++ {
		value := make([]byte, 900_000)
		rand.Read(value)
		records = append(records, &kgo.Record{Partition: int32(i), Value: value, Timestamp: timestamp})
	}
	return records
}

func roundTrip(make func() []*kgo.Record, options ...kgo.Opt) func(context.Context, *session) error {
	return func(ctx context.Context, s *session) error {
		_, err := s.roundTrip(ctx, make(), options...)
		return err
	}
}

func (s *session) roundTrip(ctx context.Context, records []*kgo.Record, options ...kgo.Opt) (string, error) {
	topic, err := s.create(ctx, unique("go"), partitions, nil)
	if err != nil {
		return topic, err
	}
	for _, r := range records {
		r.Topic = topic
	}
	if err := s.produce(ctx, records, options...); err != nil {
		return topic, fmt.Errorf("produce: %w", err)
	}
	found, err := s.read(ctx, topic, len(records))
	if err != nil {
		return topic, fmt.Errorf("read: %w", err)
	}
	return topic, compare(found, records)
}

// smallLimits: a fetch whose limits are below the first batch brings it whole all the same.
func smallLimits(ctx context.Context, s *session) error {
	records := large()
	topic, err := s.roundTrip(ctx, records, kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	found, err := s.read(ctx, topic, len(records), kgo.FetchMaxBytes(1000), kgo.FetchMaxPartitionBytes(1000))
	if err != nil {
		return err
	}
	return compare(found, records)
}

func describesPartitions(ctx context.Context, s *session) error {
	found, err := s.admin.Metadata(ctx, s.topic)
	if err != nil {
		return err
	}
	topic := found.Topics[s.topic]
	if topic.Err != nil || len(topic.Partitions) != partitions {
		return fmt.Errorf("topic: %v, %d partitions", topic.Err, len(topic.Partitions))
	}
	leaders := map[int32]bool{}
	for _, p := range topic.Partitions {
		if !slices.Equal(p.Replicas, []int32{p.Leader}) || !slices.Equal(p.ISR, p.Replicas) || p.LeaderEpoch < 0 {
			return fmt.Errorf("partition %+v", p)
		}
		leaders[p.Leader] = true
	}
	if !slices.Contains(found.Brokers.NodeIDs(), found.Controller) {
		return fmt.Errorf("controller %d is not among %v", found.Controller, found.Brokers.NodeIDs())
	}
	if want := expectedBrokers(); want > 0 && (len(found.Brokers) != want || len(leaders) != want) {
		return fmt.Errorf("%d brokers, %d of them lead partitions, want %d", len(found.Brokers), len(leaders), want)
	}
	return nil
}

func offsets(ctx context.Context, s *session) error {
	records := small(60)
	topic, err := s.roundTrip(ctx, records)
	if err != nil {
		return err
	}
	start, err := s.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return err
	}
	end, err := s.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	for p := int32(0); p < partitions; p++ {
		if start[topic][p].Offset != 0 || start[topic][p].Err != nil || end[topic][p].Offset != 10 || end[topic][p].Err != nil {
			return fmt.Errorf("partition %d: start %+v, end %+v, want 0 and 10", p, start[topic][p], end[topic][p])
		}
	}
	client, err := s.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {1: kgo.NewOffset().At(7)}}))
	if err != nil {
		return err
	}
	defer client.Close()
	var got []string
	for len(got) < 3 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, fmt.Sprintf("%d=%s", r.Offset, r.Value)) })
	}
	if want := []string{"7=43", "8=49", "9=55"}; !slices.Equal(got, want) {
		return fmt.Errorf("from offset 7: %v, want %v", got, want)
	}
	return nil
}

func longPoll(ctx context.Context, s *session) error {
	topic, err := s.create(ctx, unique("go"), partitions, nil)
	if err != nil {
		return err
	}
	client, err := s.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}), kgo.FetchMaxWait(10*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	var sent time.Time
	failed := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() {
		sent = time.Now()
		failed <- s.produce(ctx, []*kgo.Record{{Topic: topic, Partition: 0, Value: []byte("wake")}})
	})
	count := 0
	for count == 0 && ctx.Err() == nil {
		count = client.PollFetches(ctx).NumRecords()
	}
	if err := <-failed; err != nil {
		return err
	}
	if woken := time.Since(sent); count != 1 || woken > 3*time.Second {
		return fmt.Errorf("%d records %v after the send, the wait is 10 s", count, woken)
	}
	return nil
}

func describeConfigs(ctx context.Context, s *session) error {
	topic, err := s.create(ctx, unique("go"), 1, map[string]*string{"retention.ms": text("7200000")})
	if err != nil {
		return err
	}
	found, err := s.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	values := map[string]string{}
	for _, c := range found[0].Configs {
		values[c.Key] = c.MaybeValue()
	}
	if found[0].Err != nil || values["retention.ms"] != "7200000" || values["cleanup.policy"] != "delete" {
		return fmt.Errorf("%v: %v", found[0].Err, values)
	}
	return nil
}

func unknownTopic(ctx context.Context, s *session) error {
	reply, err := s.admin.DeleteTopics(ctx, "no-such-topic-"+unique("go"))
	if err != nil {
		return err
	}
	for _, one := range reply {
		if err := wants(one.Err, kerr.UnknownTopicOrPartition); err != nil {
			return err
		}
	}
	return wants(s.produce(ctx, []*kgo.Record{{Topic: unique("missing"), Value: []byte("x")}}, kgo.UnknownTopicRetries(1)), kerr.UnknownTopicOrPartition)
}

func tooLarge(ctx context.Context, s *session) error {
	topic, err := s.create(ctx, unique("go"), 1, map[string]*string{"max.message.bytes": text("1000")})
	if err != nil {
		return err
	}
	big := &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("x"), 2000)}
	return wants(s.produce(ctx, []*kgo.Record{big}, kgo.ProducerBatchCompression(kgo.NoCompression())), kerr.MessageTooLarge)
}

func recreated(ctx context.Context, s *session) error {
	name := unique("go")
	if _, err := s.roundTripNamed(ctx, name); err != nil {
		return err
	}
	before, err := s.admin.ListTopics(ctx, name)
	if err != nil {
		return err
	}
	if _, err := s.admin.DeleteTopics(ctx, name); err != nil {
		return err
	}
	if _, err := s.roundTripNamed(ctx, name); err != nil {
		return fmt.Errorf("made again: %w", err)
	}
	// The client may answer out of metadata that it has kept from the call before: all this takes less than its least age.
	limit := time.Now().Add(10 * time.Second)
	for {
		after, err := s.admin.ListTopics(ctx, name)
		if err != nil || before[name].ID != after[name].ID {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("the topic made again has the old id %v", before[name].ID)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// roundTripNamed creates the topic (again, while an old one is going away), writes and reads: offsets begin at 0.
func (s *session) roundTripNamed(ctx context.Context, name string) (string, error) {
	_, err := s.create(ctx, name, partitions, nil)
	for errors.Is(err, kerr.TopicAlreadyExists) && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		_, err = s.create(ctx, name, partitions, nil)
	}
	if err != nil {
		return name, err
	}
	records := small(12)
	for _, r := range records {
		r.Topic = name
	}
	if err := s.produce(ctx, records); err != nil {
		return name, err
	}
	found, err := s.read(ctx, name, len(records))
	if err != nil {
		return name, err
	}
	return name, compare(found, records)
}

func deleteTopic(ctx context.Context, s *session) error {
	if reply, err := s.admin.DeleteTopics(ctx, s.topic); err != nil || reply[s.topic].Err != nil {
		return fmt.Errorf("%v %v", err, reply[s.topic].Err)
	}
	for {
		found, err := s.admin.ListTopics(ctx)
		if err != nil || !found.Has(s.topic) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
