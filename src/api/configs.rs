//! DescribeConfigs: the settings of topics and brokers, and where each comes from.

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::control::config_rows::ConfigRow;
use crate::control::topic_config;
use crate::control::topic_name::check_topic_name;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use crate::wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use crate::wire::reader::Reader;

/// What is said of one resource.
struct Described {
    error: ErrorCode,
    message: Option<String>,
    rows: Vec<ConfigRow>,
}

impl Described {
    fn refused(error: ErrorCode, message: String) -> Self {
        Self { error, message: Some(message), rows: Vec::new() }
    }
}

/// Answers DescribeConfigs.
pub fn describe(shard: &Shard, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DescribeConfigsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    // As Kafka: a type that nobody knows is the whole request's error.
    let unknown = request.resources.iter().find(|resource| !RESOURCES_KNOWN.contains(&resource.resource_type));
    let describe = |resource| match unknown {
        None => one(shard, resource),
        Some(unknown) => {
            let message =
                format!("Unexpected resource type {} for resource {}", unknown.resource_type, unknown.resource_name);
            Described::refused(ErrorCode::InvalidRequest, message)
        }
    };
    let described: Vec<Described> = request.resources.iter().map(describe).collect();
    let results = request
        .resources
        .iter()
        .zip(&described)
        .map(|(resource, described)| DescribeConfigsResult {
            error_code: described.error.code(),
            error_message: described.message.as_deref(),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            configs: described
                .rows
                .iter()
                .filter(|row| is_asked(resource, row))
                .map(|row| encode_row(&request, context, row))
                .collect(),
        })
        .collect();
    let response = DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// `None` asks for all; an empty list too, as Kafka reads it.
fn is_asked(resource: &DescribeConfigsResource<'_>, row: &ConfigRow) -> bool {
    resource.configuration_keys.as_ref().is_none_or(|keys| keys.is_empty() || keys.contains(&row.name))
}

fn one(shard: &Shard, resource: &DescribeConfigsResource<'_>) -> Described {
    let config = &shard.options().broker_config;
    match resource.resource_type {
        RESOURCE_TOPIC => {
            if let Err(error) = check_topic_name(resource.resource_name) {
                return Described::refused(ErrorCode::InvalidTopicException, error.to_string());
            }
            match shard.snapshot().topic(resource.resource_name) {
                Some(topic) => Described {
                    error: ErrorCode::None,
                    message: None,
                    rows: topic_config::describe(&topic.configs, config),
                },
                None => {
                    let error = ErrorCode::UnknownTopicOrPartition;
                    Described::refused(error, error.default_message().to_owned())
                }
            }
        }
        RESOURCE_BROKER => match resource.resource_name.parse::<i32>() {
            // An empty name asks for what all brokers have in common that was set while they run: nothing here.
            _ if resource.resource_name.is_empty() => {
                Described { error: ErrorCode::None, message: None, rows: Vec::new() }
            }
            Ok(id) if id == shard.broker_id() => {
                Described { error: ErrorCode::None, message: None, rows: config.describe() }
            }
            Ok(id) => Described::refused(
                ErrorCode::InvalidRequest,
                format!("Unexpected broker id, expected {} or empty string, but received {id}", shard.broker_id()),
            ),
            Err(_) => Described::refused(
                ErrorCode::InvalidRequest,
                format!("Broker id must be an integer, but it is: {}", resource.resource_name),
            ),
        },
        other => Described::refused(ErrorCode::InvalidRequest, format!("Unsupported resource type: {other}")),
    }
}

fn encode_row<'a>(
    request: &DescribeConfigsRequest<'_>,
    context: &RequestContext,
    row: &'a ConfigRow,
) -> DescribeConfigsResourceResult<'a> {
    let synonyms = row.synonyms.iter().map(|synonym| DescribeConfigsSynonym {
        name: synonym.name,
        value: Some(&synonym.value),
        source: synonym.source as i8,
    });
    let mut result = DescribeConfigsResourceResult {
        name: row.name,
        value: row.value.as_deref(),
        read_only: row.read_only,
        config_source: row.source as i8,
        is_sensitive: row.sensitive,
        synonyms: if request.include_synonyms { synonyms.collect() } else { Vec::new() },
        ..DescribeConfigsResourceResult::default()
    };
    if context.api_version >= 3 {
        result.config_type = row.kind as i8;
        result.documentation = request.include_documentation.then_some(row.documentation);
    }
    result
}

const RESOURCE_TOPIC: i8 = 2;
const RESOURCE_BROKER: i8 = 4;
/// Topic, broker, broker logger, client metrics, group.
const RESOURCES_KNOWN: [i8; 5] = [RESOURCE_TOPIC, RESOURCE_BROKER, 8, 16, 32];
