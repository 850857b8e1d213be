//! Transactional producers.

use rdkafka::consumer::Consumer;
use rdkafka::producer::Producer;
use serde_json::Value;

use crate::records::{write, Deliveries, Writer};
use crate::{members, Answer, Question, Refusal, State, WAIT};

fn open(q: &Question) -> Result<Writer, Refusal> {
    let mut config = q.config();
    config
        .set("transactional.id", q.text("transactional_id"))
        .set("transaction.timeout.ms", "30000")
        .set("linger.ms", "5");
    let producer: Writer = config.create_with_context(Deliveries::default())?;
    producer.init_transactions(WAIT)?;
    Ok(producer)
}

pub fn answer(state: &mut State, q: &Question) -> Answer {
    let name = q.text("producer");
    match q.text("verb") {
        "open_producer" => {
            state.producers.insert(name.to_owned(), open(q)?);
            return Ok(Value::Null);
        }
        "close_producer" => {
            state.producers.remove(name);
            return Ok(Value::Null);
        }
        _ => {}
    }
    let producer = state.producers.get(name).ok_or(Refusal::NotOffered)?;
    match q.text("verb") {
        "begin" => producer.begin_transaction()?,
        "send" => {
            write(producer, q)?;
        }
        "send_offsets" => {
            let member = state.members.get(q.text("member")).ok_or(Refusal::NotOffered)?;
            let group = member.consumer.group_metadata().ok_or(Refusal::NotOffered)?;
            producer.send_offsets_to_transaction(&members::offsets(q)?, &group, WAIT)?;
        }
        _ if q.is("commit") => producer.commit_transaction(WAIT)?,
        _ => producer.abort_transaction(WAIT)?,
    }
    Ok(Value::Null)
}
