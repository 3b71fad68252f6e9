//! Keys, values and headers in JSON: text as it is, other bytes in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A string where the bytes are UTF-8, `{"base64": "..."}` where they are not, null for null.
pub fn of_bytes(bytes: Option<&[u8]>) -> Value {
    match bytes {
        None => Value::Null,
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json!({"base64": STANDARD.encode(bytes)}),
        },
    }
}

/// The bytes again; a number or other JSON stands for its own text.
///
/// # Errors
/// A sentence, where `base64` is there and is none.
pub fn to_bytes(value: &Value) -> Result<Option<Vec<u8>>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone().into_bytes())),
        Value::Object(fields) if fields.len() == 1 && fields.contains_key("base64") => {
            let text = fields.get("base64").and_then(Value::as_str).ok_or("\"base64\" holds no string")?;
            STANDARD.decode(text).map(Some).map_err(|error| format!("\"base64\": {error}"))
        }
        other => Ok(Some(other.to_string().into_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let cases: [(Option<&[u8]>, Value); 5] = [
            (None, Value::Null),
            (Some(b""), json!("")),
            (Some("tschüß \0 \"x\"".as_bytes()), json!("tschüß \0 \"x\"")),
            (Some(b"\xff\x00\x01"), json!({"base64": "/wAB"})),
            (Some(b"{\"base64\": \"/wAB\"}"), json!("{\"base64\": \"/wAB\"}")),
        ];
        for (bytes, value) in cases {
            assert_eq!(of_bytes(bytes), value);
            assert_eq!(to_bytes(&value).as_ref().map(Option::as_deref), Ok(bytes), "{value}");
        }
        assert_eq!(to_bytes(&json!({"a": 1})), Ok(Some(b"{\"a\":1}".to_vec())));
        assert!(to_bytes(&json!({"base64": "?"})).is_err());
    }
}
