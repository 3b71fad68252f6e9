//! What clients do to the server: make and delete topics, produce, read along, and check all at the end.

use std::collections::BTreeMap;
use std::rc::Rc;

use alluvium::ring::io::Io;
use alluvium::ring::sim::random::Random;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::uuid::Uuid;

use crate::client::{CallError, Connection, Fetched, TopicView};
use crate::ledger::{Ledger, TopicState, count};
use crate::member;
use crate::oracle::Contents;
use crate::producer::{self, ProducerKind};
use crate::server::{Server, core_of};
use crate::transactor;

/// What every client has: its core, what it promises to remember, and randomness of its own.
pub(crate) struct Client {
    pub(crate) io: Io,
    pub(crate) ledger: Rc<Ledger>,
    pub(crate) random: Random,
    pub(crate) options: WorkloadOptions,
}

/// How the topics of a run are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkloadOptions {
    /// `alluvium.durability`.
    pub(crate) durability: &'static str,
    pub(crate) topic_count: usize,
    /// Batches of one producer.
    pub(crate) batches_max: u32,
    /// Brokers that clients see.
    pub(crate) broker_count: usize,
    /// Whether there is a tier: most topics are then in it.
    pub(crate) is_tiered: bool,
}

impl Client {
    fn fork(&self) -> Self {
        Self { io: self.io.clone(), ledger: self.ledger.clone(), random: self.random.fork(), options: self.options }
    }

    /// A pause between `low` and `high` microseconds.
    pub(crate) async fn pause_us(&self, low: u64, high: u64) {
        let until_ns = self.io.now().0 + self.random.between(low, high) * 1_000;
        self.io.sleep_until(alluvium::ring::timer::Nanos(until_ns)).await;
    }

    pub(crate) async fn connect_to_any(&self) -> Result<Connection, CallError> {
        Connection::open(&self.io, Server::address(self.random.index(self.options.broker_count))).await
    }

    /// A connection to the leader of a partition, as some core's Metadata has it.
    pub(crate) async fn connect_to_leader(&self, topic: Uuid, partition: i32) -> Result<Connection, CallError> {
        let topics = self.metadata().await?;
        let leader = topics.values().find(|view| view.id == topic).and_then(|view| view.leaders.get(&partition));
        let core = leader.and_then(|(leader, _)| core_of(*leader)).ok_or(CallError::Lost)?;
        Connection::open(&self.io, Server::address(core)).await
    }

    pub(crate) async fn metadata(&self) -> Result<BTreeMap<String, TopicView>, CallError> {
        let deleted = self.ledger.deleted();
        let topics = self.connect_to_any().await?.metadata().await.inspect_err(|error| self.judge(error))?;
        self.ledger.saw_topics(&deleted, &topics);
        Ok(topics)
    }

    /// An answer that is none is a bug, whatever the world does.
    pub(crate) fn judge(&self, error: &CallError) {
        if let CallError::Nonsense(what) = error {
            self.ledger.violate(format!("an answer makes no sense: {what}"));
        }
    }
}

/// Starts the clients of a run.
pub(crate) fn start(client: Client) {
    for number in 0..client.options.topic_count {
        spawn(&client, move |client| administer(client, format!("topic-{number}")));
    }
    for number in 0..client.random.below(3) {
        spawn(&client, move |client| member::run(client, format!("group-{number}")));
    }
    for number in 0..client.random.below(3) {
        spawn(&client, move |client| transactor::run(client, format!("transactor-{number}")));
    }
}

fn spawn<F>(client: &Client, run: impl FnOnce(Client) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let (fork, ledger) = (client.fork(), client.ledger.clone());
    ledger.client_began();
    client.io.spawn(async move {
        run(fork).await;
        ledger.client_ended();
    });
}

/// Makes one topic, lets clients use it, perhaps deletes it, and makes it again.
async fn administer(client: Client, name: String) {
    client.ledger.set_topic(&name, TopicState::Absent);
    // Up to where deletes were asked for, by partition.
    let mut deletes: BTreeMap<i32, i64> = BTreeMap::new();
    client.pause_us(0, 60_000).await;
    while !client.ledger.is_over() && !client.ledger.is_violated() {
        let partition_count = client.random.between(1, 3) as i32;
        let (kept, retention_bytes) = RETENTION[client.random.index(RETENTION.len())];
        let Some(id) = create(&client, &name, partition_count, retention_bytes).await else { return };
        // A request of an earlier topic of this name may come so late that it meets this one.
        for partition in 0..partition_count {
            let asked = deletes.get(&partition).copied().unwrap_or(0);
            client.ledger.may_delete(id, partition, if kept { asked } else { i64::MAX });
        }
        for partition in 0..partition_count {
            for _ in 0..client.random.between(1, 2) {
                let kind = ProducerKind::draw(&client.random);
                spawn(&client, move |client| producer::run(client, id, partition, kind));
            }
            spawn(&client, move |client| follow(client, id, partition));
        }
        for _ in 0..client.random.below(6) {
            client.pause_us(1_000, 100_000).await;
            let partition = client.random.below(partition_count as u64) as i32;
            delete_records(&client, &name, id, partition, &mut deletes).await;
        }
        if client.random.below(3) == 0 {
            // Kept to the end.
            return;
        }
        client.pause_us(5_000, 400_000).await;
        if client.ledger.is_over() || !delete(&client, &name, id).await {
            return;
        }
    }
}

