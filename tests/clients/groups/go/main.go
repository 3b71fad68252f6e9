// One member of a group, in Go: member CLIENT BOOTSTRAP TOPIC GROUP [instance id]. See ../member.py.
//
// CLIENT is franz-go, sarama or kafka-go; or sarama-transactor, which is none (transactor.go).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

var sessionTimeout = 6 * time.Second
var printing sync.Mutex

func say(key string, value any) {
	printing.Lock()
	defer printing.Unlock()
	line, _ := json.Marshal(map[string]any{key: value})
	fmt.Println(string(line))
}

func main() {
	client, bootstrap, topic, group := os.Args[1], strings.Split(os.Args[2], ","), os.Args[3], os.Args[4]
	instance := ""
	if len(os.Args) > 5 {
		// A static member has the time to start again.
		instance, sessionTimeout = os.Args[5], 30*time.Second
	}
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		end()
	}()
	run := map[string]func(context.Context, []string, string, string, string) error{"franz-go": franz, "sarama": saramaMember, "kafka-go": kafkaGo, "sarama-transactor": saramaTransactor}[client]
	if err := run(ctx, bootstrap, topic, group, instance); err != nil {
		say("error", err.Error())
		os.Exit(1)
	}
}

func franz(ctx context.Context, bootstrap []string, topic, group, instance string) error {
	var lock sync.Mutex
	held := map[int32]bool{}
	changed := func(parts []int32, into bool) {
		lock.Lock()
		defer lock.Unlock()
		for _, p := range parts {
			if into {
				held[p] = true
			} else {
				delete(held, p)
			}
		}
		all := []int32{}
		for p := range held {
			all = append(all, p)
		}
		slices.Sort(all)
		say("assigned", all)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(300 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { changed(parts[topic], true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { changed(parts[topic], false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { changed(parts[topic], false) }),
	}
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) { say("read", []int64{int64(r.Partition), r.Offset}) })
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			say("error", err.Error())
		}
	}
	client.Close()
	return nil
}

type handler struct{ topic string }

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	parts := slices.Clone(session.Claims()[h.topic])
	slices.Sort(parts)
	say("assigned", append([]int32{}, parts...))
	return nil
}

func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			say("read", []int64{int64(message.Partition), message.Offset})
			session.MarkMessage(message, "")
			session.Commit()
		case <-session.Context().Done():
			return nil
		}
	}
}

func saramaMember(ctx context.Context, bootstrap []string, topic, group, instance string) error {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = sessionTimeout
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	config.Consumer.Group.InstanceId = instance
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Metadata.Retry.Max = 50
	client, err := sarama.NewConsumerGroup(bootstrap, group, config)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := client.Consume(ctx, []string{topic}, handler{topic}); err != nil && ctx.Err() == nil {
			say("error", err.Error())
			time.Sleep(100 * time.Millisecond)
		}
	}
	return client.Close()
}

// kafka-go does not tell what is assigned: what it reads has to tell.
func kafkaGo(ctx context.Context, bootstrap []string, topic, group, _ string) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: bootstrap, Topic: topic, GroupID: group, StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond,
		SessionTimeout: sessionTimeout, HeartbeatInterval: 300 * time.Millisecond, RebalanceTimeout: 10 * time.Second,
		JoinGroupBackoff: 200 * time.Millisecond, ReadBackoffMax: 200 * time.Millisecond,
	})
	for ctx.Err() == nil {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			continue
		}
		say("read", []int64{int64(message.Partition), message.Offset})
		if err := reader.CommitMessages(context.Background(), message); err != nil {
			say("error", err.Error())
		}
	}
	return reader.Close()
}
