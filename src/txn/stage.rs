//! A transaction coordinator with its log and no server: for tests.

use crate::record::coordination::{CoordinatorRecord, Effects, Moment, ReplayedRecord, Ticket};
use crate::record::offset::{Offset, ProducerId};
use crate::txn::coordinator::{TransactionConfig, TransactionCoordinator};
use crate::txn::reply::{MarkerJob, TransactionReply};
use crate::txn::request::{AddPartitions, End, InitProducerId, TransactionRequest};
use crate::txn::transaction::Partitions;
use crate::wire::error_code::ErrorCode;

/// A producer's id and epoch.
pub type Identity = (i64, i16);

/// A coordinator with its log: what a restart would replay.
pub struct Stage {
    /// The coordinator.
    pub coordinator: TransactionCoordinator,
    config: TransactionConfig,
    /// What its partition has.
    pub log: Vec<CoordinatorRecord>,
    /// The clocks.
    pub now: Moment,
    tickets: u64,
    /// Markers that are to be written.
    pub jobs: Vec<MarkerJob>,
    /// The next producer id that nobody has.
    pub fresh: i64,
}

impl Stage {
    /// One that has read an empty log.
    pub fn new(config: TransactionConfig) -> Self {
        let now = Moment { now_ms: 1_000, wall_ms: 1_700_000_000_000 };
        let (coordinator, log, jobs) = (TransactionCoordinator::new(config), Vec::new(), Vec::new());
        let mut stage = Self { coordinator, config, log, now, tickets: 0, jobs, fresh: 100 };
        stage.restart();
        stage
    }

    /// A crash at this very step: all that was answered is in the log.
    pub fn restart(&mut self) {
        self.coordinator = TransactionCoordinator::new(self.config);
        self.jobs.clear();
        for record in &self.log {
            let (key, value) = (&record.key[..], record.value.as_deref());
            let replayed = ReplayedRecord { offset: Offset(0), writer: None, key, value };
            self.coordinator.replay(&replayed).expect("its own");
        }
        let mut effects = Effects::default();
        self.coordinator.loaded(self.now, &mut effects);
        self.take(effects);
        self.take_markers();
    }

    /// Keeps what comes of a step; markers become jobs, and late transactions get the producer ids that they need.
    pub fn take(&mut self, effects: Effects<TransactionReply>) -> Option<TransactionReply> {
        self.log.extend(effects.records);
        let mut answer = None;
        for (_, reply) in effects.replies {
            match reply {
                TransactionReply::Markers(job) => {
                    self.jobs.push(job);
                    self.take_markers();
                }
                TransactionReply::Late { transactional_id } => {
                    let fresh = self.give_id();
                    let aborted = self.ask(TransactionRequest::AbortLate { transactional_id, fresh });
                    assert_eq!(aborted, TransactionReply::Done);
                    self.take_markers();
                }
                reply => answer = Some(reply),
            }
        }
        answer
    }

    fn take_markers(&mut self) {
        let mut effects = Effects::default();
        self.tickets += 1;
        self.coordinator.handle(Ticket(self.tickets), TransactionRequest::TakeMarkers, self.now, &mut effects);
        self.take(effects);
    }

    fn give_id(&mut self) -> ProducerId {
        self.fresh += 1;
        ProducerId(self.fresh - 1)
    }

    /// Asks what is answered at once.
    pub fn ask(&mut self, request: TransactionRequest) -> TransactionReply {
        let mut effects = Effects::default();
        self.tickets += 1;
        self.coordinator.handle(Ticket(self.tickets), request, self.now, &mut effects);
        self.take(effects).expect("an answer")
    }

    /// Asks what may need a producer id that nobody has.
    fn ask_for_identity(
        &mut self,
        request: impl Fn(Option<ProducerId>) -> TransactionRequest,
    ) -> Result<Identity, ErrorCode> {
        let mut fresh = None;
        loop {
            match self.ask(request(fresh)) {
                TransactionReply::NeedsProducerId => {
                    assert_eq!(fresh, None, "it had one");
                    fresh = Some(self.give_id());
                }
                TransactionReply::Producer { producer_id, producer_epoch } => {
                    return Ok((producer_id.0, producer_epoch));
                }
                TransactionReply::Refused(error) => return Err(error),
                other => panic!("{other:?}"),
            }
        }
    }

    /// InitProducerId.
    ///
    /// # Errors
    /// The coordinator's answer.
    pub fn init(&mut self, id: &str, expected: Option<Identity>, timeout_ms: i32) -> Result<Identity, ErrorCode> {
        let expected = expected.map(|(producer, epoch)| (ProducerId(producer), epoch));
        self.ask_for_identity(|fresh| {
            let transactional_id = id.to_owned();
            TransactionRequest::InitProducerId(InitProducerId { transactional_id, timeout_ms, expected, fresh })
        })
    }

    /// AddPartitionsToTxn of one partition, by a client of this transaction version.
    pub fn add(&mut self, id: &str, who: Identity, partition: (&str, i32), version: i16) -> ErrorCode {
        self.add_or_verify(id, who, partition, version, false)
    }

    /// Whether a partition was added.
    pub fn verify(&mut self, id: &str, who: Identity, partition: (&str, i32)) -> ErrorCode {
        self.add_or_verify(id, who, partition, 0, true)
    }

    fn add_or_verify(
        &mut self,
        id: &str,
        who: Identity,
        (topic, index): (&str, i32),
        client_version: i16,
        verify_only: bool,
    ) -> ErrorCode {
        let request = AddPartitions {
            transactional_id: id.to_owned(),
            producer_id: ProducerId(who.0),
            producer_epoch: who.1,
            partitions: Partitions::from([(topic.to_owned(), [index].into())]),
            verify_only,
            client_version,
        };
        match self.ask(TransactionRequest::AddPartitions(request)) {
            TransactionReply::Partitions(codes) => codes[0].2,
            TransactionReply::Refused(error) => error,
            other => panic!("{other:?}"),
        }
    }

    /// EndTxn, by a client of this transaction version.
    ///
    /// # Errors
    /// The coordinator's answer.
    pub fn end(&mut self, id: &str, who: Identity, is_commit: bool, version: i16) -> Result<Identity, ErrorCode> {
        self.ask_for_identity(|fresh| {
            TransactionRequest::End(End {
                transactional_id: id.to_owned(),
                producer_id: ProducerId(who.0),
                producer_epoch: who.1,
                is_commit,
                client_version: version,
                fresh,
            })
        })
    }

    /// The markers of a job are written.
    pub fn finish(&mut self, job: &MarkerJob) {
        let done = self.ask(TransactionRequest::MarkersWritten {
            transactional_id: job.transactional_id.clone(),
            producer_id: job.producer_id,
            producer_epoch: job.producer_epoch,
        });
        assert_eq!(done, TransactionReply::Done);
    }

    /// Lets time go by, and does what is due at its end.
    pub fn pass_ms(&mut self, ms: u64) {
        self.now.now_ms += ms;
        self.now.wall_ms += ms as i64;
        let mut effects = Effects::default();
        self.coordinator.tick(self.now, &mut effects);
        self.take(effects);
    }
}
