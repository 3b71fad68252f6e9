//! JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the life of a group's members.

use std::rc::Rc;

use crate::api::context::{ConnectionState, RequestContext};
use crate::api::error_map::coordinator_failure;
use crate::api::reply::Outcome;
use crate::group::coordinator::GroupCoordinator;
use crate::group::reply::{GroupReply, Joined, Synced};
use crate::group::request::{GroupRequest, Join, Leaver, Protocol, Speaker, Sync};
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::heartbeat_request::HeartbeatRequest;
use crate::wire::messages::heartbeat_response::HeartbeatResponse;
use crate::wire::messages::join_group_request::JoinGroupRequest;
use crate::wire::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use crate::wire::messages::leave_group_request::LeaveGroupRequest;
use crate::wire::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};
use crate::wire::messages::sync_group_request::SyncGroupRequest;
use crate::wire::messages::sync_group_response::SyncGroupResponse;
use crate::wire::reader::Reader;
use crate::wire::uuid::Uuid;

/// Asks a group's coordinator; a failure of any kind is a code.
///
/// # Errors
/// The code that the client is told.
pub async fn ask(shard: &Rc<Shard>, group_id: &str, request: GroupRequest) -> Result<GroupReply, ErrorCode> {
    if group_id.len() > NAME_BYTES_MAX {
        return Err(ErrorCode::InvalidGroupId);
    }
    match shard.ask::<GroupCoordinator>(group_id, request).await {
        Ok(GroupReply::Refused(error)) => Err(error),
        Ok(reply) => Ok(reply),
        Err(failure) => Err(coordinator_failure(failure)),
    }
}

