//! How far the opening of a core's partitions has come, for a line in the log now and then.

use std::cell::Cell;
use std::rc::Rc;

use tracing::{info, warn};

use crate::log::recovery::RecoveryReport;
use crate::ring::io::Io;

/// Counts while partitions are opened. A start after a crash may take minutes, and the operator wants to know.
pub(in crate::shard) struct OpeningProgress {
    partitions: usize,
    done: Cell<usize>,
    scanned_bytes: Cell<u64>,
    cut_bytes: Cell<u64>,
    is_over: Cell<bool>,
}

impl OpeningProgress {
    /// Starts to count; a line comes every few seconds until [`end`](Self::end).
    pub(in crate::shard) fn begin(io: &Io, partitions: usize) -> Rc<Self> {
        let progress = Rc::new(Self {
            partitions,
            done: Cell::new(0),
            scanned_bytes: Cell::new(0),
            cut_bytes: Cell::new(0),
            is_over: Cell::new(false),
        });
        let (told, io_of_task) = (progress.clone(), io.clone());
        io.spawn(async move {
            let began_at = io_of_task.now();
            loop {
                io_of_task.sleep_ms(TOLD_EVERY_MS).await;
                if told.is_over.get() {
                    return;
                }
                let elapsed_ms = io_of_task.now().since(began_at) / 1_000_000;
                let (core, done) = (io_of_task.core_index(), told.done.get());
                info!(
                    core,
                    done,
                    left = told.partitions - done,
                    scanned_bytes = told.scanned_bytes.get(),
                    cut_bytes = told.cut_bytes.get(),
                    elapsed_ms,
                    "partitions are being opened"
                );
            }
        });
        progress
    }

    /// One partition was opened, or (without a report) could not be.
    pub(in crate::shard) fn opened(&self, topic: &str, partition: i32, report: Option<&RecoveryReport>) {
        self.done.set(self.done.get() + 1);
        let Some(report) = report else { return };
        self.scanned_bytes.set(self.scanned_bytes.get() + report.scanned_bytes);
        self.cut_bytes.set(self.cut_bytes.get() + report.cut_bytes);
        if !report.unknown_files.is_empty() {
            warn!(topic, partition, files = ?report.unknown_files, "files that are none of a log's; they are left alone");
        }
        if report.cut_bytes > 0 || report.snapshots_refused > 0 {
            let RecoveryReport { cut_bytes, indexes_rebuilt, snapshots_refused, .. } = report;
            info!(
                topic,
                partition,
                cut_bytes,
                indexes_rebuilt,
                snapshots_refused,
                "what a crash had torn was cut off or removed"
            );
        }
    }

    /// All are done; the bytes of logs that were read.
    pub(in crate::shard) fn end(&self) -> u64 {
        self.is_over.set(true);
        self.scanned_bytes.get()
    }
}

const TOLD_EVERY_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use std::io::Write;
    use std::sync::mpsc;

    /// A log whose lines go to a test.
    struct Told(mpsc::Sender<String>);

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_long_opening_tells_how_far_it_has_come_and_what_it_found() {
        let (sender, lines) = mpsc::channel();
        let writer = move || Told(sender.clone());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(writer).finish();
        tracing::subscriber::with_default(subscriber, || {
            let sim = Sim::new(SimOptions::calm(1));
            let io = sim.machine().core(0);
            let io_of_job = io.clone();
            let opening = async move {
                let progress = OpeningProgress::begin(&io_of_job, 4);
                for (partition, cut_bytes, unknown_files) in [(0, 0, vec![]), (1, 7, vec![]), (2, 0, vec!["notes.txt"])]
                {
                    io_of_job.sleep_ms(4_000).await;
                    let unknown_files = unknown_files.into_iter().map(str::to_owned).collect();
                    let report =
                        RecoveryReport { scanned_bytes: 100, cut_bytes, unknown_files, ..RecoveryReport::default() };
                    progress.opened("t", partition, Some(&report));
                }
                progress.opened("t", 3, None);
                assert_eq!(progress.end(), 300);
                io_of_job.sleep_ms(20_000).await;
            };
            assert!(sim.run(&io, 60_000_000_000, opening).is_ok());
        });
        let lines: Vec<String> = lines.into_iter().collect();
        let expected = [
            &["being opened", "done=1 left=3 scanned_bytes=100 cut_bytes=0 elapsed_ms=5000"][..],
            &["cut off or removed", "partition=1", "cut_bytes=7"],
            &["being opened", "done=2 left=2 scanned_bytes=200 cut_bytes=7 elapsed_ms=10000"],
            &["left alone", "partition=2", "notes.txt"],
        ];
        assert_eq!(lines.len(), expected.len(), "{lines:#?}");
        for (line, words) in lines.iter().zip(expected) {
            assert!(words.iter().all(|word| line.contains(word)), "{line:?} has not all of {words:?}");
        }
    }
}
