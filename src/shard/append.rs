//! Appends: plan, stamp, write, commit; and what follows when a write fails.
//!
//! [`start`] returns once the append has its offsets. From then on it no longer depends on its caller: the write goes on
//! although the connection that asked for it is gone, since later offsets build on it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tracing::{error, warn};

use crate::log::error::{AppendError, RecoveryError};
use crate::log::plan::{Append, AppendPlan, Committed, IndexWrite, RollPlan, SegmentId, Truncate};
use crate::log::segment::Segment;
use crate::log::segment_files;
use crate::record::check::CheckedBatch;
use crate::record::offset::Offset;
use crate::ring::buffer::Buffer;
use crate::ring::io::Io;
use crate::shard::core::Shard;
use crate::shard::directories::is_no_space;
use crate::shard::error::AppendFailure;
use crate::shard::files::FileKind;
use crate::shard::index_writes::IndexShare;
use crate::shard::partition::Partition;
use crate::shard::producer_snapshots;

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
    /// The time stamped on the records, where the topic has `LogAppendTime`; of a batch that was there already, its time.
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
                let rolled = Box::pin(self::roll(shard, partition, roll)).await;
                rolled.inspect_err(|_| partition.log().borrow_mut().refuse_append(checked))?;
            }
            Append::Duplicate { base_offset, last_offset, timestamp } => {
                return Ok(Appended {
                    partition: partition.clone(),
                    state: Rc::new(Cell::new(WriteState::Written)),
                    duplicate: Some(partition.truncations()),
                    base_offset,
                    last_offset,
                    log_append_time_ms: Some(timestamp.0),
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
    partition.begin_write();
    start_detached(shard.io(), write(shard.clone(), partition.clone(), records, plan, state));
    Ok(appended)
}

/// Polls `future` once at once, which is all that a small write needs; what is left goes on as a task of its own.
fn start_detached(io: &Io, future: impl Future<Output = ()> + 'static) {
    let mut future = Box::pin(future);
    if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        io.spawn(future);
    }
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
        if shard.is_closing() {
            return Poll::Ready(Err(AppendFailure::Stopping));
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
            match shard.files().open(shard.io(), partition.folder(), partition.id(), plan.segment, FileKind::Log).await
            {
                Ok(file) => file.write_at(records, plan.position_bytes).await.0,
                Err(error) => Err(error),
            }
        }
    };
    partition.end_write(shard.io());
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
            allocate_ahead(&shard, &partition, &plan);
            if partition.log().borrow().epoch_checkpoint_is_due() {
                shard.io().spawn(write_epochs(shard.clone(), partition.clone()));
            }
            if partition.log().borrow().has_producer_snapshot() {
                shard.io().spawn(producer_snapshots::write_ready(shard.clone(), partition.clone()));
            }
            // Where somebody writes indexes, that one goes on with these.
            if partition.may_write_indexes(shard.io()) {
                let entries = partition.log().borrow_mut().take_index_writes();
                if !entries.is_empty() {
                    start_detached(shard.io(), write_entries(shard.clone(), partition.clone(), entries));
                }
            }
        }
        Err(error) => fail(&shard, &partition, &plan, &state, &error),
    }
    if state.get() != WriteState::Written {
        shard.io().wake_all(partition.progress());
    }
}

/// Allocates blocks for the writes to come, where they are due. Nobody waits for it, and nothing depends on it.
fn allocate_ahead(shard: &Rc<Shard>, partition: &Rc<Partition>, plan: &AppendPlan) {
    let segment_bytes_max = u64::from(partition.log().borrow().config().segment_bytes);
    let written_bytes = plan.position_bytes + u64::from(plan.len_bytes);
    let Some(range) = partition.reservation().begin(plan.segment, written_bytes, segment_bytes_max) else {
        return;
    };
    let Some(file) = shard.files().get(partition.id(), plan.segment, FileKind::Log) else {
        return partition.reservation().done(false);
    };
    let partition = partition.clone();
    start_detached(shard.io(), async move {
        let allocated = file.allocate(range.start, range.end - range.start).await;
        partition.reservation().done(allocated.is_ok());
    });
}

