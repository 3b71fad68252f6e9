//! Writes the indexes of a partition, in order.

use std::io;
use std::rc::Rc;

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
    /// are derived: an error costs time at the next start, no records. What could not be written is taken again first, by
    /// whoever writes next; so entries in memory are those of the log that their files have no room for.
    ///
    /// One task at a time takes and writes, so that they are on stable storage in their order: what is complete, or has an
    /// entry on stable storage, has all that comes before it there.
    pub(in crate::shard) async fn write_index(
        self: &Rc<Self>,
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
                partition.forget_index_failure();
                break Ok(());
            }
            let ended = self.write_entries(partition, &mut writes).await;
            if ended.is_err() {
                partition.log().borrow_mut().indexes_not_written(&writes);
                partition.note_index_failure(self.io().now());
                break ended;
            }
        };
        drop(turn);
        partition.end_write(self.io());
        // The last entry of a sealed segment may have been what the tier waits for.
        self.tell_of_sealed(partition);
        written
    }

    /// Writes the first of `writes` until none is left or one fails, which stays.
    async fn write_entries(self: &Rc<Self>, partition: &Partition, writes: &mut Vec<IndexWrite>) -> io::Result<()> {
        writes.reverse();
        let ended = loop {
            let Some(write) = writes.last_mut() else { break Ok(()) };
            if partition.has_segment(write.segment)
                && let Err(error) = self.write_one(partition, write).await
            {
                break Err(error);
            }
            writes.pop();
        };
        writes.reverse();
        ended
    }

    async fn write_one(self: &Rc<Self>, partition: &Partition, write: &IndexWrite) -> io::Result<()> {
        let kind = match write.kind {
            IndexKind::Offset => FileKind::OffsetIndex,
            IndexKind::Time => FileKind::TimeIndex,
            IndexKind::Transaction => FileKind::TransactionIndex,
        };
        let file = self.files().open(self.io(), partition.folder(), partition.id(), write.segment, kind).await?;
        if !write.bytes.is_empty() {
            file.write_at(Buffer::from_vec(write.bytes.clone()), write.position_bytes).await.0?;
        }
        let is_synced = write.completes || write.kind == IndexKind::Transaction;
        let synced = async {
            if is_synced {
                file.sync_data().await?;
            }
            if write.kind == IndexKind::Transaction && write.position_bytes == 0 {
                // The file is new.
                self.io().sync_dir(partition.folder()).await?;
            }
            Ok(())
        };
        if let Err(error) = synced.await {
            // Whatever it says, another sync would hide what is lost.
            self.fail_partition(partition, "a sync of an index failed", &error);
            return Err(error);
        }
        partition.log().borrow_mut().index_written(write);
        Ok(())
    }

    /// Now and then: what could not be written of indexes is tried again, although nothing may be appended.
    pub(in crate::shard) async fn write_failed_indexes(self: &Rc<Self>) {
        for partition in self.partitions().into_iter().filter(|partition| partition.has_index_failure()) {
            if partition.is_online()
                && let Err(error) = self.write_index(&partition, Vec::new(), IndexShare::Due).await
            {
                self.note_unwritten(&partition, "an index could not be written", &error);
            }
        }
    }
}
