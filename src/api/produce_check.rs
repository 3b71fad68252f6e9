//! What Kafka asks of a produced batch before it is appended, in its order.

use std::rc::Rc;
use std::sync::Arc;

use crate::api::context::RequestContext;
use crate::api::error_map::{self, Refusal};
use crate::api::forwarded_append;
use crate::control::internal_topics::is_internal;
use crate::control::snapshot::Snapshot;
use crate::control::topic::Topic as CatalogTopic;
use crate::record::batch::BatchHeader;
use crate::record::batch_error::BatchError;
use crate::record::check::{CheckedBatch, DeepCheck, Progress};
use crate::record::compression::Compression;
use crate::record::offset::{PartitionId, ProducerId, TopicId};
use crate::record::record_tally::AppendLimits;
use crate::record::sole_batch::{begins_transactional, first_header, refuse_second};
use crate::ring::buffer::Buffer;
use crate::shard::core::Shard;
use crate::shard::memory::Reservation;
use crate::shard::partition::Partition;
use crate::shard::recompression::{self, Recompression, RecompressionFailure};
use crate::shard::router::Route;
use crate::shard::topic_limits::TopicLimits;
use crate::wire::error_code::ErrorCode;
use crate::wire::produce::{ProduceFrame, ProducePartition};
use crate::wire::topic_ref::{Topic, TopicRef};
use crate::wire::uuid::Uuid;

/// A batch that may be appended.
pub struct Ready {
    /// Where to.
    pub place: Place,
    /// Its bytes, as they are to be written but for what the log stamps.
    pub records: Buffer,
    /// What the check has found.
    pub batch: CheckedBatch,
    /// Memory that it needs beyond its frame's.
    pub reserved: Vec<Reservation>,
    /// Set where it may not, for a reason that passes: it is refused in its turn.
    pub refusal: Option<Refusal>,
}

/// Where a batch is appended.
#[derive(Clone)]
pub enum Place {
    /// In a partition of this core.
    Here(Rc<Partition>),
    /// In one that another core leads, and has appended to for this one.
    There {
        /// That core.
        core: usize,
        /// The partition.
        id: PartitionId,
    },
}

/// Why a batch is not appended.
pub struct Refused {
    /// What is told, if nothing comes before it.
    pub refusal: Refusal,
    /// Set where Kafka asks the coordinator of the batch's transaction before it finds this.
    pub asks_first: Option<AsksFirst>,
}

/// Whom the coordinator is asked about.
pub struct AsksFirst {
    /// Where the batch was to go.
    pub place: Place,
    /// Its producer's id and epoch.
    pub producer: (ProducerId, i16),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, asks_first: None }
    }
}

/// The topic of a request, kept apart from its body.
pub enum TopicName {
    /// By name.
    Name(String),
    /// By id.
    Id([u8; 16]),
}

impl TopicName {
    /// As the request names it.
    pub fn of(topic: TopicRef, body: &[u8]) -> Self {
        match topic.resolve(body) {
            Topic::Name(name) => Self::Name(name.to_owned()),
            Topic::Id(id) => Self::Id(id.0),
        }
    }

    /// As the response names it.
    pub fn as_topic(&self) -> Topic<'_> {
        match self {
            Self::Name(name) => Topic::Name(name),
            Self::Id(id) => Topic::Id(Uuid(*id)),
        }
    }

    fn find<'a>(&self, snapshot: &'a Snapshot) -> Result<&'a Arc<CatalogTopic>, ErrorCode> {
        match self {
            Self::Name(name) => snapshot.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition),
            Self::Id(id) => snapshot.topic_by_id(TopicId(*id)).ok_or(ErrorCode::UnknownTopicId),
        }
    }
}

