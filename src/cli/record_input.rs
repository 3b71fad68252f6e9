//! Records out of lines: a value, a key and a value, or a JSON object.

use serde_json::{Map, Value};

use super::produce_args::{LineFormat, ProduceArgs};
use super::record_json;

/// Name and value of a header.
pub type Header = (Vec<u8>, Option<Vec<u8>>);

/// A record to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Vec<Header>,
    /// The partition that it names.
    pub partition: Option<i32>,
    /// The time that it names, in milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
}

/// How lines are read.
#[derive(Clone, Debug)]
pub struct RecordInput {
    format: LineFormat,
    key_separator: Option<Vec<u8>>,
    null_value: Option<Vec<u8>>,
    headers: Vec<Header>,
    partition: Option<i32>,
    timestamp_ms: Option<i64>,
}

impl RecordInput {
    /// As the flags say.
    pub fn new(args: &ProduceArgs) -> Self {
        let header = |(key, value): &(String, String)| (key.clone().into_bytes(), Some(value.clone().into_bytes()));
        Self {
            format: args.format,
            key_separator: args.key_separator.clone().map(String::into_bytes),
            null_value: args.null_value.clone().map(String::into_bytes),
            headers: args.headers.iter().map(header).collect(),
            partition: args.partition,
            timestamp_ms: args.timestamp,
        }
    }

    /// Reads one line, without its end. `None` for an empty line between JSON objects.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the line.
    pub fn read(&self, line: &[u8]) -> Result<Option<NewRecord>, String> {
        let mut record = match self.format {
            LineFormat::Lines => self.read_plain(line),
            LineFormat::Json if line.iter().all(u8::is_ascii_whitespace) => return Ok(None),
            LineFormat::Json => read_json(line)?,
        };
        record.headers.extend(self.headers.iter().cloned());
        record.partition = record.partition.or(self.partition);
        record.timestamp_ms = record.timestamp_ms.or(self.timestamp_ms);
        Ok(Some(record))
    }

    fn read_plain(&self, line: &[u8]) -> NewRecord {
        let split = self.key_separator.as_ref().and_then(|separator| {
            let at = line.windows(separator.len()).position(|window| window == separator)?;
            Some((line.get(..at)?, line.get(at + separator.len()..)?))
        });
        let (key, value) = match split {
            Some((key, value)) => (Some(key.to_vec()), value),
            None => (None, line),
        };
        let is_null = self.null_value.as_deref() == Some(value);
        NewRecord { key, value: (!is_null).then(|| value.to_vec()), ..NewRecord::default() }
    }
}

fn read_json(line: &[u8]) -> Result<NewRecord, String> {
    let parsed: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(fields) = parsed else {
        return Err("not a JSON object: write {\"key\": ..., \"value\": ...}".to_owned());
    };
    let mut record = NewRecord::default();
    for (name, value) in fields {
        let of_field = |error| format!("{name}: {error}");
        match name.as_str() {
            "key" => record.key = record_json::to_bytes(&value).map_err(of_field)?,
            "value" => record.value = record_json::to_bytes(&value).map_err(of_field)?,
            "headers" => record.headers = read_headers(value).map_err(of_field)?,
            "partition" if value.is_null() => {}
            "partition" => {
                let index = value.as_i64().and_then(|index| i32::try_from(index).ok()).filter(|index| *index >= 0);
                record.partition = Some(index.ok_or_else(|| of_field("not the number of a partition".to_owned()))?);
            }
            "timestamp" if value.is_null() => {}
            "timestamp" => {
                let time = value.as_i64().or_else(|| super::offset_place::parse_time(value.as_str()?).ok());
                record.timestamp_ms = Some(time.ok_or_else(|| of_field("no time".to_owned()))?);
            }
            // `consume` prints them; they say where a record was.
            "topic" | "offset" | "timestamp_type" => {}
            _ => return Err(format!("{name:?} is none of key, value, headers, partition, timestamp")),
        }
    }
    Ok(record)
}

/// Either `{"name": value}` or, where names repeat, `[{"key": name, "value": value}]`.
fn read_headers(value: Value) -> Result<Vec<Header>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| Ok((key.into_bytes(), record_json::to_bytes(&value)?))).collect()
        }
        Value::Array(headers) => headers.iter().map(|header| read_header(header.as_object())).collect(),
        _ => Err("neither an object nor an array of {\"key\": ..., \"value\": ...}".to_owned()),
    }
}

fn read_header(header: Option<&Map<String, Value>>) -> Result<Header, String> {
    let header = header.ok_or("a header is no object with key and value")?;
    let key = header.get("key").map(record_json::to_bytes).transpose()?.flatten();
    let key = key.ok_or("a header without a key")?;
    Ok((key, header.get("value").map(record_json::to_bytes).transpose()?.flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(format: LineFormat) -> RecordInput {
        RecordInput {
            format,
            key_separator: Some(b"::".to_vec()),
            null_value: Some(b"NULL".to_vec()),
            headers: vec![(b"h".to_vec(), Some(b"1".to_vec()))],
            partition: None,
            timestamp_ms: Some(5),
        }
    }

    #[test]
    fn lines_have_keys_and_nulls() {
        let input = input(LineFormat::Lines);
        type Case<'a> = (&'a [u8], Option<&'a [u8]>, Option<&'a [u8]>);
        let cases: [Case<'_>; 6] = [
            (b"k::v", Some(b"k"), Some(b"v")),
            (b"v", None, Some(b"v")),
            (b"::", Some(b""), Some(b"")),
            (b"a::b::c", Some(b"a"), Some(b"b::c")),
            (b"k::NULL", Some(b"k"), None),
            (b"\xff::\0", Some(b"\xff"), Some(b"\0")),
        ];
        for (line, key, value) in cases {
            let record = input.read(line).expect("a line").expect("a record");
            assert_eq!((record.key.as_deref(), record.value.as_deref()), (key, value), "{line:?}");
            assert_eq!((record.headers.len(), record.timestamp_ms), (1, Some(5)));
        }
    }

    #[test]
    fn json_has_all_of_a_record() {
        let input = input(LineFormat::Json);
        let line = br#"{"key":"k","value":{"base64":"/wA="},"headers":[{"key":"a","value":null}],"partition":3,
            "timestamp":"1970-01-01T00:00:01Z","topic":"t","offset":4}"#;
        let record = input.read(line).expect("JSON").expect("a record");
        assert_eq!(record.key.as_deref(), Some(&b"k"[..]));
        assert_eq!(record.value.as_deref(), Some(&b"\xff\0"[..]));
        assert_eq!(record.headers, [(b"a".to_vec(), None), (b"h".to_vec(), Some(b"1".to_vec()))]);
        assert_eq!((record.partition, record.timestamp_ms), (Some(3), Some(1000)));
        let record = input.read(br#"{"value":{"n":1},"headers":{"x":"y"}}"#).expect("JSON").expect("a record");
        assert_eq!((record.key, record.value), (None, Some(br#"{"n":1}"#.to_vec())));
        assert_eq!(record.headers.len(), 2);
        assert_eq!(input.read(b"  "), Ok(None));
        for wrong in ["{", "[]", "{\"valeu\":1}", "{\"partition\":-1}", "{\"value\":{\"base64\":1}}", "{\"headers\":3}"]
        {
            assert!(input.read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
