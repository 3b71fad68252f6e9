//! The one `match` on the API key.

use std::pin::Pin;
use std::rc::Rc;

use crate::api::context::{ADMIN_CLIENT_ID, Api, ConnectionState, RequestContext};
use crate::api::reply::Outcome;
use crate::api::{
    cluster, configs, consumer_groups, coordinator, delete_records, epoch_ends, fetch, group_listing, group_members,
    group_offsets, list_offsets, log_dirs, metadata, produce, producer_id, producers, topics, transaction_listing,
    transactions, txn_markers, txn_offsets, versions,
};
use crate::ring::buffer::Buffer;
use crate::wire::api_keys::ApiKey;
use crate::wire::frame::{FrameError, RequestHeader};

/// A request whose header was read; its API and version may still be unknown here.
pub struct Request {
    /// Its header.
    pub context: RequestContext,
    /// Its body, and only that.
    pub body: Buffer,
}

/// Reads the header of a frame and checks that the API is served in that version.
///
/// # Errors
/// Kafka closes the connection on each.
pub fn parse(mut frame: Buffer) -> Result<Request, RequestError> {
    let (context, body_start) = {
        let header = RequestHeader::parse(&frame)?;
        let context = RequestContext {
            api_key: header.api_key,
            api_version: header.api_version,
            correlation_id: header.correlation_id,
            client_id: kept_client_id(&header),
        };
        (context, header.body_start)
    };
    let served = versions::range_of(context.api_key).ok_or(RequestError::NotServed { name: context.api_key.name() })?;
    if !served.contains(context.api_version) && context.api_key != ApiKey::ApiVersions {
        return Err(RequestError::Version {
            name: context.api_key.name(),
            version: context.api_version,
            min: served.min,
            max: served.max,
        });
    }
    // Decoding a message that is all tiny elements takes up to sixteen times its bytes; records alone need large frames.
    if context.api_key != ApiKey::Produce && frame.len() > MESSAGE_BYTES_MAX {
        return Err(RequestError::TooLarge { name: context.api_key.name(), len_bytes: frame.len() });
    }
    frame.advance(body_start);
    Ok(Request { context, body: frame })
}

/// The client's name, where something depends on it: most requests do without a copy.
fn kept_client_id(header: &RequestHeader<'_>) -> Option<String> {
    let is_kept = match header.api_key {
        ApiKey::Produce => header.client_id == Some(ADMIN_CLIENT_ID),
        ApiKey::JoinGroup | ApiKey::ConsumerGroupHeartbeat => true,
        _ => false,
    };
    header.client_id.filter(|_| is_kept).map(str::to_owned)
}

/// Why a request is not looked at; its connection closes.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The header makes no sense.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A request that this server does not have.
    #[error("{name} is not served here; clients see what is by ApiVersions")]
    NotServed {
        /// The API.
        name: &'static str,
    },
    /// Longer than any request without records has reason to be.
    #[error(
        "a {name} request of {len_bytes} bytes; requests without records have {MESSAGE_BYTES_MAX} at most here: ask for less at once"
    )]
    TooLarge {
        /// The API.
        name: &'static str,
        /// Length of the frame.
        len_bytes: usize,
    },
    /// A version that this server does not have.
    #[error(
        "{name} version {version} is not served here, {min} to {max} are; upgrade the client if it is older than Kafka 2.1"
    )]
    Version {
        /// The API.
        name: &'static str,
        /// What was asked.
        version: i16,
        /// The lowest served.
        min: i16,
        /// The highest served.
        max: i16,
    },
}

/// A request that is being answered.
pub type Handling = Pin<Box<dyn Future<Output = Outcome>>>;

