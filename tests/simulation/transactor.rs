//! A transactional producer: commits, aborts, comes again after every crash. What a reader of read_committed sees is all of
//! each transaction that was acknowledged, none of what was aborted, and all or nothing of those whose answer was lost.

use std::collections::{BTreeMap, BTreeSet};

use alluvium::record::batch::TRANSACTIONAL_BIT;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::control::EndMarker;
use alluvium::record::offset::ProducerId;
use alluvium::record::record_walk::RecordWalk;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::messages::add_partitions_to_txn_request::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use alluvium::wire::messages::add_partitions_to_txn_response::AddPartitionsToTxnResponse;
use alluvium::wire::messages::end_txn_request::EndTxnRequest;
use alluvium::wire::messages::end_txn_response::EndTxnResponse;
use alluvium::wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use alluvium::wire::messages::fetch_response::FetchResponse;
use alluvium::wire::messages::init_producer_id_request::InitProducerIdRequest;
use alluvium::wire::messages::init_producer_id_response::InitProducerIdResponse;
use alluvium::wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use alluvium::wire::messages::produce_response::ProduceResponse;
use alluvium::wire::reader::Reader;
use alluvium::wire::uuid::Uuid;

use crate::client::{CallError, Connection, nonsense};
use crate::ledger::count;
use crate::transaction_offsets::{self, Committer};
use crate::workload::Client;

/// What is known of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No commit was asked for: nobody may ever see it.
    Aborted,
    /// It was, and not answered.
    CommitAsked,
    Committed,
}

/// A transactional id, all its transactions, and the partitions that each wrote to.
pub(crate) struct Story {
    pub(crate) id: String,
    topic: String,
    transactions: Vec<(Fate, BTreeSet<i32>)>,
    /// Those that committed an offset for the group of the same name: their own number.
    committers: BTreeSet<usize>,
}

impl Story {
    pub(crate) fn new(id: String, topic: String) -> Self {
        Self { id, topic, transactions: Vec::new(), committers: BTreeSet::new() }
    }

    fn committer<'a>(&'a self, producer: &Producer) -> Committer<'a> {
        Committer {
            id: &self.id,
            topic: &self.topic,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            bumps: producer.bumps,
        }
    }
}

/// A producer as it was initialised last.
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    /// It speaks transaction version 2.
    pub(crate) bumps: bool,
    pub(crate) sequences: BTreeMap<i32, i32>,
}

/// Lives until the run is over, then looks at all that there is.
pub(crate) async fn run(client: Client, id: String) {
    let topic = format!("written-by-{id}");
    let mut story = Story::new(id, topic);
    while !client.ledger.is_violated() {
        let is_over = client.ledger.is_over();
        match live(&client, &mut story).await {
            Ok(()) if is_over => return,
            Ok(()) => {}
            Err(error) => client.judge(&error),
        }
        client.pause_us(1_000, 30_000).await;
    }
}

