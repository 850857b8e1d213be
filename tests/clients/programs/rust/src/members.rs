//! Members of groups: they join, take, commit and leave.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Value};

use crate::records::poll;
use crate::{Answer, Question, Refusal, State, WAIT};

pub struct Member {
    pub consumer: BaseConsumer,
    /// What came while nobody asked for records.
    early: Vec<Value>,
}

fn join(q: &Question) -> Result<Member, Refusal> {
    let mut config = q.config();
    config
        .set("group.id", q.text("group"))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "100");
    if q.text("protocol") == "consumer" {
        config.set("group.protocol", "consumer");
    } else {
        config.set("session.timeout.ms", "10000").set("heartbeat.interval.ms", "500");
    }
    let consumer: BaseConsumer = config.create()?;
    consumer.subscribe(&[q.topic()])?;
    Ok(Member { consumer, early: Vec::new() })
}

/// The offsets of a question as librdkafka wants them.
pub fn offsets(q: &Question) -> Result<TopicPartitionList, Refusal> {
    let mut places = TopicPartitionList::new();
    for (partition, offset) in q.part("offsets").as_object().into_iter().flatten() {
        let at = Offset::Offset(offset.as_i64().unwrap_or_default());
        places.add_partition_offset(q.topic(), partition.parse().unwrap_or_default(), at)?;
    }
    Ok(places)
}

pub fn answer(state: &mut State, q: &Question) -> Answer {
    let name = q.text("member");
    match q.text("verb") {
        "join" => {
            state.members.insert(name.to_owned(), join(q)?);
            return Ok(Value::Null);
        }
        "leave" => {
            state.members.remove(name);
            return Ok(Value::Null);
        }
        _ => {}
    }
    let member = state.members.get_mut(name).ok_or(Refusal::NotOffered)?;
    match q.text("verb") {
        "take" => {
            let mut records = std::mem::take(&mut member.early);
            let missing = (q.number("count") as usize).saturating_sub(records.len());
            records.extend(poll(&member.consumer, missing, WAIT)?);
            Ok(Value::Array(records))
        }
        "assigned" => {
            member.early.extend(poll(&member.consumer, usize::MAX, Duration::from_millis(100))?);
            let owned = member.consumer.assignment()?;
            Ok(json!(owned.elements().iter().map(|each| each.partition()).collect::<Vec<_>>()))
        }
        _ => {
            member.consumer.commit(&offsets(q)?, CommitMode::Sync)?;
            Ok(Value::Null)
        }
    }
}
