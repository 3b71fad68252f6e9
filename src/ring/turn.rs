//! The loop of one core, and how long its turns take.

use std::io;
use std::rc::Rc;

use crate::ring::io::Io;
use crate::ring::syscall;
use crate::ring::task::TaskId;
use crate::ring::timer::Nanos;
use crate::ring::uring::Ring;

/// What a core's loop has done since it started.
#[derive(Clone, Debug, Default)]
pub struct TurnStats {
    /// Turns, a sleep or none after each.
    pub turns: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Completions of the ring.
    pub completions: u64,
    /// Turns that slept.
    pub sleeps: u64,
    /// Nanoseconds asleep.
    pub asleep_ns: u64,
    /// Turns longer than 10 ms.
    pub stalls: u64,
    /// `turns_by_log2_us[n]`: turns that took less than 2^n microseconds and no less than half of it; the last one has
    /// all that took longer.
    pub turns_by_log2_us: [u64; 24],
}

impl TurnStats {
    fn record(&mut self, elapsed_ns: u64) {
        let bucket = (u64::BITS - (elapsed_ns / 1000).leading_zeros()) as usize;
        self.turns += 1;
        self.turns_by_log2_us[bucket.min(self.turns_by_log2_us.len() - 1)] += 1;
    }

    /// An upper bound, in microseconds, of the length of all but a share of turns (`0.99`: the 99th percentile).
    pub fn turn_us_at(&self, share: f64) -> u64 {
        let wanted = (self.turns as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.turns_by_log2_us.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return 1 << bucket;
            }
        }
        u64::MAX
    }

    /// An upper bound, in microseconds, of the length of the longest turn.
    pub fn longest_us(&self) -> u64 {
        self.turns_by_log2_us.iter().rposition(|count| *count > 0).map_or(0, |bucket| 1 << bucket)
    }
}

/// Runs the turns of one core.
pub(in crate::ring) struct TurnLoop {
    io: Io,
    ring: Rc<Ring>,
    /// When and with how much CPU time the account of this thread began.
    account: Account,
    stall_log: StallLog,
}

/// One line a second at most: on a machine that is busy with other work each turn may take long.
#[derive(Default)]
struct StallLog {
    last: Option<Nanos>,
    unsaid: u64,
}

