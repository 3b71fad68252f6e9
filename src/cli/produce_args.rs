//! Flags of `alluvium produce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::args::{Acks, BenchCompression, ConnectArgs};
use super::byte_size;

/// Flags of `alluvium produce`.
#[derive(Clone, Debug, Args)]
#[command(after_help = PRODUCE_EXAMPLES)]
pub struct ProduceArgs {
    /// The topic
    pub topic: String,
    /// Read this file instead of standard input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// What a line is: a value (with a key before it where --key-separator says so), or a JSON object
    #[arg(long, value_enum, default_value_t = LineFormat::Lines)]
    pub format: LineFormat,
    /// What stands between key and value; a line without it has no key
    #[arg(long, value_name = "TEXT", value_parser = parse_separator)]
    pub key_separator: Option<String>,
    /// A value that stands for null
    #[arg(long, value_name = "MARKER")]
    pub null_value: Option<String>,
    /// A header of every record; may be given several times
    #[arg(long = "header", visible_alias = "headers", value_name = "KEY=VALUE", value_parser = parse_header)]
    pub headers: Vec<(String, String)>,
    /// Write to this partition; otherwise by the key, as the Java client does, and without a key to one after another
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub partition: Option<i32>,
    /// The records' time: RFC 3339 (2026-01-31T12:00:00Z) or milliseconds since 1970 [default: when they are read]
    #[arg(long, value_name = "TIME", value_parser = super::offset_place::parse_time)]
    pub timestamp: Option<i64>,
    /// How batches are compressed
    #[arg(long, value_enum, default_value_t = BenchCompression::None)]
    pub compression: BenchCompression,
    /// What the server waits for before it answers
    #[arg(long, value_enum, default_value_t = Acks::All)]
    pub acks: Acks,
    /// Size of a batch before compression; a longer record has one for itself
    #[arg(long, value_name = "SIZE", default_value = "512K", value_parser = byte_size::parse_int32)]
    pub batch_bytes: u32,
    /// How long a batch that is not full waits for more lines, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub linger_ms: u32,
    /// No duplicates and no gaps when a request is tried again [default: true with --acks all]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub idempotent: Option<bool>,
    /// How long a batch is tried again before it is given up, in seconds
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub delivery_seconds: u32,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// What a line of the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// Bytes up to the line's end
    Lines,
    /// {"key": ..., "value": ..., "headers": {...}, "partition": 0, "timestamp": 0}; other bytes than text as {"base64": "..."}
    Json,
}

/// A separator as it is typed: `\t`, `\n`, `\0`, `\\` and `\xHH` are single characters.
pub fn parse_separator(text: &str) -> Result<String, String> {
    let mut separator = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            separator.push(character);
            continue;
        }
        separator.push(match rest.next() {
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('0') => '\0',
            Some('\\') => '\\',
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                match u8::from_str_radix(&digits, 16) {
                    Ok(byte) if byte.is_ascii() && digits.len() == 2 => char::from(byte),
                    _ => return Err("\\x needs two hexadecimal digits, up to \\x7f".to_owned()),
                }
            }
            _ => return Err("\\t, \\n, \\r, \\0, \\\\ and \\xHH are known".to_owned()),
        });
    }
    if separator.is_empty() {
        return Err("write at least one character".to_owned());
    }
    Ok(separator)
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err("write KEY=VALUE".to_owned()),
    }
}

const PRODUCE_EXAMPLES: &str = "\
At the end, also after an error, standard error has a report of what was acknowledged, and where.

Examples:
  seq 1000 | alluvium produce numbers
  printf 'a:1\\nb:2\\n' | alluvium produce pairs --key-separator : --header source=shell
  alluvium produce events --format json --file events.json --compression zstd
  alluvium consume old --exit-at-end --format json | alluvium produce new --format json";

#[cfg(test)]
mod tests {
    use super::parse_separator;

    #[test]
    fn separators_are_read_as_typed() {
        for (text, separator) in [(":", ":"), ("\\t", "\t"), ("\\x1f|", "\x1f|"), ("\\\\", "\\"), ("é", "é")] {
            assert_eq!(parse_separator(text).as_deref(), Ok(separator), "{text}");
        }
        for text in ["", "\\", "\\q", "\\x1", "\\xff", "\\xzz"] {
            assert!(parse_separator(text).is_err(), "{text}");
        }
    }
}
