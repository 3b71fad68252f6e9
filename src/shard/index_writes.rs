//! Writes the indexes of a partition, in order.

use std::io;

use crate::log::plan::{IndexKind, IndexWrite};
use crate::ring::buffer::Buffer;
use crate::shard::core::Shard;
use crate::shard::files::FileKind;
use crate::shard::partition::Partition;

/// How much of the indexes is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum IndexShare {
    /// What is worth a write, and all of sealed segments.
    Due,
    /// All, for a clean stop.
    All,
}

impl Shard {
    /// Writes entries of indexes: those that were `taken` already by who starts at once, and all that is due after them. They
    /// are derived: an error costs time at the next start, no records.
    ///
    /// One task at a time takes and writes, so that they are on stable storage in their order: what is complete, or has an
    /// entry on stable storage, has all that comes before it there.
    pub(in crate::shard) async fn write_index(
        &self,
        partition: &Partition,
        taken: Vec<IndexWrite>,
        share: IndexShare,
    ) -> io::Result<()> {
        // Counts as a write: whoever closes the folder waits for it.
        partition.begin_write();
        let turn = partition.indexes_turn().turn(self.io()).await;
        let mut writes = taken;
        let written = loop {
            if writes.is_empty() {
                writes = match share {
                    IndexShare::Due => partition.log().borrow_mut().take_index_writes(),
                    IndexShare::All => partition.log().borrow_mut().take_all_index_writes(),
                };
            }
            if writes.is_empty() {
                break Ok(());
            }
            if let Err(error) = self.write_entries(partition, std::mem::take(&mut writes)).await {
                break Err(error);
            }
        };
        drop(turn);
        partition.end_write(self.io());
        // The last entry of a sealed segment may have been what the tier waits for.
        self.tell_of_sealed(partition);
        written
    }

    async fn write_entries(&self, partition: &Partition, writes: Vec<IndexWrite>) -> io::Result<()> {
        for write in writes {
            if !partition.has_segment(write.segment) {
                continue;
            }
            let kind = match write.kind {
                IndexKind::Offset => FileKind::OffsetIndex,
                IndexKind::Time => FileKind::TimeIndex,
                IndexKind::Transaction => FileKind::TransactionIndex,
            };
            let file = self.files().open(self.io(), partition.folder(), partition.id(), write.segment, kind).await?;
            let end_bytes = write.position_bytes + write.bytes.len() as u64;
            if !write.bytes.is_empty() {
                file.write_at(Buffer::from_vec(write.bytes), write.position_bytes).await.0?;
            }
            if write.kind == IndexKind::Transaction {
                file.sync_data().await?;
                if write.position_bytes == 0 {
                    // The file is new.
                    self.io().sync_dir(partition.folder()).await?;
                }
                partition.log().borrow_mut().transaction_index_synced(write.segment, end_bytes);
            }
            if write.completes {
                file.sync_data().await?;
                // The offset index comes second: both are complete then.
                if write.kind == IndexKind::Offset {
                    partition.log().borrow_mut().index_completed(write.segment);
                }
            }
        }
        Ok(())
    }
}
