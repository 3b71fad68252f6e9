//! Records as lines, JSON or by a template.

use std::io::{self, Write};
use std::str::FromStr;

use serde_json::{Value, json};

use super::consume_args::{ConsumeArgs, RecordFormat};
use super::produce_args::parse_separator;
use super::record_json;
use crate::record::record_fields::Record;

/// A record and where it was.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The time is the broker's.
    pub log_append_time: bool,
    /// Key, value, headers.
    pub record: &'a Record<'a>,
}

/// How records are printed.
#[derive(Clone, Debug)]
pub struct RecordPrinter {
    format: RecordFormat,
    key_separator: Option<String>,
    null: String,
    template: Template,
}

impl RecordPrinter {
    /// As the flags say.
    pub fn new(args: &ConsumeArgs) -> Self {
        Self::of(args.format, args.key_separator.clone(), args.null_value.clone(), args.template.clone())
    }

    /// In a format; `null` stands for a null.
    pub fn of(format: RecordFormat, key_separator: Option<String>, null: String, template: Template) -> Self {
        Self { format, key_separator, null, template }
    }

    /// Writes one record.
    pub fn print(&self, placed: &Placed<'_>, out: &mut dyn Write) -> io::Result<()> {
        let null = self.null.as_bytes();
        match self.format {
            RecordFormat::Lines => {
                if let Some(separator) = &self.key_separator {
                    out.write_all(placed.record.key.unwrap_or(null))?;
                    out.write_all(separator.as_bytes())?;
                }
                out.write_all(placed.record.value.unwrap_or(null))?;
                out.write_all(b"\n")
            }
            RecordFormat::Json => writeln!(out, "{}", as_json(placed)),
            RecordFormat::Template => self.template.print(placed, null, out),
        }
    }
}

fn as_json(placed: &Placed<'_>) -> Value {
    let headers: Vec<_> = placed
        .record
        .headers()
        .map(|(key, value)| json!({"key": record_json::of_bytes(Some(key)), "value": record_json::of_bytes(value)}))
        .collect();
    json!({
        "topic": placed.topic,
        "partition": placed.partition,
        "offset": placed.offset,
        "timestamp": placed.timestamp_ms,
        "timestamp_type": if placed.log_append_time { "LogAppendTime" } else { "CreateTime" },
        "key": record_json::of_bytes(placed.record.key),
        "value": record_json::of_bytes(placed.record.value),
        "headers": headers,
    })
}

/// What `--template` says, in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(char),
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            if character != '%' {
                plain.push(character);
                // A pair stays together, so that `\\%` is not taken for an escaped percent sign.
                if character == '\\' {
                    plain.extend(rest.next());
                }
                continue;
            }
            match rest.next() {
                Some('%') => plain.push('%'),
                Some(field) if FIELDS.contains(field) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(parse_separator(&std::mem::take(&mut plain))?));
                    }
                    pieces.push(Piece::Field(field));
                }
                _ => return Err("after % comes one of k v s h p o t T K S %".to_owned()),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(parse_separator(&plain)?));
        }
        Ok(Self { pieces })
    }
}

impl Template {
    fn print(&self, placed: &Placed<'_>, null: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let record = placed.record;
        let length = |field: Option<&[u8]>| field.map_or(-1, |field| i64::try_from(field.len()).unwrap_or(i64::MAX));
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.write_all(text.as_bytes())?,
                Piece::Field('k') => out.write_all(record.key.unwrap_or(null))?,
                Piece::Field('v' | 's') => out.write_all(record.value.unwrap_or(null))?,
                Piece::Field('K') => write!(out, "{}", length(record.key))?,
                Piece::Field('S') => write!(out, "{}", length(record.value))?,
                Piece::Field('p') => write!(out, "{}", placed.partition)?,
                Piece::Field('o') => write!(out, "{}", placed.offset)?,
                Piece::Field('T') => write!(out, "{}", placed.timestamp_ms)?,
                Piece::Field('h') => {
                    for (number, (key, value)) in record.headers().enumerate() {
                        out.write_all(if number > 0 { b"," } else { b"" })?;
                        out.write_all(key)?;
                        out.write_all(b"=")?;
                        // As kcat prints it.
                        out.write_all(value.unwrap_or(b"NULL"))?;
                    }
                }
                Piece::Field(_) => out.write_all(placed.topic.as_bytes())?,
            }
        }
        Ok(())
    }
}

const FIELDS: &str = "kvshpotTKS";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::builder::BatchBuilder;
    use crate::record::record_reader::read_records;

    fn printed(printer: &RecordPrinter, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        builder.add_with_headers(9, key, value, &[(b"a", Some(b"1")), (b"b", None)]);
        let batch = builder.build().expect("no compressor");
        let mut out = Vec::new();
        read_records(&batch, 1 << 20, |record| {
            let placed =
                Placed { topic: "t", partition: 3, offset: 77, timestamp_ms: 9, log_append_time: false, record };
            printer.print(&placed, &mut out).expect("memory");
        })
        .expect("built");
        out
    }

    fn printer(format: RecordFormat, template: &str) -> RecordPrinter {
        let template = template.parse().unwrap_or_else(|error| panic!("{template}: {error}"));
        RecordPrinter { format, key_separator: Some("=>".to_owned()), null: "~".to_owned(), template }
    }

    #[test]
    fn records_print_in_each_format() {
        let cases: [(RecordFormat, &str, &[u8]); 5] = [
            (RecordFormat::Lines, "", b"k=>v\xff\n"),
            (RecordFormat::Template, r"%t %p %o %T %k %v %K %S%%\n", b"t 3 77 9 k v\xff 1 2%\n"),
            (RecordFormat::Template, "%h|%s", b"a=1,b=NULL|v\xff"),
            (RecordFormat::Template, r"\\%k\t\x41", b"\\k\tA"),
            (
                RecordFormat::Json,
                "",
                br#"{"headers":[{"key":"a","value":"1"},{"key":"b","value":null}],"key":"k","offset":77,"partition":3,"timestamp":9,"timestamp_type":"CreateTime","topic":"t","value":{"base64":"dv8="}}
"#,
            ),
        ];
        for (format, template, expected) in cases {
            let out = printed(&printer(format, template), Some(b"k"), Some(b"v\xff"));
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(expected), "{template}");
        }
        assert_eq!(printed(&printer(RecordFormat::Lines, ""), None, None), b"~=>~\n");
        assert_eq!(printed(&printer(RecordFormat::Template, "%k%K%v%S"), None, None), b"~-1~-1");
        for wrong in ["%", "%x", "\\q"] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong}");
        }
    }
}