/// Makes a topic; `None` where the run ends before it is known to be there.
async fn create(client: &Client, name: &str, partition_count: i32, retention_bytes: &str) -> Option<Uuid> {
    let pick = |values: &[&str]| values[client.random.index(values.len())].to_owned();
    let mut configs = vec![
        ("alluvium.durability".to_owned(), client.options.durability.to_owned()),
        // A segment is full when its index is: after one, two or eight entries, or never.
        ("segment.index.bytes".to_owned(), pick(&["8", "16", "64", "10485760"])),
        ("index.interval.bytes".to_owned(), pick(&["0", "100", "4096"])),
        ("file.delete.delay.ms".to_owned(), pick(&["0", "50", "60000"])),
        ("retention.bytes".to_owned(), retention_bytes.to_owned()),
    ];
    if client.options.is_tiered && client.random.below(4) > 0 {
        configs.push(("remote.storage.enable".to_owned(), "true".to_owned()));
        configs.push(("local.retention.bytes".to_owned(), pick(&["0", "0", "-2"])));
    }
    loop {
        if client.ledger.is_violated()
            || (client.ledger.is_over() && client.ledger.topic(name) != Some(TopicState::Unknown))
        {
            return None;
        }
        let answer = async {
            let mut connection = client.connect_to_any().await?;
            client.ledger.set_topic(name, TopicState::Unknown);
            connection.create_topic(name, partition_count, &configs).await
        };
        match answer.await {
            Ok(id) => {
                client.ledger.set_topic(name, TopicState::Exists(id));
                client.ledger.set_partition_count(id, partition_count);
                count(&client.ledger.counts.topics_created);
                return Some(id);
            }
            Err(CallError::Refused(code)) if code == ErrorCode::TopicAlreadyExists.code() => {
                // An earlier attempt of ours came through.
                if let Ok(topics) = client.metadata().await
                    && let Some(view) = topics.get(name)
                {
                    client.ledger.set_topic(name, TopicState::Exists(view.id));
                    client.ledger.set_partition_count(view.id, partition_count);
                    return Some(view.id);
                }
            }
            Err(error) => client.judge(&error),
        }
        client.pause_us(1_000, 50_000).await;
    }
}

/// Deletes some records of a partition, or all: what was acknowledged does not come back.
async fn delete_records(client: &Client, name: &str, id: Uuid, partition: i32, deletes: &mut BTreeMap<i32, i64>) {
    let offset = if client.random.below(5) == 0 { -1 } else { client.random.between(0, 60) as i64 };
    let up_to = if offset == -1 { i64::MAX } else { offset };
    let asked = deletes.entry(partition).or_insert(0);
    *asked = up_to.max(*asked);
    client.ledger.may_delete(id, partition, up_to);
    let answer = async { client.connect_to_leader(id, partition).await?.delete_records(name, partition, offset).await };
    match answer.await {
        Ok(log_start) => client.ledger.deleted_records(id, partition, log_start),
        Err(error) => client.judge(&error),
    }
}

/// Deletes a topic; false where the run ends before it is known to be gone.
async fn delete(client: &Client, name: &str, id: Uuid) -> bool {
    client.ledger.set_topic(name, TopicState::Deleting(id));
    loop {
        if client.ledger.is_violated() {
            return false;
        }
        let answer = async { client.connect_to_any().await?.delete_topic(id).await };
        match answer.await {
            Err(CallError::Refused(code)) if code != ErrorCode::UnknownTopicId.code() => {}
            Ok(()) | Err(CallError::Refused(_)) => {
                client.ledger.set_topic(name, TopicState::Absent);
                count(&client.ledger.counts.topics_deleted);
                return true;
            }
            Err(error) => client.judge(&error),
        }
        client.pause_us(1_000, 50_000).await;
    }
}