/// Answers JoinGroup when the group is together.
pub async fn join(shard: &Rc<Shard>, connection: &ConnectionState, context: &RequestContext, body: &[u8]) -> Outcome {
    let version = context.api_version;
    let request = match JoinGroupRequest::decode(&mut Reader::new(body), version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let joined = match judge_join(shard, &request) {
        Ok(()) => {
            let join = join_request(shard, connection, context, &request);
            match ask(shard, request.group_id, GroupRequest::Join(join)).await {
                Ok(GroupReply::Joined(joined)) => joined,
                Ok(_) => unreachable!("a join is answered as one"),
                // The member's id is not told where nobody has looked at it.
                Err(error) => Joined { error, generation: NO_GENERATION, ..Joined::default() },
            }
        }
        Err(error) => {
            Joined { error, generation: NO_GENERATION, member_id: request.member_id.to_owned(), ..Joined::default() }
        }
    };
    let members = joined
        .members
        .iter()
        .map(|member| JoinGroupResponseMember {
            member_id: &member.member_id,
            group_instance_id: member.instance_id.as_deref().filter(|_| version >= INSTANCE_MIN),
            metadata: &member.metadata,
        })
        .collect();
    let mut response = JoinGroupResponse {
        error_code: joined.error.code(),
        generation_id: joined.generation,
        protocol_name: joined.protocol_name.as_deref(),
        leader: &joined.leader,
        member_id: &joined.member_id,
        members,
        ..JoinGroupResponse::default()
    };
    if version >= PROTOCOL_TYPE_MIN {
        response.protocol_type = joined.protocol_type.as_deref();
    } else if response.protocol_name.is_none() {
        response.protocol_name = Some("");
    }
    if version >= SKIP_ASSIGNMENT_MIN {
        response.skip_assignment = joined.skip_assignment;
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn judge_join(shard: &Shard, request: &JoinGroupRequest<'_>) -> Result<(), ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let config = &shard.options().broker_config;
    let allowed_ms = config.group_min_session_timeout_ms()..=config.group_max_session_timeout_ms();
    if !u32::try_from(request.session_timeout_ms).is_ok_and(|asked_ms| allowed_ms.contains(&asked_ms)) {
        return Err(ErrorCode::InvalidSessionTimeout);
    }
    let names = request.protocols.iter().map(|protocol| protocol.name);
    let texts = [request.member_id, request.protocol_type, request.group_instance_id.unwrap_or_default()];
    if names.chain(texts).any(|text| text.len() > NAME_BYTES_MAX) {
        return Err(ErrorCode::UnknownServerError);
    }
    Ok(())
}

fn join_request(
    shard: &Shard,
    connection: &ConnectionState,
    context: &RequestContext,
    request: &JoinGroupRequest<'_>,
) -> Join {
    let client_id = context.client_id.clone().unwrap_or_default();
    let session_timeout_ms = u32::try_from(request.session_timeout_ms).unwrap_or(0);
    let rebalance_timeout_ms = match context.api_version {
        0 => session_timeout_ms,
        _ => u32::try_from(request.rebalance_timeout_ms).unwrap_or(0),
    };
    let mut protocols: Vec<Protocol> = Vec::with_capacity(request.protocols.len());
    for protocol in &request.protocols {
        if !protocols.iter().any(|known| known.name == protocol.name) {
            protocols.push(Protocol { name: protocol.name.to_owned(), metadata: protocol.metadata.to_vec() });
        }
    }
    let new_member_id = new_member_id(shard, request.group_instance_id.unwrap_or(&client_id));
    Join {
        group_id: request.group_id.to_owned(),
        member_id: request.member_id.to_owned(),
        instance_id: request.group_instance_id.map(str::to_owned),
        new_member_id,
        client_id,
        client_host: connection.client_host(),
        session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type.to_owned(),
        protocols,
        requires_known_member_id: context.api_version >= KNOWN_MEMBER_ID_MIN,
        supports_skipping_assignment: context.api_version >= SKIP_ASSIGNMENT_MIN,
        reason: request.reason.map(str::to_owned),
    }
}

/// As Kafka makes them: a name, and a random id in Java's form of it.
fn new_member_id(shard: &Shard, name: &str) -> String {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&shard.io().random_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&shard.io().random_u64().to_be_bytes());
    let id = u128::from_be_bytes(Uuid::from_random_bytes(bytes).0);
    let digits = format!("{id:032x}");
    let (a, b, c, d, e) = (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
    format!("{name}-{a}-{b}-{c}-{d}-{e}")
}

/// Answers SyncGroup when the leader has assigned.
pub async fn sync(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let version = context.api_version;
    let request = match SyncGroupRequest::decode(&mut Reader::new(body), version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let lacks_protocol =
        version >= SYNC_PROTOCOL_MIN && (request.protocol_type.is_none() || request.protocol_name.is_none());
    let asked = if lacks_protocol {
        Err(ErrorCode::InconsistentGroupProtocol)
    } else if request.group_id.is_empty() {
        Err(ErrorCode::InvalidGroupId)
    } else {
        let each = |assigned: &crate::wire::messages::sync_group_request::SyncGroupRequestAssignment<'_>| {
            (assigned.member_id.to_owned(), assigned.assignment.to_vec())
        };
        let sync = Sync {
            group_id: request.group_id.to_owned(),
            speaker: speaker(request.member_id, request.group_instance_id, request.generation_id),
            protocol_type: request.protocol_type.map(str::to_owned),
            protocol_name: request.protocol_name.map(str::to_owned),
            assignments: request.assignments.iter().map(each).collect(),
        };
        ask(shard, request.group_id, GroupRequest::Sync(sync)).await
    };
    let synced = match asked {
        Ok(GroupReply::Synced(synced)) => synced,
        Ok(_) => unreachable!("a sync is answered as one"),
        Err(error) => Synced { error, ..Synced::default() },
    };
    let mut response = SyncGroupResponse {
        error_code: synced.error.code(),
        assignment: &synced.assignment,
        ..SyncGroupResponse::default()
    };
    if version >= SYNC_PROTOCOL_MIN {
        response.protocol_type = synced.protocol_type.as_deref();
        response.protocol_name = synced.protocol_name.as_deref();
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// Answers Heartbeat.
pub async fn heartbeat(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match HeartbeatRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let asked = if request.group_id.is_empty() {
        Err(ErrorCode::InvalidGroupId)
    } else {
        let speaker = speaker(request.member_id, request.group_instance_id, request.generation_id);
        ask(shard, request.group_id, GroupRequest::Heartbeat { group_id: request.group_id.to_owned(), speaker }).await
    };
    let error = match asked {
        // As Kafka: while the group is read nobody is late, so nobody need do anything.
        Ok(_) | Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
        Err(error) => error,
    };
    let response = HeartbeatResponse { error_code: error.code(), ..HeartbeatResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// Answers LeaveGroup.
pub async fn leave(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let version = context.api_version;
    let request = match LeaveGroupRequest::decode(&mut Reader::new(body), version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let leaver = |member_id: &str, instance_id: Option<&str>, reason: Option<&str>| Leaver {
        member_id: member_id.to_owned(),
        instance_id: instance_id.map(str::to_owned),
        reason: reason.map(str::to_owned),
    };
    let members: Vec<Leaver> = if version < LEAVE_MANY_MIN {
        vec![leaver(request.member_id, None, None)]
    } else {
        let each = request.members.iter();
        each.map(|member| leaver(member.member_id, member.group_instance_id, member.reason)).collect()
    };
    let asked = if request.group_id.is_empty() {
        Err(ErrorCode::InvalidGroupId)
    } else {
        let request_of_group = GroupRequest::Leave { group_id: request.group_id.to_owned(), members: members.clone() };
        ask(shard, request.group_id, request_of_group).await
    };
    let (error, codes) = match asked {
        Ok(GroupReply::Left(codes)) => (ErrorCode::None, codes),
        Ok(_) => unreachable!("a leave is answered as one"),
        Err(error) => (error, Vec::new()),
    };
    let mut response = LeaveGroupResponse { error_code: error.code(), ..LeaveGroupResponse::default() };
    if version < LEAVE_MANY_MIN {
        // Old clients have one code for all.
        let code = codes.first().copied().filter(|_| error == ErrorCode::None).unwrap_or(error);
        response.error_code = code.code();
    } else {
        let each = members.iter().zip(&codes).map(|(member, code)| MemberResponse {
            member_id: &member.member_id,
            group_instance_id: member.instance_id.as_deref(),
            error_code: code.code(),
        });
        response.members = each.collect();
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn speaker(member_id: &str, instance_id: Option<&str>, generation: i32) -> Speaker {
    Speaker { member_id: member_id.to_owned(), instance_id: instance_id.map(str::to_owned), generation }
}

/// Names are written down with 16-bit lengths.
pub const NAME_BYTES_MAX: usize = i16::MAX as usize;
const NO_GENERATION: i32 = -1;
const KNOWN_MEMBER_ID_MIN: i16 = 4;
const INSTANCE_MIN: i16 = 5;
const PROTOCOL_TYPE_MIN: i16 = 7;
const SKIP_ASSIGNMENT_MIN: i16 = 9;
const SYNC_PROTOCOL_MIN: i16 = 5;
const LEAVE_MANY_MIN: i16 = 3;