/// Answers one request. Its first poll reserves what its order matters for.
///
/// What is common takes no more memory than it needs; that of all others is as large as the largest.
pub fn handle(api: Rc<Api>, connection: Rc<ConnectionState>, request: Request) -> Handling {
    let Request { context, body } = request;
    match context.api_key {
        ApiKey::Produce => Box::pin(async move { produce::handle(&api, &connection, &context, body).await }),
        ApiKey::Fetch => Box::pin(async move { fetch::handle(&api, &context, &body).await }),
        ApiKey::Heartbeat => Box::pin(async move { group_members::heartbeat(api.shard(), &context, &body).await }),
        ApiKey::OffsetCommit => Box::pin(async move { group_offsets::commit(api.shard(), &context, &body).await }),
        _ => Box::pin(handle_other(api, connection, context, body)),
    }
}

async fn handle_other(api: Rc<Api>, connection: Rc<ConnectionState>, context: RequestContext, body: Buffer) -> Outcome {
    match context.api_key {
        ApiKey::ListOffsets => list_offsets::handle(api.shard(), &context, &body).await,
        ApiKey::Metadata => metadata::handle(api.shard(), &context, &body).await,
        ApiKey::FindCoordinator => coordinator::handle(api.shard(), &context, &body).await,
        ApiKey::ApiVersions
            if versions::range_of(ApiKey::ApiVersions).is_some_and(|served| served.contains(context.api_version)) =>
        {
            versions::handle(&context, &body)
        }
        ApiKey::ApiVersions => versions::handle_unknown_version(&context),
        ApiKey::CreateTopics => topics::create(api.shard(), &context, &body).await,
        ApiKey::DeleteTopics => topics::delete(api.shard(), &context, &body).await,
        ApiKey::DeleteRecords => delete_records::handle(api.shard(), &context, &body).await,
        ApiKey::InitProducerId => producer_id::handle(api.shard(), &context, &body).await,
        ApiKey::AddPartitionsToTxn => transactions::add_partitions(api.shard(), &context, &body).await,
        ApiKey::AddOffsetsToTxn => transactions::add_offsets(api.shard(), &context, &body).await,
        ApiKey::EndTxn => transactions::end(api.shard(), &context, &body).await,
        ApiKey::TxnOffsetCommit => txn_offsets::commit(api.shard(), &context, &body).await,
        ApiKey::ListTransactions => transaction_listing::list(api.shard(), &context, &body).await,
        ApiKey::DescribeTransactions => transaction_listing::describe(api.shard(), &context, &body).await,
        ApiKey::WriteTxnMarkers => txn_markers::handle(api.shard(), &context, &body).await,
        ApiKey::DescribeProducers => producers::handle(api.shard(), &context, &body).await,
        ApiKey::OffsetForLeaderEpoch => epoch_ends::handle(api.shard(), &context, &body).await,
        ApiKey::DescribeLogDirs => log_dirs::handle(api.shard(), &context, &body).await,
        ApiKey::DescribeConfigs => configs::describe(api.shard(), &context, &body),
        ApiKey::DescribeCluster => cluster::handle(api.shard(), &context, &body),
        ApiKey::JoinGroup => group_members::join(api.shard(), &connection, &context, &body).await,
        ApiKey::SyncGroup => group_members::sync(api.shard(), &context, &body).await,
        ApiKey::LeaveGroup => group_members::leave(api.shard(), &context, &body).await,
        ApiKey::OffsetFetch => group_offsets::fetch(api.shard(), &context, &body).await,
        ApiKey::OffsetDelete => group_offsets::delete(api.shard(), &context, &body).await,
        ApiKey::ConsumerGroupHeartbeat => consumer_groups::heartbeat(api.shard(), &connection, &context, &body).await,
        ApiKey::ConsumerGroupDescribe => consumer_groups::describe(api.shard(), &context, &body).await,
        ApiKey::DescribeGroups => group_listing::describe(api.shard(), &context, &body).await,
        ApiKey::ListGroups => group_listing::list(api.shard(), &context, &body).await,
        ApiKey::DeleteGroups => group_listing::delete(api.shard(), &context, &body).await,
        ApiKey::Produce | ApiKey::Fetch | ApiKey::Heartbeat | ApiKey::OffsetCommit => {
            unreachable!("these have their own futures")
        }
        other => Outcome::Close(format!("{} is not served here", other.name())),
    }
}

/// Longest request without records: a fetch of 200,000 partitions fits.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
