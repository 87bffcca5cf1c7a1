//! What a query finds, line by line: elements with their keys, and gaps and expired ranges in their places.

use super::{human, json};
use crate::show::out::Out;
use forebay_client::Event;
use forebay_model::Result;
use forebay_model::key::{KeySet, KeyValue};
use forebay_model::ring::RingSpec;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// How elements are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line each, for people.
    Lines,
    /// The same with the bytes in hexadecimal.
    Hex,
    /// The bytes alone, as they are: not for [`Elements`].
    Raw,
    /// A JSON value each.
    Json,
    /// A JSON value each, with the bytes in hexadecimal.
    JsonHex,
}

/// Writes events.
pub struct Elements {
    keys: KeySet,
    values: Vec<KeyValue>,
    form: Form,
    line: String,
}

impl Elements {
    /// For a ring created like `spec`.
    pub fn new(spec: &RingSpec, form: Form) -> Result<Elements> {
        let keys = spec.key_set()?;
        let values = vec![KeyValue::MISSING; keys.len()];
        Ok(Elements { keys, values, form, line: String::new() })
    }

    /// Writes one event.
    pub fn write(&mut self, event: &Event<'_>, out: &mut Out) -> Result<()> {
        let with_json = matches!(self.form, Form::Json | Form::JsonHex);
        match *event {
            Event::Element { sequence, time, payload, caller, cut } => {
                self.keys.extract(payload, caller, &mut self.values);
                if with_json {
                    let mut keys = Map::new();
                    for (spec, value) in self.keys.specs().iter().zip(&self.values) {
                        if *value != KeyValue::MISSING {
                            keys.insert(spec.name().to_string(), Value::String(spec.show(*value).to_string()));
                        }
                    }
                    let mut value = json!({
                        "type": "element", "sequence": sequence, "time": json::time(time), "length": payload.len(),
                        "keys": keys,
                    });
                    if cut > 0 {
                        value["original_length"] = json!(payload.len() as u64 + u64::from(cut));
                    }
                    if self.form == Form::JsonHex {
                        value["hex"] = Value::String(hex(payload));
                    }
                    return out.json(&value);
                }
                self.line.clear();
                let _ = write!(self.line, "{time}  {sequence}  {} B", payload.len());
                if cut > 0 {
                    let _ = write!(self.line, " of {}", payload.len() as u64 + u64::from(cut));
                }
                for (spec, value) in self.keys.specs().iter().zip(&self.values) {
                    if *value != KeyValue::MISSING {
                        let _ = write!(self.line, "  {}={}", spec.name(), spec.show(*value));
                    }
                }
                out.line(&self.line)?;
                if self.form == Form::Hex { dump(payload, out) } else { Ok(()) }
            }
            Event::Gap(gap) if with_json => out.json(&json::gap(&gap)),
            Event::Gap(gap) => out.line(format_args!("-- gap: {gap}")),
            Event::Expired { from, to } if with_json => out.json(&json!({ "type": "expired", "from": from, "to": to })),
            Event::Expired { from, to } => out.line(format_args!(
                "-- expired: {} elements before sequence {to} (from {from}) have been overwritten",
                human::count(to.saturating_sub(from))
            )),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Sixteen bytes a line: offset, hexadecimal, printable characters.
fn dump(bytes: &[u8], out: &mut Out) -> Result<()> {
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let digits: Vec<String> = chunk.iter().map(|b| format!("{b:02x}")).collect();
        let text: String =
            chunk.iter().map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' }).collect();
        out.line(format_args!("    {:06x}  {:<47}  {text}", row * 16, digits.join(" ")))?;
    }
    Ok(())
}
