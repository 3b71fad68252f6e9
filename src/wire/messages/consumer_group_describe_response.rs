//! Kafka's ConsumerGroupDescribe response, versions 0 to 1.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's ConsumerGroupDescribe response, versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupDescribeResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// Each described group.
    pub groups: Vec<DescribedGroup<'a>>,
}

impl<'a> ConsumerGroupDescribeResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 69;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 1;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ConsumerGroupDescribeResponse", version });
        }
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            groups: reader.array("groups", true, 20, |reader| DescribedGroup::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ConsumerGroupDescribeResponse", version });
        }
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "groups", &self.groups, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// A part of the message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartitions<'a> {
    /// The topic ID.
    pub topic_id: Uuid,
    /// The topic name.
    pub topic_name: &'a str,
    /// The partitions.
    pub partitions: Vec<i32>,
}

impl<'a> TopicPartitions<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            topic_id: reader.uuid("topic_id")?,
            topic_name: reader.string("topic_name", true)?,
            partitions: reader.array("partitions", true, 4, |reader| reader.int32("partitions"))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::uuid(out, self.topic_id);
        writer::string(out, "topic_name", self.topic_name, true)?;
        writer::array(out, "partitions", &self.partitions, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// A part of the message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment<'a> {
    /// The assigned topic-partitions to the member.
    pub topic_partitions: Vec<TopicPartitions<'a>>,
}

impl<'a> Assignment<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            topic_partitions: reader
                .array("topic_partitions", true, 19, |reader| TopicPartitions::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::array(out, "topic_partitions", &self.topic_partitions, true, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Each described group.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroup<'a> {
    /// The describe error, or 0 if there was no error.
    pub error_code: i16,
    /// The top-level error message, or null if there was no error.
    pub error_message: Option<&'a str>,
    /// The group ID string.
    pub group_id: &'a str,
    /// The group state string, or the empty string.
    pub group_state: &'a str,
    /// The group epoch.
    pub group_epoch: i32,
    /// The assignment epoch.
    pub assignment_epoch: i32,
    /// The selected assignor.
    pub assignor_name: &'a str,
    /// The members.
    pub members: Vec<Member<'a>>,
    /// 32-bit bitfield to represent authorized operations for this group.
    pub authorized_operations: i32,
}

impl Default for DescribedGroup<'_> {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: None,
            group_id: "",
            group_state: "",
            group_epoch: 0,
            assignment_epoch: 0,
            assignor_name: "",
            members: Vec::new(),
            authorized_operations: -2147483648,
        }
    }
}

impl<'a> DescribedGroup<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            error_code: reader.int16("error_code")?,
            error_message: reader.nullable_string("error_message", true)?,
            group_id: reader.string("group_id", true)?,
            group_state: reader.string("group_state", true)?,
            group_epoch: reader.int32("group_epoch")?,
            assignment_epoch: reader.int32("assignment_epoch")?,
            assignor_name: reader.string("assignor_name", true)?,
            members: reader.array("members", true, 16, |reader| Member::decode(reader, version))?,
            authorized_operations: reader.int32("authorized_operations")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::int16(out, self.error_code);
        writer::nullable_string(out, "error_message", self.error_message, true)?;
        writer::string(out, "group_id", self.group_id, true)?;
        writer::string(out, "group_state", self.group_state, true)?;
        writer::int32(out, self.group_epoch);
        writer::int32(out, self.assignment_epoch);
        writer::string(out, "assignor_name", self.assignor_name, true)?;
        writer::array(out, "members", &self.members, true, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.authorized_operations);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The members.
#[derive(Clone, Debug, PartialEq)]
pub struct Member<'a> {
    /// The member ID.
    pub member_id: &'a str,
    /// The member instance ID.
    pub instance_id: Option<&'a str>,
    /// The member rack ID.
    pub rack_id: Option<&'a str>,
    /// The current member epoch.
    pub member_epoch: i32,
    /// The client ID.
    pub client_id: &'a str,
    /// The client host.
    pub client_host: &'a str,
    /// The subscribed topic names.
    pub subscribed_topic_names: Vec<&'a str>,
    /// the subscribed topic regex otherwise or null of not provided.
    pub subscribed_topic_regex: Option<&'a str>,
    /// The current assignment.
    pub assignment: Assignment<'a>,
    /// The target assignment.
    pub target_assignment: Assignment<'a>,
    /// -1 for unknown. 0 for classic member. +1 for consumer member. Since version 1.
    pub member_type: i8,
}

impl Default for Member<'_> {
    fn default() -> Self {
        Self {
            member_id: "",
            instance_id: None,
            rack_id: None,
            member_epoch: 0,
            client_id: "",
            client_host: "",
            subscribed_topic_names: Vec::new(),
            subscribed_topic_regex: None,
            assignment: Assignment::default(),
            target_assignment: Assignment::default(),
            member_type: -1,
        }
    }
}

impl<'a> Member<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            member_id: reader.string("member_id", true)?,
            instance_id: reader.nullable_string("instance_id", true)?,
            rack_id: reader.nullable_string("rack_id", true)?,
            member_epoch: reader.int32("member_epoch")?,
            client_id: reader.string("client_id", true)?,
            client_host: reader.string("client_host", true)?,
            subscribed_topic_names: reader
                .array("subscribed_topic_names", true, 1, |reader| reader.string("subscribed_topic_names", true))?,
            subscribed_topic_regex: reader.nullable_string("subscribed_topic_regex", true)?,
            assignment: Assignment::decode(reader, version)?,
            target_assignment: Assignment::decode(reader, version)?,
            member_type: if version == 1 { reader.int8("member_type")? } else { -1 },
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::string(out, "member_id", self.member_id, true)?;
        writer::nullable_string(out, "instance_id", self.instance_id, true)?;
        writer::nullable_string(out, "rack_id", self.rack_id, true)?;
        writer::int32(out, self.member_epoch);
        writer::string(out, "client_id", self.client_id, true)?;
        writer::string(out, "client_host", self.client_host, true)?;
        writer::array(out, "subscribed_topic_names", &self.subscribed_topic_names, true, |out, value| {
            writer::string(out, "subscribed_topic_names", value, true)
        })?;
        writer::nullable_string(out, "subscribed_topic_regex", self.subscribed_topic_regex, true)?;
        self.assignment.encode_body(out, version)?;
        self.target_assignment.encode_body(out, version)?;
        if version == 1 {
            writer::int8(out, self.member_type);
        }
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
