//! rust-rdkafka, asked by the scenarios of the client matrix: a JSON question a line, a JSON answer each.

mod admin;
mod members;
mod records;
mod transactions;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde_json::{json, Value};

pub const WAIT: Duration = Duration::from_secs(20);

/// Why a question has no answer.
pub enum Refusal {
    Kafka(KafkaError),
    NotOffered,
}

impl From<KafkaError> for Refusal {
    fn from(error: KafkaError) -> Self {
        Refusal::Kafka(error)
    }
}

impl From<RDKafkaErrorCode> for Refusal {
    fn from(code: RDKafkaErrorCode) -> Self {
        Refusal::Kafka(KafkaError::Global(code))
    }
}

pub type Answer = Result<Value, Refusal>;

/// A question, by the names of its parts.
pub struct Question(Value);

impl Question {
    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> i64 {
        self.0[name].as_i64().unwrap_or_default()
    }

    pub fn is(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap_or_default()
    }

    pub fn part(&self, name: &str) -> &Value {
        &self.0[name]
    }

    pub fn topic(&self) -> &str {
        self.text("topic")
    }

    pub fn partition(&self) -> i32 {
        self.number("partition") as i32
    }

    /// The settings that every client of this question has.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.text("bootstrap")).set("log_level", "0");
        let door = self.part("door");
        for (setting, name) in [
            ("security.protocol", "protocol"),
            ("ssl.ca.location", "ca"),
            ("sasl.mechanism", "mechanism"),
            ("sasl.username", "user"),
            ("sasl.password", "password"),
        ] {
            if let Some(value) = door[name].as_str().filter(|value| !value.is_empty()) {
                config.set(setting, value);
            }
        }
        config
    }
}

/// What lives longer than one question.
#[derive(Default)]
pub struct State {
    pub members: HashMap<String, members::Member>,
    pub producers: HashMap<String, records::Writer>,
}

fn answer(state: &mut State, q: &Question) -> Answer {
    match q.text("verb") {
        "produce" => records::produce(q),
        "read" => records::read(q),
        "join" | "take" | "assigned" | "commit" | "leave" => members::answer(state, q),
        "open_producer" | "begin" | "send" | "send_offsets" | "end" | "close_producer" => transactions::answer(state, q),
        _ => admin::answer(q),
    }
}

fn told(verb: &str, result: Answer) -> Value {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(Refusal::NotOffered) => json!({ "error": verb, "not_offered": true }),
        Err(Refusal::Kafka(error)) => {
            let code = error.rdkafka_error_code();
            let fenced = matches!(
                code,
                Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch)
            );
            if fenced {
                json!({ "error": error.to_string(), "fenced": true })
            } else {
                json!({ "error": error.to_string() })
            }
        }
    }
}

fn main() -> io::Result<()> {
    let mut state = State::default();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let q = Question(serde_json::from_str(&line?)?);
        let result = answer(&mut state, &q);
        writeln!(out, "{}", told(q.text("verb"), result))?;
        out.flush()?;
    }
    Ok(())
}
