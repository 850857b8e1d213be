//! Topics, their settings and offsets, and groups.

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Map, Value};

use crate::{Answer, Question, Refusal, WAIT};

/// The one result of a question about one thing.
fn only<T>(results: Vec<Result<T, (String, RDKafkaErrorCode)>>) -> Answer {
    match results.into_iter().next() {
        Some(Err((_, code))) => Err(code.into()),
        _ => Ok(Value::Null),
    }
}

pub fn answer(q: &Question) -> Answer {
    match q.text("verb") {
        "list_topics" | "partitions_of" | "offset_of" | "groups" | "committed" => look(q),
        _ => change(q),
    }
}

fn change(q: &Question) -> Answer {
    let admin: AdminClient<DefaultClientContext> = q.config().create()?;
    let options = AdminOptions::new().operation_timeout(Some(WAIT)).request_timeout(Some(WAIT));
    let topic = q.topic();
    match q.text("verb") {
        "create_topic" => {
            let mut new = NewTopic::new(topic, q.number("partitions") as i32, TopicReplication::Fixed(1));
            for (name, value) in q.part("config").as_object().into_iter().flatten() {
                new = new.set(name, value.as_str().unwrap_or_default());
            }
            only(block_on(admin.create_topics([&new], &options))?)
        }
        "delete_topic" => only(block_on(admin.delete_topics(&[topic], &options))?),
        "grow_topic" => {
            let grown = NewPartitions::new(topic, q.number("partitions") as usize);
            only(block_on(admin.create_partitions([&grown], &options))?)
        }
        "set_config" => {
            let config = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(q.text("name"), q.text("value"));
            match block_on(admin.alter_configs([&config], &options))?.into_iter().next() {
                Some(Err((_, code))) => Err(code.into()),
                _ => Ok(Value::Null),
            }
        }
        "get_config" => {
            let told = block_on(admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options))?;
            let resource = told.into_iter().next().ok_or(Refusal::NotOffered)??;
            Ok(json!(resource.get(q.text("name")).and_then(|entry| entry.value.clone())))
        }
        "delete_group" => only(block_on(admin.delete_groups(&[q.text("group")], &options))?),
        _ => Err(Refusal::NotOffered),
    }
}

fn look(q: &Question) -> Answer {
    let group = if q.text("group").is_empty() { "matrix-looker" } else { q.text("group") };
    let consumer: BaseConsumer = q.config().set("group.id", group).create()?;
    let (topic, partition) = (q.topic(), q.partition());
    match q.text("verb") {
        "list_topics" => {
            let told = consumer.fetch_metadata(None, WAIT)?;
            Ok(json!(told.topics().iter().map(|each| each.name()).collect::<Vec<_>>()))
        }
        "partitions_of" => {
            let told = consumer.fetch_metadata(None, WAIT)?;
            let found = told.topics().iter().find(|each| each.name() == topic);
            Ok(json!(found.map_or(0, |each| each.partitions().len())))
        }
        "offset_of" if q.number("at") < 0 => {
            let (low, high) = consumer.fetch_watermarks(topic, partition, WAIT)?;
            Ok(json!(if q.number("at") == -2 { low } else { high }))
        }
        "offset_of" => {
            let mut asked = TopicPartitionList::new();
            asked.add_partition_offset(topic, partition, Offset::Offset(q.number("at")))?;
            let found = consumer.offsets_for_times(asked, WAIT)?;
            Ok(json!(found.elements().first().and_then(|each| each.offset().to_raw())))
        }
        "groups" => {
            let told = consumer.fetch_group_list(None, WAIT)?;
            Ok(json!(told.groups().iter().map(|each| each.name()).collect::<Vec<_>>()))
        }
        _ => {
            let partitions = consumer.fetch_metadata(Some(topic), WAIT)?.topics()[0].partitions().len();
            let mut asked = TopicPartitionList::new();
            asked.add_partition_range(topic, 0, partitions as i32 - 1);
            let found = consumer.committed_offsets(asked, WAIT)?;
            let told: Map<String, Value> = found
                .elements()
                .iter()
                .filter_map(|each| match each.offset() {
                    Offset::Offset(offset) => Some((each.partition().to_string(), json!(offset))),
                    _ => None,
                })
                .collect();
            Ok(Value::Object(told))
        }
    }
}
