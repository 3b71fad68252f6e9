"""One member of a group, in Python: member.py CLIENT BOOTSTRAP TOPIC GROUP [instance id].

CLIENT is kafka-python, aiokafka, confluent or confluent-848 (librdkafka, by the classic protocol or by that of KIP-848).
Prints a line of JSON for each assignment and record, and commits what it has read each time; ends, leaving the group, when its
standard input ends.
"""
import asyncio
import json
import sys
import threading

client, bootstrap, topic, group = sys.argv[1:5]
instance = sys.argv[5] if len(sys.argv) > 5 else None
# A static member has the time to start again.
session_ms = 30000 if instance else 6000
ended = threading.Event()


def say(**what):
    print(json.dumps(what), flush=True)


def wait_for_the_end():
    sys.stdin.read()
    ended.set()


def confluent(protocol):
    from confluent_kafka import Consumer
    config = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    if protocol == "consumer":
        config["group.protocol"] = "consumer"
    else:
        config.update({"session.timeout.ms": session_ms, "heartbeat.interval.ms": 300, "partition.assignment.strategy": "cooperative-sticky"})
    if instance:
        config["group.instance.id"] = instance
    consumer = Consumer(config)
    held = set()

    def changed(partitions, into):
        held.update(partitions) if into else held.difference_update(partitions)
        say(assigned=sorted(held))

    consumer.subscribe([topic], on_assign=lambda _, parts: changed({p.partition for p in parts}, True),
                       on_revoke=lambda _, parts: changed({p.partition for p in parts}, False),
                       on_lost=lambda _, parts: changed({p.partition for p in parts}, False))
    while not ended.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            say(read=[message.partition(), message.offset()])
            try:
                consumer.commit(message, asynchronous=False)
            except Exception as error:
                say(error=str(error))
    consumer.close()


def kafka_python():
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            pass

        def on_partitions_assigned(self, assigned):
            say(assigned=sorted(p.partition for p in consumer.assignment()))

    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), group_id=group, group_instance_id=instance, enable_auto_commit=False,
                             auto_offset_reset="earliest", session_timeout_ms=session_ms, heartbeat_interval_ms=300)
    consumer.subscribe([topic], listener=Listener())
    while not ended.is_set():
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                say(read=[record.partition, record.offset])
            try:
                consumer.commit()
            except Exception as error:
                say(error=str(error))
    consumer.close()


async def aiokafka():
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            pass

        async def on_partitions_assigned(self, assigned):
            say(assigned=sorted(p.partition for p in assigned))

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, group_instance_id=instance, enable_auto_commit=False,
                                auto_offset_reset="earliest", session_timeout_ms=session_ms, heartbeat_interval_ms=300)
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not ended.is_set():
        for records in (await consumer.getmany(timeout_ms=100)).values():
            for record in records:
                say(read=[record.partition, record.offset])
            try:
                await consumer.commit()
            except Exception as error:
                say(error=str(error))
    await consumer.stop()


threading.Thread(target=wait_for_the_end, daemon=True).start()
match client:
    case "kafka-python":
        kafka_python()
    case "aiokafka":
        asyncio.run(aiokafka())
    case "confluent":
        confluent("classic")
    case "confluent-848":
        confluent("consumer")