impl StallLog {
    /// How many stalls the line is to speak of, where there is to be one now.
    fn note(&mut self, now: Nanos) -> Option<u64> {
        self.unsaid += 1;
        if self.last.is_some_and(|last| now.since(last) < STALL_LOG_NS) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// Tells our own work from time in which the thread was kept from running. Reading the thread's CPU time is a system
/// call, so it is read every 10 ms or more, and between two readings only sleeps are subtracted.
struct Account {
    since: Nanos,
    cpu_ns: u64,
    asleep_ns: u64,
}

impl Account {
    fn open(now: Nanos) -> Self {
        Self { since: now, cpu_ns: syscall::thread_cpu_ns(), asleep_ns: 0 }
    }

    /// Nanoseconds in which the thread neither slept nor ran.
    fn waited_for_cpu_ns(&self, now: Nanos) -> u64 {
        let ran_ns = syscall::thread_cpu_ns().saturating_sub(self.cpu_ns);
        now.since(self.since).saturating_sub(self.asleep_ns).saturating_sub(ran_ns)
    }
}

impl TurnLoop {
    pub(in crate::ring) fn new(io: Io, ring: Rc<Ring>) -> Self {
        let account = Account::open(io.now());
        Self { io, ring, account, stall_log: StallLog::default() }
    }

    /// Turns until `is_done`, asked after each round of polls.
    ///
    /// # Errors
    /// Where the kernel refuses the ring itself: nothing can go on.
    pub(in crate::ring) fn run_until(&mut self, mut is_done: impl FnMut() -> bool) -> io::Result<()> {
        loop {
            let began = self.io.now();
            let last_task = self.work(began);
            if is_done() {
                return Ok(());
            }
            let worked_until = self.finish_turn(began, last_task);
            self.submit_or_sleep(worked_until)?;
        }
    }

    /// One turn's work: completions, notices, tasks within the budget, timers. Returns the task polled last.
    fn work(&mut self, began: Nanos) -> TaskId {
        let executor = self.io.executor();
        let completions = self.ring.reap(executor);
        self.ring.wake_waiting(executor);
        let budget_ends = began.plus_us(self.ring.options.turn_budget_us);
        let mut polls = 0_u64;
        let mut last_task = TaskId::NONE;
        // Tasks that were ready when the turn began all get their poll within the budget; those woken on the way too.
        while let Some(task) = executor.poll_next() {
            last_task = task;
            polls += 1;
            if polls.is_multiple_of(POLLS_A_CLOCK_READING) && self.io.now() >= budget_ends {
                break;
            }
        }
        let timers = self.io.timers();
        if timers.next_deadline().is_some() {
            let now = self.io.now();
            while let Some(task) = timers.pop_due(now) {
                executor.wake(task);
            }
        }
        self.ring.refill();
        let stats = &mut *self.ring.stats.borrow_mut();
        stats.polls += polls;
        stats.completions += completions as u64;
        last_task
    }

    /// Accounts for a turn; warns of a long one.
    fn finish_turn(&mut self, began: Nanos, last_task: TaskId) -> Nanos {
        let now = self.io.now();
        let elapsed_ns = now.since(began);
        let mut stats = self.ring.stats.borrow_mut();
        stats.record(elapsed_ns);
        if elapsed_ns > STALL_NS {
            stats.stalls += 1;
            if let Some(stalls) = self.stall_log.note(now) {
                let waited_ns = self.account.waited_for_cpu_ns(now).min(elapsed_ns);
                tracing::warn!(
                    core = self.io.core_index(),
                    stalls,
                    elapsed_us = elapsed_ns / 1000,
                    waited_for_cpu_us = waited_ns / 1000,
                    last_task = ?last_task,
                    "a turn took long: other work on this core's CPU (waited_for_cpu_us), or a task that did not yield"
                );
            }
        }
        if now.since(self.account.since) > ACCOUNT_NS {
            self.account = Account::open(now);
        }
        now
    }

    /// Hands the kernel what was queued; sleeps where there is nothing to do.
    fn submit_or_sleep(&mut self, now: Nanos) -> io::Result<()> {
        if self.has_work() {
            return if self.ring.needs_enter() { self.ring.enter() } else { Ok(()) };
        }
        let spin_us = self.ring.options.spin_us;
        if spin_us > 0 {
            let spin_ends = now.plus_us(spin_us);
            while self.io.now() < spin_ends {
                if self.ring.needs_enter() {
                    self.ring.enter()?;
                }
                self.ring.wake_waiting(self.io.executor());
                if self.has_work() || self.io.timers().next_deadline().is_some_and(|at| at <= self.io.now()) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        let seat = self.ring.seat();
        if !seat.fall_asleep() {
            return if self.ring.needs_enter() { self.ring.enter() } else { Ok(()) };
        }
        let now = self.io.now();
        let wait_ns = self.io.timers().next_deadline().map(|deadline| deadline.since(now));
        let slept = self.ring.enter_and_wait(wait_ns);
        seat.awake();
        let asleep_ns = self.io.now().since(now);
        self.account.asleep_ns += asleep_ns;
        let stats = &mut *self.ring.stats.borrow_mut();
        stats.sleeps += 1;
        stats.asleep_ns += asleep_ns;
        slept
    }

    fn has_work(&self) -> bool {
        self.io.executor().ready_count() > 0 || self.ring.has_work()
    }
}

/// A reading of the clock costs about 25 ns, a poll from 100 ns up.
const POLLS_A_CLOCK_READING: u64 = 4;
const STALL_NS: u64 = 10_000_000;
const ACCOUNT_NS: u64 = 10_000_000;
const STALL_LOG_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_stalls_are_one_line_a_second() {
        let mut log = StallLog::default();
        let said: Vec<Option<u64>> = [0, 20, 900, 1001, 1500, 5000].map(|ms| log.note(Nanos(ms * 1_000_000))).to_vec();
        assert_eq!(said, [Some(1), None, None, Some(3), None, Some(2)]);
    }

    #[test]
    fn turns_are_counted_by_length() {
        let mut stats = TurnStats::default();
        for us in [0, 1, 3, 3, 1000, u64::MAX / 1000] {
            stats.record(us * 1000);
        }
        assert_eq!(stats.turns_by_log2_us[0], 1);
        assert_eq!(stats.turns_by_log2_us[1], 1);
        assert_eq!(stats.turns_by_log2_us[2], 2);
        assert_eq!(stats.turns_by_log2_us[10], 1);
        assert_eq!(stats.turns_by_log2_us[23], 1);
        assert_eq!(stats.turn_us_at(0.5), 4);
    }
}
