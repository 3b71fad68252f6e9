//! Kafka's messages, written by `scripts/generate-wire`; do not edit.
//!
//! Fields are Kafka's; one that a version lacks has its default after decoding.

pub mod alter_configs_request;
pub mod alter_configs_response;
pub mod api_versions_request;
pub mod api_versions_response;
pub mod create_partitions_request;
pub mod create_partitions_response;
pub mod create_topics_request;
pub mod create_topics_response;
pub mod delete_records_request;
pub mod delete_records_response;
pub mod delete_topics_request;
pub mod delete_topics_response;
pub mod describe_cluster_request;
pub mod describe_cluster_response;
pub mod describe_configs_request;
pub mod describe_configs_response;
pub mod describe_log_dirs_request;
pub mod describe_log_dirs_response;
pub mod describe_topic_partitions_request;
pub mod describe_topic_partitions_response;
pub mod fetch_request;
pub mod fetch_response;
pub mod find_coordinator_request;
pub mod find_coordinator_response;
pub mod incremental_alter_configs_request;
pub mod incremental_alter_configs_response;
pub mod init_producer_id_request;
pub mod init_producer_id_response;
pub mod list_offsets_request;
pub mod list_offsets_response;
pub mod metadata_request;
pub mod metadata_response;
pub mod offset_for_leader_epoch_request;
pub mod offset_for_leader_epoch_response;
pub mod produce_request;
pub mod produce_response;
pub mod request_header;
pub mod response_header;
