//! Appends: plan, stamp, write, commit; and what follows when a write fails.
//!
//! [`start`] returns once the append has its offsets. From then on it no longer depends on its caller: the write goes on
//! although the connection that asked for it is gone, since later offsets build on it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tracing::{error, warn};

use crate::log::error::AppendError;
use crate::log::layout;
use crate::log::plan::{Append, AppendPlan, Committed, RollPlan, Truncate};
use crate::record::check::CheckedBatch;
use crate::record::offset::Offset;
use crate::ring::buffer::Buffer;
use crate::ring::io::{Io, OpenHow, replace_file};
use crate::shard::core::Shard;
use crate::shard::error::AppendFailure;
use crate::shard::files::FileKind;
use crate::shard::partition::{Durability, Partition};

/// An append that has its offsets.
pub struct Appended {
    partition: Rc<Partition>,
    state: Rc<Cell<WriteState>>,
    /// For a batch that was there already: the truncations of the partition when it was found. A later one may take
    /// the first copy away, if that was not durable yet.
    duplicate: Option<u64>,
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// The time stamped on the records, where the topic has `LogAppendTime`.
    pub log_append_time_ms: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteState {
    UnderWay,
    Written,
    NoSpace,
    Failed,
}

/// Gives the batch its offsets and starts its write. `records` is exactly the batch that was checked.
///
/// Calls for one partition are planned in the order of their first polls, except behind a roll or a repair, where they
/// wait: a caller that needs the order of its own appends starts one after the other.
///
/// # Errors
/// Nothing was appended: the log refuses the batch, or the partition is offline.
pub async fn start(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    mut records: Buffer,
    checked: &CheckedBatch,
) -> Result<Appended, AppendFailure> {
    let plan = loop {
        poll_admission(shard, partition).await?;
        let planned = partition.log().borrow_mut().plan_append(checked, shard.io().wall_ms());
        if let Err(AppendError::Truncating) = planned {
            // The gate was opened by a roll that had begun before; the repair opens it again.
            let _ = partition.close_for_appends();
            continue;
        }
        match planned? {
            Append::Plan(plan) => break plan,
            Append::Roll(roll) => {
                let rolled = self::roll(shard, partition, roll).await;
                rolled.inspect_err(|_| partition.log().borrow_mut().refuse_append(checked))?;
            }
            Append::Duplicate { base_offset, last_offset, .. } => {
                return Ok(Appended {
                    partition: partition.clone(),
                    state: Rc::new(Cell::new(WriteState::Written)),
                    duplicate: Some(partition.truncations()),
                    base_offset,
                    last_offset,
                    log_append_time_ms: None,
                });
            }
        }
    };
    plan.stamp(&mut records);
    let state = Rc::new(Cell::new(WriteState::UnderWay));
    let appended = Appended {
        partition: partition.clone(),
        state: state.clone(),
        duplicate: None,
        base_offset: plan.base_offset,
        last_offset: plan.last_offset,
        log_append_time_ms: plan.log_append_time,
    };
    partition.writes_under_way.set(partition.writes_under_way.get() + 1);
    let mut write = Box::pin(write(shard.clone(), partition.clone(), records, plan, state));
    // A small write is done by this one poll; a large one goes on as a task of its own.
    if write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        shard.io().spawn(write);
    }
    Ok(appended)
}

impl Appended {
    /// Whether the append is safe as its partition's durability says, and may be acknowledged.
    ///
    /// # Errors
    /// It is not in the log, or nobody can say whether it is.
    pub fn poll_durable(&self, io: &Io) -> Poll<Result<(), AppendFailure>> {
        let Poll::Ready(()) = self.poll_written(io)? else { return Poll::Pending };
        if self.partition.high_watermark() > self.last_offset {
            return Poll::Ready(Ok(()));
        }
        self.partition.progress().wait(io.current_task());
        Poll::Pending
    }

    /// Waits until the batch is in the page cache.
    ///
    /// # Errors
    /// It is not in the log.
    pub async fn wait_written(&self, io: &Io) -> Result<(), AppendFailure> {
        poll_fn(|_| self.poll_written(io)).await
    }

