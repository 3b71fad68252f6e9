// One member of a group, by kafkajs: member.js BOOTSTRAP TOPIC GROUP. See ../member.py.
const { Kafka, logLevel } = require("kafkajs");
const [bootstrap, topic, groupId] = process.argv.slice(2);
const say = (what) => console.log(JSON.stringify(what));

async function main() {
  const kafka = new Kafka({ clientId: "member", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, retries: 20 } });
  const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, rebalanceTimeout: 10000, heartbeatInterval: 300, maxWaitTimeInMs: 100, metadataMaxAge: 1000 });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say({ assigned: (payload.memberAssignment[topic] || []).sort((a, b) => a - b) }));
  process.stdin.resume();
  process.stdin.on("end", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) => say({ read: [partition, Number(message.offset)] }),
  });
}

main().catch((error) => {
  say({ error: String(error) });
  process.exit(1);
});
