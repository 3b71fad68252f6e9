"""A transactional producer, in Python: transactor.py CLIENT BOOTSTRAP TOPIC GROUP PARTITIONS. CLIENT is kafka-python or aiokafka.

Three transactions, each with a record for each partition and an offset of the group; the third is aborted. All transactors here
do the same: `cases.py` says what must be there afterwards.
"""
import asyncio
import sys

client, bootstrap, topic, group = sys.argv[1:5]
partitions = int(sys.argv[5])
ROUNDS = 3


def kafka_python():
    from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=group)
    producer.init_transactions()
    for number in range(ROUNDS):
        producer.begin_transaction()
        for partition in range(partitions):
            producer.send(topic, b"round %d" % number, partition=partition)
        producer.flush()
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(number + 1, "", -1)}, group)
        producer.commit_transaction() if number < ROUNDS - 1 else producer.abort_transaction()
    producer.close()


async def aiokafka():
    from aiokafka import AIOKafkaProducer, TopicPartition
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=group)
    await producer.start()
    for number in range(ROUNDS):
        await producer.begin_transaction()
        for partition in range(partitions):
            await producer.send_and_wait(topic, b"round %d" % number, partition=partition)
        await producer.send_offsets_to_transaction({TopicPartition(topic, 0): number + 1}, group)
        await (producer.commit_transaction() if number < ROUNDS - 1 else producer.abort_transaction())
    await producer.stop()


kafka_python() if client == "kafka-python" else asyncio.run(aiokafka())
