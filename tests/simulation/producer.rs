//! A producer as Kafka's clients are: batches in flight, retries in order, idempotent or not.

use std::collections::VecDeque;

use alluvium::record::builder::BatchBuilder;
use alluvium::record::offset::ProducerId;
use alluvium::ring::sim::random::Random;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::uuid::Uuid;

use crate::client::{CallError, Connection};
use crate::ledger::count;
use crate::workload::Client;

/// How a producer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerKind {
    is_idempotent: bool,
    acks: i16,
    in_flight_max: usize,
}

impl ProducerKind {
    pub(crate) fn draw(random: &Random) -> Self {
        match random.below(10) {
            0 => Self { is_idempotent: false, acks: 0, in_flight_max: 1 },
            1..=3 => Self { is_idempotent: false, acks: 1, in_flight_max: 1 + random.index(3) },
            // Kafka's idempotent producers have five in flight at most: as many as a broker knows again.
            _ => Self { is_idempotent: true, acks: -1, in_flight_max: 1 + random.index(5) },
        }
    }
}

struct Batch {
    payloads: Vec<Vec<u8>>,
    bytes: Vec<u8>,
    was_sent: bool,
}

struct Producer {
    client: Client,
    topic: Uuid,
    partition: i32,
    kind: ProducerKind,
    /// Tells producers apart in payloads.
    number: u32,
    /// Tells producers apart for the oracle: without acknowledgements each connection is one, for nobody waits for
    /// what is still under way on the last one.
    oracle_number: u32,
    identity: Option<(i64, i16)>,
    next_sequence: i32,
    made_count: u32,
    /// Sent or to be sent again, in order.
    unacknowledged: VecDeque<Batch>,
}

/// Produces to one partition until the run is over, all is acknowledged, or the topic goes.
pub(crate) async fn run(client: Client, topic: Uuid, partition: i32, kind: ProducerKind) {
    let number = client.random.next_u64() as u32;
    let mut producer = Producer {
        client,
        topic,
        partition,
        kind,
        number,
        oracle_number: number,
        identity: None,
        next_sequence: 0,
        made_count: 0,
        unacknowledged: VecDeque::new(),
    };
    while !producer.is_done() {
        match producer.session().await {
            Ok(()) => {}
            Err(error) => producer.client.judge(&error),
        }
        producer.client.pause_us(500, 30_000).await;
    }
}

impl Producer {
    fn is_done(&self) -> bool {
        let ledger = &self.client.ledger;
        let has_more = self.made_count < self.client.options.batches_max && !ledger.is_over();
        ledger.is_violated() || !ledger.exists(self.topic) || (!has_more && self.unacknowledged.is_empty())
    }

    /// One connection: sends again what is unacknowledged, then goes on, until something goes wrong.
    async fn session(&mut self) -> Result<(), CallError> {
        if self.kind.is_idempotent && self.identity.is_none() {
            let identity = self.client.connect_to_any().await?.producer_id().await?;
            self.client.ledger.producer_id(identity.0);
            self.identity = Some(identity);
        }
        let mut connection = self.client.connect_to_leader(self.topic, self.partition).await?;
        if self.kind.acks == 0 {
            self.oracle_number = self.client.random.next_u64() as u32;
        }
        let mut in_flight = 0;
        loop {
            while in_flight < self.kind.in_flight_max && self.has_batch(in_flight) {
                self.send(&mut connection, in_flight).await?;
                in_flight += 1;
                if self.kind.acks == 0 {
                    // Nobody will say anything.
                    self.unacknowledged.pop_front();
                    in_flight = 0;
                    break;
                }
                if self.client.random.below(4) == 0 {
                    break;
                }
            }
            if self.client.random.below(40) == 0 {
                // The connection breaks on the way, and nobody knows what came through.
                return Err(CallError::Lost);
            }
            if in_flight > 0 {
                self.take_answer(&mut connection).await?;
                in_flight -= 1;
            } else if self.is_done() {
                return Ok(());
            }
            self.client.pause_us(0, 4_000).await;
        }
    }

    /// True where the batch number `at` of those in flight is there or can be made.
    fn has_batch(&mut self, at: usize) -> bool {
        if at < self.unacknowledged.len() {
            return true;
        }
        if self.made_count >= self.client.options.batches_max || self.client.ledger.is_over() {
            return false;
        }
        let batch = self.make();
        self.unacknowledged.push_back(batch);
        true
    }

    fn make(&mut self) -> Batch {
        let random = &self.client.random;
        let record_count = random.between(1, 4) as u32;
        let len_bytes = if random.below(20) == 0 { random.between(2_000, 12_000) } else { random.between(12, 300) };
        let mut builder = BatchBuilder::new();
        if let Some((id, epoch)) = self.identity {
            builder = builder.producer(ProducerId(id), epoch, self.next_sequence);
        }
        let timestamp_ms = self.client.io.wall_ms();
        let mut payloads = Vec::new();
        for record in 0..record_count {
            let mut payload = format!("{:08x}/{}/{record}.", self.number, self.made_count).into_bytes();
            payload.resize(payload.len() + len_bytes as usize, b'a' + (self.made_count % 26) as u8);
            builder.add(timestamp_ms, None, Some(&payload));
            payloads.push(payload);
        }
        self.made_count += 1;
        self.next_sequence += record_count as i32;
        Batch { payloads, bytes: builder.build().expect("no compressor fails"), was_sent: false }
    }

    async fn send(&mut self, connection: &mut Connection, at: usize) -> Result<(), CallError> {
        let batch = &mut self.unacknowledged[at];
        let is_first = !std::mem::replace(&mut batch.was_sent, true);
        if !is_first {
            count(&self.client.ledger.counts.batches_resent);
        }
        // Sent again by a producer with an identity, it may still be there only once.
        if is_first || !self.kind.is_idempotent {
            for payload in &batch.payloads {
                self.client.ledger.sent(self.topic, self.partition, self.oracle_number, payload);
            }
        }
        connection.send_produce(self.topic, self.partition, self.kind.acks, &batch.bytes).await
    }

    /// The answer to the oldest batch in flight.
    async fn take_answer(&mut self, connection: &mut Connection) -> Result<(), CallError> {
        match connection.receive_produced().await? {
            Ok(base_offset) => {
                let Some(batch) = self.unacknowledged.pop_front() else { return Ok(()) };
                count(&self.client.ledger.counts.batches_acknowledged);
                for (offset, payload) in (base_offset..).zip(&batch.payloads) {
                    self.client.ledger.acknowledged(self.topic, self.partition, offset, payload);
                }
                Ok(())
            }
            Err(code) => {
                count(&self.client.ledger.counts.batches_refused);
                self.judge_refusal(code);
                Err(CallError::Refused(code))
            }
        }
    }

    /// What a producer that does all right may be told: to try again.
    fn judge_refusal(&self, code: i16) {
        let error = ErrorCode::from_code(code);
        if !error.is_some_and(|error| error.is_retriable()) {
            let place = format!("{}-{}", self.topic, self.partition);
            self.client
                .ledger
                .violate(format!("the oldest batch of a producer to {place} was refused: {error:?} ({code})"));
        }
    }
}