/// What is wrong with the request as a whole: then each of its partitions is refused. In Kafka's order.
pub fn refuse_whole(
    snapshot: &Snapshot,
    request: &ProduceFrame,
    names: &[TopicName],
    body: &[u8],
    version: i16,
) -> Option<Refusal> {
    // Whether any batch is part of a transaction: it stops at the first that is, or that cannot be read.
    let all = request.partitions.iter().filter_map(|wanted| body.get(wanted.records.clone()?));
    for records in all {
        match begins_transactional(records) {
            // As Kafka: a transactional batch without an id is refused as not authorized.
            Ok(true) if request.transactional_id.is_none() => {
                return Some(Refusal::new(ErrorCode::TransactionalIdAuthorizationFailed));
            }
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => return Some(error_map::batch_error(&error)),
        }
    }
    // Where Kafka asks whether a codec is zstd, it trips over one that it does not know.
    let trips = |topic: &CatalogTopic, wanted: &ProducePartition| {
        let records = wanted.records.clone().and_then(|range| body.get(range));
        let header = records.and_then(|records| first_header(records).ok());
        let is_known = usize::try_from(wanted.index).is_ok_and(|index| index < topic.partitions.len());
        is_known && header.is_some_and(|header| header.attributes.compression().is_none())
    };
    let mut topics = request.topics.iter().zip(names).filter(|_| version < ZSTD_MIN);
    let tripped = topics.any(|(topic, name)| {
        let wanted = &request.partitions[topic.partitions.clone()];
        name.find(snapshot).is_ok_and(|found| wanted.iter().any(|wanted| trips(found, wanted)))
    });
    if tripped {
        return Some(error_map::batch_error(&BatchError::Undecodable));
    }
    // Of the partitions that may be written to, those that are part of a transaction are part of one producer's.
    let mut producers = request.topics.iter().zip(names).flat_map(|(topic, name)| {
        let found = name.find(snapshot).ok();
        let wanted = &request.partitions[topic.partitions.clone()];
        wanted.iter().filter_map(move |wanted| transactional_producer(found?, wanted, body, version))
    });
    let first = producers.next()?;
    let message = "Transactional records contained more than one producer ID";
    let refused = producers.any(|other| other != first);
    refused.then(|| Refusal::with_message(ErrorCode::InvalidProducerIdMapping, message.to_owned()))
}

/// Id and epoch of the producer whose transaction a partition's batch is part of.
fn transactional_producer(
    topic: &CatalogTopic,
    wanted: &ProducePartition,
    body: &[u8],
    version: i16,
) -> Option<(ProducerId, i16)> {
    usize::try_from(wanted.index).ok().filter(|index| *index < topic.partitions.len())?;
    let header = sole_header(body.get(wanted.records.clone()?)?, version).ok()?;
    is_transactional(&header).then_some((header.producer_id, header.producer_epoch))
}

/// Whether a batch is part of a transaction, of a producer that has an id.
fn is_transactional(header: &BatchHeader) -> bool {
    header.attributes.is_transactional() && header.producer_id.is_some()
}

/// What a request may send to any partition: one batch, of a format and a codec that go with its version. In Kafka's order.
fn sole_header(records: &[u8], version: i16) -> Result<BatchHeader, Refusal> {
    let header = first_header(records).map_err(|error| error_map::batch_error(&error))?;
    if version < ZSTD_MIN && header.attributes.compression() == Some(Compression::Zstd) {
        return Err(Refusal::with_message(
            ErrorCode::UnsupportedCompressionType,
            format!("Produce requests with version {version} are not allowed to use ZStandard compression"),
        ));
    }
    refuse_second(records, &header).map_err(|error| error_map::batch_error(&error))?;
    Ok(header)
}

/// Checks one partition's batch: whether it may be appended here, and whether it is whole. In Kafka's order.
pub async fn check(
    shard: &Rc<Shard>,
    topic: &TopicName,
    index: i32,
    records: Option<Buffer>,
    request: &ProduceFrame,
    context: &RequestContext,
) -> Result<Ready, Refused> {
    // The partition is there.
    let snapshot = shard.snapshot();
    let topic = topic.find(&snapshot).map_err(Refusal::new)?;
    let id = PartitionId { topic_id: topic.id, partition: index };
    let route = shard.route(id);
    if matches!(route, Route::Unknown) {
        return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition).into());
    }
    // The records are one batch.
    let records = records
        .ok_or_else(|| Refusal::with_message(ErrorCode::InvalidRecord, "The partition has no records.".to_owned()))?;
    let header = sole_header(&records, context.api_version)?;
    // Who leads; Kafka's coordinators are asked about its partitions, before all that follows.
    let place = place(route, id);
    let is_verified = request.transactional_id.is_some() && is_transactional(&header);
    let asks_first = match &place {
        _ if !is_verified => None,
        Ok(place) => Some(AsksFirst { place: place.clone(), producer: (header.producer_id, header.producer_epoch) }),
        Err(refusal) => return Err(refusal.clone().into()),
    };
    let limits = match &place {
        Ok(Place::Here(partition)) => partition.limits(),
        Ok(Place::There { .. }) | Err(_) => TopicLimits::of(shard.options(), &topic.configs),
    };
    let limits = AppendLimits { now_ms: shard.io().wall_ms(), ..limits.append };
    let checked = match check_request(&topic.name, request, context).and(place) {
        Ok(place) => check_for_log(shard, place, records, header, &limits).await,
        Err(refusal) => Err(refusal),
    };
    checked.map_err(|refusal| Refused { refusal, asks_first })
}

