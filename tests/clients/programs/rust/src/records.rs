//! Writing and reading, and records as JSON.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, DeliveryResult, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Value};

use crate::{Answer, Question, Refusal, WAIT};

/// Remembers what became of each record.
#[derive(Default)]
pub struct Deliveries {
    told: Mutex<Vec<Result<i64, KafkaError>>>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let one = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, _)) => Err(error.clone()),
        };
        self.told.lock().unwrap().push(one);
    }
}

pub type Writer = BaseProducer<Deliveries>;

fn unpacked(text: &Value) -> Option<Vec<u8>> {
    text.as_str().map(|text| STANDARD.decode(text).expect("base64"))
}

fn packed(data: Option<&[u8]>) -> Value {
    data.map_or(Value::Null, |data| Value::from(STANDARD.encode(data)))
}

/// Writes all records of the question, in order, and gives back their offsets.
pub fn write(producer: &Writer, q: &Question) -> Result<Vec<i64>, Refusal> {
    for one in q.part("records").as_array().into_iter().flatten() {
        let (key, value) = (unpacked(&one["key"]), unpacked(&one["value"]));
        let mut record = BaseRecord::<Vec<u8>, Vec<u8>>::to(q.topic()).partition(q.partition());
        record.key = key.as_ref();
        record.payload = value.as_ref();
        record.timestamp = one["timestamp"].as_i64();
        let headers = one["headers"].as_array().into_iter().flatten();
        record.headers = headers.fold(None, |before: Option<OwnedHeaders>, header| {
            let (name, value) = (header[0].as_str().unwrap_or_default(), unpacked(&header[1]));
            Some(before.unwrap_or_default().insert(Header { key: name, value: value.as_ref() }))
        });
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(WAIT)?;
    let told = std::mem::take(&mut *producer.context().told.lock().unwrap());
    Ok(told.into_iter().collect::<Result<Vec<i64>, KafkaError>>()?)
}

pub fn produce(q: &Question) -> Answer {
    let mut config = q.config();
    config
        .set("acks", q.number("acks").to_string())
        .set("compression.type", q.text("codec"))
        .set("enable.idempotence", q.is("idempotent").to_string())
        .set("linger.ms", "20")
        .set("message.max.bytes", "2000000")
        .set("message.timeout.ms", "20000");
    let producer: Writer = config.create_with_context(Deliveries::default())?;
    let offsets = write(&producer, q)?;
    Ok(if q.number("acks") == 0 { json!([]) } else { json!(offsets) })
}

pub fn read(q: &Question) -> Answer {
    let mut config = q.config();
    config
        .set("group.id", "matrix-reader")
        .set("enable.auto.commit", "false")
        .set("isolation.level", if q.is("committed") { "read_committed" } else { "read_uncommitted" })
        .set("fetch.wait.max.ms", "100");
    let consumer: BaseConsumer = config.create()?;
    let mut place = TopicPartitionList::new();
    match q.part("timestamp").as_i64() {
        Some(at) => {
            place.add_partition_offset(q.topic(), q.partition(), Offset::Offset(at))?;
            place = consumer.offsets_for_times(place, WAIT)?;
        }
        None => place.add_partition_offset(q.topic(), q.partition(), Offset::Offset(q.number("offset")))?,
    }
    consumer.assign(&place)?;
    Ok(Value::Array(poll(&consumer, q.number("count") as usize, WAIT)?))
}

/// Up to that many records; fewer when no more came in time.
pub fn poll<C: ConsumerContext>(consumer: &BaseConsumer<C>, count: usize, patience: Duration) -> Result<Vec<Value>, Refusal> {
    let (mut records, over) = (Vec::new(), Instant::now() + patience);
    while records.len() < count && Instant::now() < over {
        if let Some(message) = consumer.poll(Duration::from_millis(20)) {
            records.push(incoming(&message?));
        }
    }
    Ok(records)
}

fn incoming(message: &BorrowedMessage<'_>) -> Value {
    let headers: Vec<Value> = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|header| json!([header.key, packed(header.value)])).collect()
    });
    json!({
        "key": packed(message.key()),
        "value": packed(message.payload()),
        "headers": headers,
        "timestamp": message.timestamp().to_millis(),
        "partition": message.partition(),
        "offset": message.offset(),
    })
}
