//! Print a result, as a table for people or as JSON for programs.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde_json::Value;

/// A table without lines, so that `grep` and `awk` can read it; columns named in `right` hold numbers.
pub fn table(header: &[&str], right: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header.iter().copied());
    table.add_rows(rows);
    for &index in right {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for index in 0..header.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, 2));
        }
    }
    table
}

/// Writes a table to standard output.
pub fn print_table(table: &Table) {
    let text: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    print_lines(text.iter().map(String::as_str));
}

/// Writes a JSON value on one line to standard output.
pub fn print_json(value: &Value) {
    print_lines([value.to_string().as_str()]);
}

/// Writes lines to standard output. A reader that has gone (`| head`) is no error.
pub fn print_lines<'a>(lines: impl IntoIterator<Item = &'a str>) {
    let mut out = io::stdout().lock();
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            return;
        }
    }
}