/// Where a batch goes.
fn place(route: Route, id: PartitionId) -> Result<Place, Refusal> {
    match route {
        Route::Here(partition) => Ok(Place::Here(partition)),
        Route::There { core } => Ok(Place::There { core, id }),
        Route::Elsewhere { core, leader_epoch } => Err(Refusal::led_by(core, leader_epoch)),
        Route::NotReady { offline: true } => Err(Refusal::new(ErrorCode::KafkaStorageError)),
        Route::NotReady { offline: false } | Route::Unknown => Err(Refusal::new(ErrorCode::NotLeaderOrFollower)),
    }
}

/// What may be asked of a partition, and by whom.
fn check_request(topic: &str, request: &ProduceFrame, context: &RequestContext) -> Result<(), Refusal> {
    if !(-1..=1).contains(&request.acks) {
        return Err(Refusal::new(ErrorCode::InvalidRequiredAcks));
    }
    // Kept of the client's name only where it is this one.
    if is_internal(topic) && context.client_id.is_none() {
        let message = format!("Cannot append to internal topic {topic}");
        return Err(Refusal::with_message(ErrorCode::InvalidTopicException, message));
    }
    Ok(())
}

/// What the log wants of a batch; where it wants another, it says where it begins.
async fn check_for_log(
    shard: &Rc<Shard>,
    place: Place,
    records: Buffer,
    header: BatchHeader,
    limits: &AppendLimits,
) -> Result<Ready, Refusal> {
    let begun = DeepCheck::of_header(header, limits).and_then(|mut check| {
        let progress = check.step(&records, CHECK_BYTES_A_TURN)?;
        Ok((check, progress))
    });
    let error = match begun {
        Ok((check, Progress::Done(batch))) if check.recompression().is_none() => {
            return Ok(Ready { place, records: cut_to(records, &batch), batch, reserved: Vec::new(), refusal: None });
        }
        // What takes longer takes more memory too.
        Ok((check, progress)) => {
            let checked = Box::pin(check_deeply(shard, place.clone(), records, check, progress, limits)).await;
            match checked {
                Ok(ready) => return Ok(ready),
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    let refusal = error_map::batch_error(&error);
    Err(match place {
        Place::Here(partition) => refusal.at(partition.log().borrow().offsets().log_start),
        Place::There { core, id } => Box::pin(forwarded_append::at_log_start(shard, core, id, refusal)).await,
    })
}

/// What follows a batch is junk.
fn cut_to(mut records: Buffer, batch: &CheckedBatch) -> Buffer {
    records.truncate(batch.len_bytes as usize);
    records
}

/// Goes on with the checks that need the topic's settings, and all of the batch. It is appended as it came, or compressed anew,
/// which may need memory beyond its frame's.
async fn check_deeply(
    shard: &Rc<Shard>,
    place: Place,
    records: Buffer,
    mut check: DeepCheck,
    mut progress: Progress,
    limits: &AppendLimits,
) -> Result<Ready, BatchError> {
    let batch = loop {
        match progress {
            Progress::Done(batch) => break batch,
            Progress::More => shard.io().yield_now().await,
        }
        progress = check.step(&records, CHECK_BYTES_A_TURN)?;
    };
    let records = cut_to(records, &batch);
    let Some(codec) = check.recompression() else {
        return Ok(Ready { place, records, batch, reserved: Vec::new(), refusal: None });
    };
    if batch.producer_id != ProducerId::NONE && (batch.producer_epoch < 0 || batch.base_sequence < 0) {
        // Kafka cannot write a batch of such a producer anew, though it takes one as it comes.
        return Err(BatchError::Undecodable);
    }
    let wanted = Recompression {
        header: check.header(),
        checked: &batch,
        codec,
        records_bytes: check.records_bytes(),
        batch_bytes_max: limits.max_message_bytes,
    };
    match recompression::recompress(shard, records, wanted).await {
        Ok(done) => {
            Ok(Ready { place, records: done.records, batch: done.checked, reserved: done.reserved, refusal: None })
        }
        Err(RecompressionFailure::Batch(error)) => Err(error),
        Err(failure @ RecompressionFailure::NoMemory) => {
            // Kafka has no word for it; this is one after which clients try again.
            let refusal = Refusal::with_message(ErrorCode::RequestTimedOut, failure.to_string());
            let records = Buffer::from_vec(Vec::new());
            Ok(Ready { place, records, batch, reserved: Vec::new(), refusal: Some(refusal) })
        }
    }
}

/// The first version in which a batch may be compressed with zstd (KIP-110).
const ZSTD_MIN: i16 = 7;
/// Bytes (before compression) that a check goes through before others have their turn: about 100 us.
const CHECK_BYTES_A_TURN: usize = 256 * 1024;