/// A write failed: the plan and all after it go back.
fn fail(shard: &Rc<Shard>, partition: &Rc<Partition>, plan: &AppendPlan, state: &Cell<WriteState>, error: &io::Error) {
    let no_space = is_no_space(error);
    state.set(if no_space { WriteState::NoSpace } else { WriteState::Failed });
    let truncate = partition.log().borrow_mut().fail_append(plan);
    if !no_space {
        shard.fail_partition(partition, "a write to a segment failed", error);
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

/// The first batch of a leader epoch: its start is noted beside the log. Derived, so nobody waits for it; where it fails
/// it is due again, at the next append or at the stop.
async fn write_epochs(shard: Rc<Shard>, partition: Rc<Partition>) {
    if let Err(error) = shard.write_epochs(&partition).await {
        shard.note_unwritten(&partition, "its leader epochs could not be written", &error);
    }
}

/// Full blocks of the index: derived too.
async fn write_entries(shard: Rc<Shard>, partition: Rc<Partition>, entries: Vec<IndexWrite>) {
    if let Err(error) = shard.write_index(&partition, entries, IndexShare::Due).await {
        shard.note_unwritten(&partition, "an index could not be written", &error);
    }
}

/// Cuts the segment back to what is committed, once no write is under way, and lets appends go on.
async fn repair(shard: Rc<Shard>, partition: Rc<Partition>, truncate: Truncate) {
    partition.wait_drained(shard.io()).await;
    for segment in &truncate.remove {
        shard.files().forget_segment(partition.id(), *segment);
    }
    match segment_files::cut_files(shard.io(), partition.folder(), &truncate).await {
        Ok(()) => {
            partition.log().borrow_mut().truncated(&truncate);
            partition.reopen_for_appends(shard.io());
        }
        Err(error) => match error {
            RecoveryError::Io { source, .. } => {
                shard.fail_partition(&partition, "a segment could not be cut back after a failed write", &source);
            }
            error => take_offline(&shard, &partition, "its segment could not be cut back after a failed write", &error),
        },
    }
}

/// Opens the next segment; appends wait meanwhile.
pub(in crate::shard) async fn roll(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    roll: RollPlan,
) -> Result<(), AppendFailure> {
    if !partition.close_for_appends() {
        return Ok(());
    }
    // A task of its own: a roll that was begun is finished, although its connection may go away.
    let outcome: Rc<RefCell<Option<Result<(), AppendFailure>>>> = Rc::default();
    let (told, shard_of_task, partition_of_task) = (outcome.clone(), shard.clone(), partition.clone());
    let waiter = shard.io().current_task();
    shard.io().spawn(async move {
        // Counts as a write: whoever cuts the log back or closes the folder waits for it.
        partition_of_task.begin_write();
        let rolled = open_segment(&shard_of_task, &partition_of_task, roll).await;
        partition_of_task.end_write(shard_of_task.io());
        *told.borrow_mut() = Some(rolled.map_err(|error| roll_failed(&shard_of_task, &partition_of_task, &error)));
        partition_of_task.reopen_for_appends(shard_of_task.io());
        shard_of_task.io().wake(waiter);
    });
    poll_fn(|_| outcome.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await
}

/// No space to make a file: a later append tries again. Anything else, and any error of the folder's sync, takes the
/// partition offline: the kernel may have dropped the entry, and the next sync would say that all is well.
fn roll_failed(shard: &Rc<Shard>, partition: &Partition, error: &RecoveryError) -> AppendFailure {
    let (topic, index) = (partition.topic(), partition.id().partition);
    match error {
        RecoveryError::Io { path, source } if is_no_space(source) && path != partition.folder() => {
            warn!(topic, partition = index, %error, "no space for the next segment: the append is refused; free some");
            AppendFailure::NoSpace
        }
        RecoveryError::Io { source, .. } => {
            shard.fail_partition(partition, "the next segment could not be made durable", source);
            AppendFailure::Offline
        }
        error => {
            take_offline(shard, partition, "its next segment could not be made durable", error);
            AppendFailure::Offline
        }
    }
}

fn take_offline(shard: &Shard, partition: &Partition, what: &str, error: &RecoveryError) {
    error!(topic = partition.topic(), partition = partition.id().partition, %error, what, "the partition is offline; check the disk and restart the server");
    partition.take_offline(shard.io(), what);
}

async fn open_segment(shard: &Rc<Shard>, partition: &Rc<Partition>, roll: RollPlan) -> Result<(), RecoveryError> {
    let log = segment_files::roll_files(shard.io(), partition.folder(), &roll).await?;
    // Stale where a failed append has cut the log back meanwhile; the file is then empty, and made again by its roll.
    if partition.log().borrow_mut().rolled(&roll) {
        shard.files().put(partition.id(), roll.segment, FileKind::Log, log);
        give_back(shard, partition, roll.sealed).await;
        shard.after_roll(partition, roll.segment.base_offset());
    }
    Ok(())
}

/// Gives back what the sealed segment was allocated and did not need. While its last writes are under way its length is not
/// what it will be: it keeps those blocks then, an eighth at most.
async fn give_back(shard: &Rc<Shard>, partition: &Rc<Partition>, sealed: SegmentId) {
    let size_bytes =
        partition.log().borrow().segments().iter().find(|segment| segment.id() == sealed).map(Segment::size_bytes);
    let file = shard.files().get(partition.id(), sealed, FileKind::Log);
    if let (Some(size_bytes), Some(file)) = (size_bytes, file)
        && partition.reservation().is_left(sealed, size_bytes)
        && partition.writes_alone()
        && let Err(error) = file.set_len(size_bytes).await
    {
        shard.note_unwritten(partition, "blocks of a sealed segment could not be given back", &error);
    }
}
