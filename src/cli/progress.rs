//! How far a command is, on standard error, where a terminal looks on.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that goes when the command ends.
pub(in crate::cli) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of so many bytes.
    pub(in crate::cli) fn of_bytes(total_bytes: u64) -> Self {
        Self::styled(total_bytes, "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}")
    }

    /// Of so many things.
    pub(in crate::cli) fn of_count(total: u64) -> Self {
        Self::styled(total, "{bar:40} {pos}/{len} {eta} {msg}")
    }

    fn styled(total: u64, template: &str) -> Self {
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// So much more is done.
    pub(in crate::cli) fn add(&self, done: u64) {
        self.bar.inc(done);
    }

    /// What it is at.
    pub(in crate::cli) fn at(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Prints a line of the result, with the bar out of its way.
    pub(in crate::cli) fn print(&self, line: &str) {
        self.bar.suspend(|| super::output::print_lines([line]));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
