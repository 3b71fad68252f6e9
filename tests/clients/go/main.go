// The franz-go suite: creates, writes with every codec, reads back and compares byte by byte.
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A testCase fails by returning an error.
type testCase struct {
	name string
	run  func(ctx context.Context, s *session) error
}

// A session is what the cases share: the server's addresses, an admin client, one topic.
type session struct {
	seeds []string
	admin *kadm.Client
	topic string
}

const partitions = 6

// An hour ago: older than the producer, younger than any retention.
var timestamp = time.Now().Add(-time.Hour).Truncate(time.Millisecond)

func unique(prefix string) string {
	return fmt.Sprintf("%s-%x-%x", prefix, os.Getpid(), time.Now().UnixNano())
}

func (s *session) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.seeds...), kgo.MetadataMinAge(50 * time.Millisecond)}, options...)...)
}

func (s *session) create(ctx context.Context, topic string, count int32, configs map[string]*string) (string, error) {
	reply, err := s.admin.CreateTopic(ctx, count, 1, configs, topic)
	if err == nil {
		err = reply.Err
	}
	if err != nil {
		return topic, err
	}
	// Kafka answers a moment before the partitions can be written, and acks=0 would lose what is sent then.
	for ctx.Err() == nil {
		if ends, err := s.admin.ListEndOffsets(ctx, topic); err == nil && ends.Error() == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return topic, ctx.Err()
}

// Sends the records in order and waits for all; the offsets of each partition must follow one another.
func (s *session) produce(ctx context.Context, records []*kgo.Record, options ...kgo.Opt) error {
	client, err := s.client(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5 * time.Millisecond)}, options...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, records...).FirstErr()
}

// Reads count records of the topic's partitions from the start.
func (s *session) read(ctx context.Context, topic string, count int, options ...kgo.Opt) (map[int32][]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	from := map[int32]kgo.Offset{}
	for p := int32(0); p < partitions; p++ {
		from[p] = kgo.NewOffset().AtStart()
	}
	client, err := s.client(append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})}, options...)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found, total := map[int32][]*kgo.Record{}, 0
	for total < count {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records read: %w", total, count, err)
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			found[r.Partition] = append(found[r.Partition], r)
			total++
		})
	}
	if total != count {
		return nil, fmt.Errorf("%d records read, want %d", total, count)
	}
	return found, nil
}

// Compares what was read with what was written, record by record.
func compare(found map[int32][]*kgo.Record, want []*kgo.Record) error {
	next := map[int32]int{}
	for i, w := range want {
		at := next[w.Partition]
		if at >= len(found[w.Partition]) {
			return fmt.Errorf("partition %d ends after %d records", w.Partition, at)
		}
		got := found[w.Partition][at]
		next[w.Partition]++
		if got.Offset != int64(at) {
			return fmt.Errorf("record %d has offset %d, want %d", i, got.Offset, at)
		}
		if !same(got.Key, w.Key) || !same(got.Value, w.Value) {
			return fmt.Errorf("record %d: key %.40q value %.40q, want %.40q %.40q", i, got.Key, got.Value, w.Key, w.Value)
		}
		if got.Timestamp.UnixMilli() != w.Timestamp.UnixMilli() {
			return fmt.Errorf("record %d: timestamp %v, want %v", i, got.Timestamp, w.Timestamp)
		}
		if len(got.Headers) != len(w.Headers) {
			return fmt.Errorf("record %d: headers %v, want %v", i, got.Headers, w.Headers)
		}
		for h := range w.Headers {
			if got.Headers[h].Key != w.Headers[h].Key || !same(got.Headers[h].Value, w.Headers[h].Value) {
				return fmt.Errorf("record %d: headers %v, want %v", i, got.Headers, w.Headers)
			}
		}
	}
	return nil
}

// Null and empty are different values.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }

func main() {
	bootstrap := os.Getenv("BOOTSTRAP")
	if len(os.Args) > 1 {
		bootstrap = os.Args[1]
	}
	if bootstrap == "" {
		fmt.Fprintln(os.Stderr, "usage: suite HOST:PORT[,HOST:PORT] [pattern of case names ...]")
		os.Exit(2)
	}
	s := &session{seeds: strings.Split(bootstrap, ","), topic: unique("go")}
	client, err := s.client()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	s.admin = kadm.NewClient(client)
	passed, failed := 0, 0
	for _, c := range cases() {
		if !chosen(c.name) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		if err := c.run(ctx, s); err != nil {
			failed++
			fmt.Printf("FAIL %s %s\n", c.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			passed++
			fmt.Printf("ok %s\n", c.name)
		}
		cancel()
	}
	client.Close()
	fmt.Printf("franz-go: %d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

func chosen(name string) bool {
	if len(os.Args) < 3 {
		return true
	}
	for _, pattern := range os.Args[2:] {
		if regexp.MustCompile(pattern).MatchString(name) {
			return true
		}
	}
	return false
}

// expectedBrokers is how many brokers the caller says there are, or 0.
func expectedBrokers() int {
	count, _ := strconv.Atoi(os.Getenv("EXPECT_BROKERS"))
	return count
}