    fn poll_written(&self, io: &Io) -> Poll<Result<(), AppendFailure>> {
        match self.state.get() {
            WriteState::NoSpace => return Poll::Ready(Err(AppendFailure::NoSpace)),
            WriteState::Failed => return Poll::Ready(Err(AppendFailure::Offline)),
            WriteState::Written | WriteState::UnderWay if !self.partition.is_online() => {
                return Poll::Ready(Err(AppendFailure::Offline));
            }
            WriteState::Written => {}
            WriteState::UnderWay => {
                self.partition.progress().wait(io.current_task());
                return Poll::Pending;
            }
        }
        match self.duplicate {
            Some(truncations) if self.partition.was_truncated_since(truncations, self.last_offset) => {
                Poll::Ready(Err(AppendFailure::NoSpace))
            }
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// Waits while a roll or a repair is under way.
async fn poll_admission(shard: &Rc<Shard>, partition: &Rc<Partition>) -> Result<(), AppendFailure> {
    poll_fn(|_| {
        if !partition.is_online() {
            return Poll::Ready(Err(AppendFailure::Offline));
        }
        if partition.is_closed_for_appends() {
            partition.admission().wait(shard.io().current_task());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// Writes the records of a plan and commits it. Runs to its end whoever waits.
async fn write(
    shard: Rc<Shard>,
    partition: Rc<Partition>,
    records: Buffer,
    plan: AppendPlan,
    state: Rc<Cell<WriteState>>,
) {
    let len_bytes = records.len() as u64;
    let written = match shard.files().get(partition.id(), plan.segment, FileKind::Log) {
        Some(file) => file.write_at(records, plan.position_bytes).await.0,
        None => {
            match shard.files().open(shard.io(), partition.folder(), partition.id(), plan.segment, FileKind::Log).await {
                Ok(file) => file.write_at(records, plan.position_bytes).await.0,
                Err(error) => Err(error),
            }
        }
    };
    partition.writes_under_way.set(partition.writes_under_way.get() - 1);
    match written {
        Ok(()) => {
            let committed = partition.log().borrow_mut().commit_append(&plan);
            match committed {
                Committed::Written { .. } => {
                    state.set(WriteState::Written);
                    shard.counters().batches_appended.add(1);
                    shard.counters().bytes_appended.add(len_bytes);
                    shard.durability().written(&shard, &partition);
                }
                // An earlier plan failed: these bytes are cut off with it.
                Committed::Failed => state.set(WriteState::NoSpace),
            }
            if let Some(text) = partition.log().borrow_mut().take_epoch_checkpoint() {
                shard.io().spawn(write_epochs(shard.clone(), partition.clone(), text));
            }
        }
        Err(error) => fail(&shard, &partition, &plan, &state, &error),
    }
    if partition.writes_under_way.get() == 0 {
        shard.io().wake_all(partition.drained());
    }
    if state.get() != WriteState::Written {
        shard.io().wake_all(partition.progress());
    }
}

/// A write failed: the plan and all after it go back.
fn fail(shard: &Rc<Shard>, partition: &Rc<Partition>, plan: &AppendPlan, state: &Cell<WriteState>, error: &io::Error) {
    let no_space = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    state.set(if no_space { WriteState::NoSpace } else { WriteState::Failed });
    let truncate = partition.log().borrow_mut().fail_append(plan);
    if !no_space {
        error!(
            topic = partition.topic(), partition = partition.id().partition, %error, folder = %partition.folder().display(),
            "a write failed, the partition is offline; check the disk and restart the server"
        );
        partition.take_offline(shard.io(), "a write to its segment failed");
        return;
    }
    warn!(
        topic = partition.topic(), partition = partition.id().partition, folder = %partition.folder().display(),
        "the disk is full: appends are refused until there is space; free some, or lower retention.ms or retention.bytes"
    );
    if let Some(truncate) = truncate {
        partition.note_truncation(truncate.end);
        // A roll that is under way is finished first, and finds that it is stale; it opens the gate again, but the log
        // itself plans nothing until it was cut.
        let _ = partition.close_for_appends();
        shard.io().spawn(repair(shard.clone(), partition.clone(), truncate));
    }
}

/// The first batch of a leader epoch: its start is noted beside the log. Derived, so nobody waits for it.
async fn write_epochs(shard: Rc<Shard>, partition: Rc<Partition>, text: String) {
    let path = partition.folder().join(layout::LEADER_EPOCH_CHECKPOINT);
    if let Err(error) = replace_file(shard.io(), &path, text.into_bytes()).await {
        warn!(topic = partition.topic(), partition = partition.id().partition, %error, "the leader epochs could not be written; the next start finds them in the batches");
    }
}

/// Cuts the segment back to what is committed, once no write is under way, and lets appends go on.
async fn repair(shard: Rc<Shard>, partition: Rc<Partition>, truncate: Truncate) {
    poll_fn(|_| {
        if partition.writes_under_way.get() == 0 {
            return Poll::Ready(());
        }
        partition.drained().wait(shard.io().current_task());
        Poll::Pending
    })
    .await;
    let cut = async {
        let file = shard
            .files()
            .open(shard.io(), partition.folder(), partition.id(), truncate.segment, FileKind::Log)
            .await?;
        for segment in &truncate.remove {
            shard.files().forget_segment(partition.id(), *segment);
            remove_if_there(shard.io(), &layout::segment_path(partition.folder(), *segment)).await?;
            remove_if_there(shard.io(), &layout::offset_index_path(partition.folder(), *segment)).await?;
        }
        if !truncate.remove.is_empty() {
            // A power cut must not bring them back behind what is appended next.
            shard.io().sync_dir(partition.folder()).await?;
        }
        file.set_len(truncate.position_bytes).await
    };
    match cut.await {
        Ok(()) => {
            partition.log().borrow_mut().truncated(&truncate);
            partition.reopen_for_appends(shard.io());
        }
        Err(error) => {
            error!(topic = partition.topic(), partition = partition.id().partition, %error,
                "a segment could not be cut back after a failed write, the partition is offline; check the disk");
            partition.take_offline(shard.io(), "its segment could not be cut back after a failed write");
        }
    }
}

/// Opens the next segment; appends wait meanwhile.
async fn roll(shard: &Rc<Shard>, partition: &Rc<Partition>, roll: RollPlan) -> Result<(), AppendFailure> {
    if !partition.close_for_appends() {
        return Ok(());
    }
    // A task of its own: a roll that was begun is finished, although its connection may go away.
    let outcome: Rc<RefCell<Option<Result<(), AppendFailure>>>> = Rc::default();
    let (told, shard_of_task, partition_of_task) = (outcome.clone(), shard.clone(), partition.clone());
    let waiter = shard.io().current_task();
    shard.io().spawn(async move {
        let rolled = open_segment(&shard_of_task, &partition_of_task, roll).await;
        if let Err(error) = &rolled {
            warn!(topic = partition_of_task.topic(), partition = partition_of_task.id().partition, %error,
                "the next segment could not be opened; the append is refused");
        }
        *told.borrow_mut() = Some(rolled.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => AppendFailure::NoSpace,
            _ => AppendFailure::Segment,
        }));
        partition_of_task.reopen_for_appends(shard_of_task.io());
        shard_of_task.io().wake(waiter);
    });
    poll_fn(|_| outcome.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await
}

async fn open_segment(shard: &Rc<Shard>, partition: &Rc<Partition>, roll: RollPlan) -> io::Result<()> {
    let io = shard.io();
    let log = io.open(&layout::segment_path(partition.folder(), roll.segment), OpenHow::CreateOrTruncate).await?;
    let index = io.open(&layout::offset_index_path(partition.folder(), roll.segment), OpenHow::CreateOrTruncate).await?;
    if partition.durability() == Durability::Segment {
        // The entry is durable before anything in the file is acknowledged.
        io.sync_dir(partition.folder()).await?;
    }
    // Stale where a failed append has cut the log back meanwhile; the file is then empty, and made again by its roll.
    if partition.log().borrow_mut().rolled(&roll) {
        shard.files().put(partition.id(), roll.segment, FileKind::Log, log);
        shard.files().put(partition.id(), roll.segment, FileKind::OffsetIndex, index);
        shard.after_roll(partition, roll.segment.base_offset());
    }
    Ok(())
}

async fn remove_if_there(io: &Io, path: &Path) -> io::Result<()> {
    match io.remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
