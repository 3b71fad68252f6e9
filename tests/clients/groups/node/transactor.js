// A transactional producer, by kafkajs: transactor.js BOOTSTRAP TOPIC GROUP PARTITIONS. See ../transactor.py.
const { Kafka, logLevel } = require("kafkajs");
const [bootstrap, topic, group, partitions] = process.argv.slice(2);
const ROUNDS = 3;

async function main() {
  const kafka = new Kafka({ clientId: "transactor", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, retries: 20 } });
  const producer = kafka.producer({ transactionalId: group, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  for (let number = 0; number < ROUNDS; number++) {
    const transaction = await producer.transaction();
    const messages = Array.from({ length: Number(partitions) }, (_, partition) => ({ partition, value: `round ${number}` }));
    await transaction.send({ topic, messages });
    await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions: [{ partition: 0, offset: String(number + 1) }] }] });
    await (number < ROUNDS - 1 ? transaction.commit() : transaction.abort());
  }
  await producer.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
