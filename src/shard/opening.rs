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
