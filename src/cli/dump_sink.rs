//! Where a dump goes: rows as lines of text or of JSON, and what is wrong with each file.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::args::OutputFormat;

/// One line of a dump: a kind and named fields, in order.
#[derive(Clone, Debug)]
pub struct Row {
    kind: &'static str,
    fields: Vec<(&'static str, Value)>,
}

impl Row {
    /// A row without fields.
    pub fn new(kind: &'static str) -> Self {
        Self { kind, fields: Vec::new() }
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Adds a field where there is something to say.
    #[must_use]
    pub fn maybe(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn text(&self) -> String {
        let mut line = self.kind.to_owned();
        for (name, value) in &self.fields {
            // Writing to a String cannot fail.
            let _ = match value {
                Value::String(word) if is_plain(word) => write!(line, " {name}={word}"),
                other => write!(line, " {name}={other}"),
            };
        }
        line
    }

    fn json(&self, file: &str) -> String {
        let mut object = Map::new();
        object.insert("kind".to_owned(), self.kind.into());
        object.insert("file".to_owned(), file.into());
        object.extend(self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Value::Object(object).to_string()
    }
}

/// The dump of one file on its way out.
pub struct FileDump<'a> {
    out: &'a mut dyn Write,
    format: OutputFormat,
    file: String,
    /// How many entries may still be printed.
    left: u64,
    entry_count: u64,
    problem_count: u64,
    first_problem: Option<(u64, String)>,
}

impl<'a> FileDump<'a> {
    /// Begins with the file's name.
    pub fn begin(
        out: &'a mut dyn Write,
        format: OutputFormat,
        file: String,
        kind: &'static str,
        file_bytes: u64,
        limit: Option<u64>,
    ) -> io::Result<Self> {
        let mut dump = Self {
            out,
            format,
            file,
            left: limit.unwrap_or(u64::MAX),
            entry_count: 0,
            problem_count: 0,
            first_problem: None,
        };
        let name = dump.file.clone();
        let row = Row::new("file").with("what", kind).with("bytes", file_bytes);
        // In JSON every row has the file's name; in text this one alone.
        let row = if format == OutputFormat::Table { row.with("name", name) } else { row };
        dump.row(&row)?;
        Ok(dump)
    }

    /// Prints a row that is no entry.
    pub fn row(&mut self, row: &Row) -> io::Result<()> {
        let line = match self.format {
            OutputFormat::Table => row.text(),
            OutputFormat::Json => row.json(&self.file),
        };
        writeln!(self.out, "{line}")
    }

    /// Prints an entry.
    pub fn entry(&mut self, row: &Row) -> io::Result<()> {
        self.left = self.left.saturating_sub(1);
        self.entry_count += 1;
        self.row(row)
    }

    /// Whether `--limit` was reached.
    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Says what is wrong at a byte of the file.
    pub fn problem(&mut self, position: u64, what: impl Into<String>) -> io::Result<()> {
        let what = what.into();
        let row = Row::new("problem").with("position", position).with("what", what.clone());
        self.problem_count += 1;
        self.first_problem.get_or_insert((position, what));
        self.row(&row)
    }

    /// Prints the verdict; what is wrong first, where something is.
    pub fn end(mut self, more: impl FnOnce(Row) -> Row) -> io::Result<Option<String>> {
        let whole = self.problem_count == 0;
        let row = more(Row::new("end").with("entries", self.entry_count)).with("whole", whole);
        let row = match &self.first_problem {
            Some((position, what)) => row
                .with("problems", self.problem_count)
                .with("good_until", *position)
                .with("first_problem", what.clone()),
            None => row,
        };
        self.row(&row)?;
        Ok(self.first_problem.map(|(position, what)| format!("{} at byte {position}: {what}", self.file)))
    }
}

/// Words that need no quotes.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_say_the_same() {
        let row =
            Row::new("batch").with("offset", 5).with("codec", "zstd").with("note", "a b").maybe("no", None::<i32>);
        assert_eq!(row.text(), "batch offset=5 codec=zstd note=\"a b\"");
        assert_eq!(
            serde_json::from_str::<Value>(&row.json("x.log")).expect("JSON"),
            serde_json::json!({"kind": "batch", "file": "x.log", "offset": 5, "codec": "zstd", "note": "a b"})
        );
    }

    #[test]
    fn the_verdict_names_the_first_problem() {
        for format in [OutputFormat::Table, OutputFormat::Json] {
            let mut out = Vec::new();
            let mut dump = FileDump::begin(&mut out, format, "f".to_owned(), "segment", 9, Some(1)).expect("memory");
            assert!(!dump.is_full());
            dump.entry(&Row::new("batch")).expect("memory");
            assert!(dump.is_full());
            dump.problem(4, "first").expect("memory");
            dump.problem(7, "second").expect("memory");
            assert_eq!(dump.end(|row| row).expect("memory"), Some("f at byte 4: first".to_owned()));
            let text = String::from_utf8(out).expect("text");
            assert_eq!(text.lines().count(), 5, "{text}");
            assert!(text.lines().last().is_some_and(|line| line.contains("good_until")), "{text}");
        }
    }
}