/// Takes the id over, which ends what was open, and goes on.
async fn live(client: &Client, story: &mut Story) -> Result<(), CallError> {
    let mut configs = vec![
        ("alluvium.durability".to_owned(), client.options.durability.to_owned()),
        ("segment.index.bytes".to_owned(), if client.random.coin() { "16" } else { "10485760" }.to_owned()),
        ("index.interval.bytes".to_owned(), "100".to_owned()),
        // Its records are from 1970.
        ("retention.ms".to_owned(), "-1".to_owned()),
    ];
    if client.random.coin() {
        // Each transaction has a key of its own: compaction takes what was aborted, and markers, and nothing else.
        let compacted =
            [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0"), ("delete.retention.ms", "0")];
        configs.extend(compacted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    } else if client.options.is_tiered {
        // Transactions end in other segments than they began in, and in another tier.
        configs.push(("remote.storage.enable".to_owned(), "true".to_owned()));
        configs.push(("local.retention.bytes".to_owned(), "0".to_owned()));
    }
    match client.connect_to_any().await?.create_topic(&story.topic, PARTITIONS, &configs).await {
        Ok(_) => {}
        Err(CallError::Refused(code)) if code == ErrorCode::TopicAlreadyExists.code() => {}
        Err(error) => return Err(error),
    }
    let topics = client.metadata().await?;
    let topic = topics.get(&story.topic).ok_or(CallError::Lost)?.id;
    let mut coordinator = Connection::to_coordinator(client, &story.id, 1).await?;
    // Some time out in the middle of what they do.
    let timeout_ms = if client.random.below(3) == 0 && !client.ledger.is_over() { 15 } else { 60_000 };
    let (id, epoch) = loop {
        match coordinator.init_transactions(&story.id, timeout_ms).await {
            Err(CallError::Refused(code)) if code == ErrorCode::ConcurrentTransactions.code() => {
                client.pause_us(1_000, 10_000).await;
            }
            other => break other?,
        }
    };
    if client.ledger.is_over() {
        let committers = story.committers.iter().map(|number| (*number, story.transactions[*number].0)).collect();
        transaction_offsets::check(client, (&story.id, &story.topic), &committers).await?;
        return check(client, story, topic).await;
    }
    let mut producer = Producer { id, epoch, bumps: client.random.coin(), sequences: BTreeMap::new() };
    for _ in 0..client.random.between(1, 8) {
        transact(client, story, topic, &mut coordinator, &mut producer).await?;
        client.pause_us(0, 3_000).await;
    }
    Ok(())
}

async fn transact(
    client: &Client,
    story: &mut Story,
    topic: Uuid,
    coordinator: &mut Connection,
    producer: &mut Producer,
) -> Result<(), CallError> {
    let number = story.transactions.len();
    story.transactions.push((Fate::Aborted, BTreeSet::new()));
    for _ in 0..client.random.between(1, 4) {
        let partition = client.random.below(PARTITIONS as u64) as i32;
        if !producer.bumps {
            again(client, coordinator, async |coordinator| coordinator.add_partition(story, producer, partition).await)
                .await?;
        }
        if !story.transactions[number].1.insert(partition) {
            continue;
        }
        let sequence = producer.sequences.entry(partition).or_insert(0);
        let builder = BatchBuilder::new().producer(ProducerId(producer.id), producer.epoch, *sequence);
        let mut builder = builder.attributes(TRANSACTIONAL_BIT);
        let number = number.to_string();
        builder.add(1, Some(number.as_bytes()), Some(number.as_bytes()));
        let batch = builder.build().expect("uncompressed");
        *sequence += 1;
        let mut leader = client.connect_to_leader(topic, partition).await?;
        again(client, &mut leader, async |leader| {
            leader.produce_in_transaction(story, topic, partition, &batch, producer.bumps).await
        })
        .await?;
    }
    if client.random.coin() {
        if !producer.bumps {
            let ask = async |coordinator: &mut Connection| coordinator.add_offsets(story.committer(producer)).await;
            again(client, coordinator, ask).await?;
        }
        client.pause_us(0, 20_000).await;
        let mut group = Connection::to_coordinator(client, &story.id, 0).await?;
        let ask =
            async |group: &mut Connection| group.commit_in_transaction(story.committer(producer), number as i64).await;
        again(client, &mut group, ask).await?;
        story.committers.insert(number);
    }
    let commits = client.random.below(3) > 0;
    if commits {
        story.transactions[number].0 = Fate::CommitAsked;
    }
    let next_epoch = coordinator.end_transaction(story, producer, commits).await?;
    if commits {
        story.transactions[number].0 = Fate::Committed;
    }
    count(&client.ledger.counts.transactions_ended);
    if producer.bumps {
        producer.epoch = next_epoch;
        producer.sequences.clear();
    }
    Ok(())
}

/// While the markers of the transaction before are written, a client asks again.
async fn again(
    client: &Client,
    connection: &mut Connection,
    mut ask: impl AsyncFnMut(&mut Connection) -> Result<(), CallError>,
) -> Result<(), CallError> {
    loop {
        match ask(connection).await {
            Err(CallError::Refused(code))
                if code == ErrorCode::ConcurrentTransactions.code() || code == ErrorCode::NotEnoughReplicas.code() =>
            {
                client.pause_us(1_000, 10_000).await;
            }
            other => return other,
        }
    }
}

/// Nothing is open any more: reads all that is committed, and judges it.
async fn check(client: &Client, story: &Story, topic: Uuid) -> Result<(), CallError> {
    let mut seen: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
    for partition in 0..PARTITIONS {
        let mut leader = client.connect_to_leader(topic, partition).await?;
        let mut next = 0;
        loop {
            let (values, after, last_stable, high_watermark) = leader.fetch_committed(topic, partition, next).await?;
            for value in values {
                let number = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                let number = number.ok_or_else(|| CallError::Nonsense(format!("the value {value:?}")))?;
                seen.entry(number).or_default().push(partition);
            }
            if after == next && last_stable == high_watermark && next >= high_watermark {
                break;
            }
            if after == next {
                // Markers are on their way.
                client.pause_us(1_000, 10_000).await;
            }
            next = after;
        }
    }
    for (number, (fate, wrote)) in story.transactions.iter().enumerate() {
        let mut found = seen.remove(&number).unwrap_or_default();
        found.sort_unstable();
        let all: Vec<i32> = wrote.iter().copied().collect();
        let is_right = match fate {
            Fate::Aborted => found.is_empty(),
            Fate::Committed => found == all,
            Fate::CommitAsked => found.is_empty() || found == all,
        };
        if !is_right {
            let id = &story.id;
            client.ledger.violate(format!(
                "transaction {number} of {id} is {fate:?}, wrote to {all:?}, and read_committed sees {found:?}"
            ));
        }
    }
    Ok(())
}

impl Connection {
    pub(crate) async fn init_transactions(&mut self, id: &str, timeout_ms: i32) -> Result<(i64, i16), CallError> {
        let request = InitProducerIdRequest {
            transactional_id: Some(id),
            transaction_timeout_ms: timeout_ms,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdRequest::default()
        };
        let body = self.call(ApiKey::InitProducerId, 4, |out| request.encode(out, 4)).await?;
        let response = InitProducerIdResponse::decode(&mut Reader::new(&body), 4).map_err(nonsense)?;
        match response.error_code {
            0 => Ok((response.producer_id, response.producer_epoch)),
            code => Err(CallError::Refused(code)),
        }
    }

    pub(crate) async fn add_partition(
        &mut self,
        story: &Story,
        producer: &Producer,
        partition: i32,
    ) -> Result<(), CallError> {
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: &story.id,
            v3_and_below_producer_id: producer.id,
            v3_and_below_producer_epoch: producer.epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic { name: &story.topic, partitions: vec![partition] }],
            ..AddPartitionsToTxnRequest::default()
        };
        let body = self.call(ApiKey::AddPartitionsToTxn, 3, |out| request.encode(out, 3)).await?;
        let response = AddPartitionsToTxnResponse::decode(&mut Reader::new(&body), 3).map_err(nonsense)?;
        let topic = response.results_by_topic_v3_and_below.first();
        match topic.and_then(|topic| topic.results_by_partition.first()).map(|row| row.partition_error_code) {
            Some(0) => Ok(()),
            Some(code) => Err(CallError::Refused(code)),
            None => Err(CallError::Nonsense("no partition in the answer".into())),
        }
    }

    pub(crate) async fn produce_in_transaction(
        &mut self,
        story: &Story,
        topic: Uuid,
        partition: i32,
        batch: &[u8],
        bumps: bool,
    ) -> Result<(), CallError> {
        // Version 11 is the last whose clients add partitions themselves.
        let version = if bumps { 13 } else { 11 };
        let data = vec![PartitionProduceData { index: partition, records: Some(batch) }];
        let topic_data = if bumps {
            TopicProduceData { topic_id: topic, partition_data: data, ..TopicProduceData::default() }
        } else {
            TopicProduceData { name: &story.topic, partition_data: data, ..TopicProduceData::default() }
        };
        let request = ProduceRequest {
            transactional_id: Some(&story.id),
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![topic_data],
        };
        let body = self.call(ApiKey::Produce, version, |out| request.encode(out, version)).await?;
        let response = ProduceResponse::decode(&mut Reader::new(&body), version).map_err(nonsense)?;
        match response.responses.first().and_then(|topic| topic.partition_responses.first()) {
            Some(partition) if partition.error_code == 0 => Ok(()),
            Some(partition) => Err(CallError::Refused(partition.error_code)),
            None => Err(CallError::Nonsense("no partition in the answer".into())),
        }
    }

    /// The epoch that the producer goes on with.
    pub(crate) async fn end_transaction(
        &mut self,
        story: &Story,
        producer: &Producer,
        commits: bool,
    ) -> Result<i16, CallError> {
        let version = if producer.bumps { 5 } else { 3 };
        let request = EndTxnRequest {
            transactional_id: &story.id,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            committed: commits,
        };
        let body = self.call(ApiKey::EndTxn, version, |out| request.encode(out, version)).await?;
        let response = EndTxnResponse::decode(&mut Reader::new(&body), version).map_err(nonsense)?;
        match response.error_code {
            0 => Ok(response.producer_epoch),
            code => Err(CallError::Refused(code)),
        }
    }

    /// As clients read committed records: values, the next offset, the last stable offset, the high watermark.
    pub(crate) async fn fetch_committed(
        &mut self,
        topic: Uuid,
        partition: i32,
        from: i64,
    ) -> Result<(Vec<Vec<u8>>, i64, i64, i64), CallError> {
        let wanted =
            FetchPartition { partition, fetch_offset: from, partition_max_bytes: 1_000, ..FetchPartition::default() };
        let request = FetchRequest {
            min_bytes: 0,
            max_bytes: 1_000,
            isolation_level: 1,
            topics: vec![FetchTopic { topic_id: topic, partitions: vec![wanted], ..FetchTopic::default() }],
            ..FetchRequest::default()
        };
        let body = self.call(ApiKey::Fetch, 16, |out| request.encode(out, 16)).await?;
        let response = FetchResponse::decode(&mut Reader::new(&body), 16).map_err(nonsense)?;
        let found = response.responses.first().and_then(|topic| topic.partitions.first());
        let found = found.ok_or(CallError::Refused(response.error_code))?;
        if found.error_code != 0 {
            return Err(CallError::Refused(found.error_code));
        }
        let mut aborted: Vec<(i64, i64)> = found
            .aborted_transactions
            .iter()
            .flatten()
            .map(|aborted| (aborted.first_offset, aborted.producer_id))
            .collect();
        aborted.sort_unstable();
        let mut aborted = aborted.into_iter().peekable();
        let mut passed_over = BTreeSet::new();
        let (mut values, mut next) = (Vec::new(), from);
        let mut bytes = found.records.unwrap_or_default();
        while let Ok((header, walk)) = RecordWalk::new(bytes) {
            while let Some((_, id)) = aborted.next_if(|(first, _)| *first <= header.last_offset().get()) {
                passed_over.insert(id);
            }
            next = next.max(header.last_offset().get() + 1);
            let id = header.producer_id.0;
            if header.attributes.is_control() {
                if EndMarker::parse(&header, bytes).is_some_and(|marker| !marker.is_commit) {
                    passed_over.remove(&id);
                }
            } else if !header.attributes.is_transactional() || !passed_over.contains(&id) {
                for record in walk {
                    let record = record.map_err(|error| CallError::Nonsense(error.to_string()))?;
                    if header.base_offset.get() + i64::from(record.offset_delta) >= from {
                        values.push(record.value.unwrap_or_default().to_vec());
                    }
                }
            }
            bytes = &bytes[header.len_bytes as usize..];
        }
        Ok((values, next, found.last_stable_offset, found.high_watermark))
    }
}

const PARTITIONS: i32 = 3;