/// Reads along: what was read once may not vanish, and the end of the log does not go back.
async fn follow(client: Client, topic: Uuid, partition: i32) {
    let mut at = FollowedTo::default();
    while !client.ledger.is_over() && !client.ledger.is_violated() && client.ledger.exists(topic) {
        if let Ok(mut connection) = client.connect_to_leader(topic, partition).await {
            for _ in 0..client.random.between(1, 10) {
                let wait_ms = client.random.between(0, 100) as i32;
                match connection.fetch(topic, partition, at.offset, wait_ms).await {
                    Ok(fetched) => at.take(&client, topic, partition, &fetched),
                    Err(CallError::Refused(code))
                        if code == ErrorCode::OffsetOutOfRange.code()
                            && client.ledger.may_be_deleted(topic, partition, at.offset) =>
                    {
                        let Some(name) = client.ledger.name_of(topic) else { return };
                        let Ok(log_start) = connection.log_start(&name, partition).await else { break };
                        // Otherwise the topic has its name no more, or a crash brought records back.
                        if log_start > at.offset {
                            at.offset = log_start;
                            count(&client.ledger.counts.readers_overtaken);
                        }
                    }
                    Err(CallError::Refused(code)) if code == ErrorCode::OffsetOutOfRange.code() => {
                        let place = format!("{topic}-{partition}");
                        return client
                            .ledger
                            .violate(format!("{place} was read up to {}, which is out of range", at.offset));
                    }
                    Err(error) => {
                        client.judge(&error);
                        break;
                    }
                }
                client.pause_us(0, 3_000).await;
            }
        }
        client.pause_us(1_000, 20_000).await;
    }
}

#[derive(Default)]
struct FollowedTo {
    offset: i64,
    high_watermark: i64,
    leader_epoch: i32,
}

impl FollowedTo {
    fn take(&mut self, client: &Client, topic: Uuid, partition: i32, fetched: &Fetched) {
        let ledger = &client.ledger;
        if fetched.high_watermark < self.high_watermark {
            let (from, to) = (self.high_watermark, fetched.high_watermark);
            ledger.violate(format!("the high watermark of {topic}-{partition} went back, {from} to {to}"));
        }
        self.high_watermark = fetched.high_watermark;
        for (offset, leader_epoch, value) in &fetched.records {
            if *offset >= fetched.high_watermark {
                ledger.violate(format!("{topic}-{partition} shows {offset}, above its high watermark"));
            }
            if *leader_epoch < self.leader_epoch {
                ledger.violate(format!("the leader epoch in {topic}-{partition} goes back at {offset}"));
            }
            if *offset != self.offset {
                ledger.violate(format!("{topic}-{partition}: {offset} follows {}", self.offset - 1));
            }
            ledger.read(topic, partition, *offset, value);
            self.leader_epoch = *leader_epoch;
            self.offset = offset + 1;
            count(&ledger.counts.records_read);
        }
    }
}

/// Looks at all that is there, when all other clients have ended. Every core agrees, every partition is complete.
pub(crate) async fn check_all(client: &Client) -> Result<(), CallError> {
    for core in 0..client.options.broker_count {
        let topics = Connection::open(&client.io, Server::address(core)).await?.metadata().await?;
        client.ledger.check_topics(core, &topics);
    }
    for (name, state) in client.ledger.topic_names() {
        let TopicState::Exists(id) = state else { continue };
        let topics = client.metadata().await?;
        let Some(view) = topics.values().find(|view| view.id == id) else { continue };
        for partition in view.leaders.keys() {
            let mut connection = client.connect_to_leader(id, *partition).await?;
            let mut log_start_offset = connection.log_start(&name, *partition).await?;
            let (mut records, mut high_watermark) = (Vec::new(), 0);
            loop {
                let next = records.last().map_or(log_start_offset, |(offset, _)| offset + 1);
                let fetched = match connection.fetch(id, *partition, next, 0).await {
                    Err(CallError::Refused(code))
                        if code == ErrorCode::OffsetOutOfRange.code()
                            && client.ledger.may_be_deleted(id, *partition, next) =>
                    {
                        // Retention was faster.
                        log_start_offset = connection.log_start(&name, *partition).await?;
                        records.clear();
                        continue;
                    }
                    other => other?,
                };
                (log_start_offset, high_watermark) =
                    (fetched.log_start_offset, fetched.high_watermark.max(high_watermark));
                records.retain(|(offset, _): &(i64, Vec<u8>)| *offset >= log_start_offset);
                if fetched.records.is_empty() {
                    break;
                }
                records.extend(fetched.records.into_iter().map(|(offset, _, value)| (offset, value)));
            }
            client.ledger.check(id, *partition, &Contents { log_start_offset, high_watermark, records: &records });
        }
    }
    Ok(())
}

/// Whether everything stays that nobody deletes, and the `retention.bytes` for that.
const RETENTION: [(bool, &str); 4] = [(true, "-1"), (true, "-1"), (false, "0"), (false, "2000")];
