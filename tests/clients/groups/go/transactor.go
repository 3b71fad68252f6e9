// A transactional producer, by sarama: member sarama-transactor BOOTSTRAP TOPIC GROUP PARTITIONS. See ../transactor.py.
package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/IBM/sarama"
)

const rounds = 3

func saramaTransactor(_ context.Context, bootstrap []string, topic, group, partitions string) error {
	count, err := strconv.ParseInt(partitions, 10, 32)
	if err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = group
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	if err != nil {
		return err
	}
	for number := range rounds {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		for partition := range int32(count) {
			value := sarama.StringEncoder(fmt.Sprintf("round %d", number))
			if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: value}); err != nil {
				return err
			}
		}
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: int64(number) + 1, LeaderEpoch: -1}}}
		if err := producer.AddOffsetsToTxn(offsets, group); err != nil {
			return err
		}
		end := producer.CommitTxn
		if number == rounds-1 {
			end = producer.AbortTxn
		}
		if err := end(); err != nil {
			return err
		}
	}
	return producer.Close()
}
