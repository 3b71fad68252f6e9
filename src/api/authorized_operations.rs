//! What anyone may do where nothing is forbidden, as Kafka's bits say it.

/// Bits of Kafka's `AclOperation` codes, as 32-bit fields of Metadata and DescribeCluster have them.
const fn bits(operations: &[u8]) -> i32 {
    let mut bits = 0;
    let mut at = 0;
    while at < operations.len() {
        bits |= 1 << operations[at];
        at += 1;
    }
    bits
}

const READ: u8 = 3;
const WRITE: u8 = 4;
const CREATE: u8 = 5;
const DELETE: u8 = 6;
const ALTER: u8 = 7;
const DESCRIBE: u8 = 8;
const CLUSTER_ACTION: u8 = 9;
const DESCRIBE_CONFIGS: u8 = 10;
const ALTER_CONFIGS: u8 = 11;
const IDEMPOTENT_WRITE: u8 = 12;

/// Of a topic.
pub const TOPIC_OPERATIONS: i32 =
    bits(&[READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS]);
/// Of a group.
pub const GROUP_OPERATIONS: i32 = bits(&[READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS]);
/// Of the cluster.
pub const CLUSTER_OPERATIONS: i32 =
    bits(&[CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_what_kafka_says_without_an_authorizer() {
        assert_eq!((TOPIC_OPERATIONS, CLUSTER_OPERATIONS), (3576, 8096));
    }
}
