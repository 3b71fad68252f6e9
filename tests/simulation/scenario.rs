//! One seed: the server lives several lives, clients use it all along, and at the end all is judged.

use std::rc::Rc;

use alluvium::control::broker_config::BrokerConfig;
use alluvium::ring::sim::options::{Crash, Delays, Faults, SimOptions};
use alluvium::ring::sim::random::Random;
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;
use alluvium::tier::sim_store::StoreFaults;

use crate::ledger::Ledger;
use crate::server::{CORE_COUNT, Server, SimTier};
use crate::workload::{self, Client, WorkloadOptions};

/// What a run is made of, besides its seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// `alluvium.durability` of all topics.
    pub(crate) durability: &'static str,
    /// `alluvium.durability` of the server, which counts for the topics of its coordinators.
    pub(crate) coordinators: &'static str,
    /// Ways in which a life may end before the last.
    pub(crate) crashes: &'static [Crash],
    /// Whether seeds may have errors of disk and network, a full disk, and cores that stand still.
    pub(crate) faults: bool,
    /// What the tier's store does, where it is not drawn.
    pub(crate) store: Option<StoreFaults>,
}

/// How a run came out.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The first broken promise.
    pub(crate) violation: Option<String>,
    /// Records promised: a run that promised none has shown nothing.
    pub(crate) promised_count: usize,
    pub(crate) trace_hash: u64,
    pub(crate) summary: String,
    pub(crate) trace_tail: String,
}

struct Run {
    sim: Sim,
    server: Server,
    ledger: Rc<Ledger>,
    random: Random,
    faults: Faults,
    scenario: Scenario,
    story: Vec<String>,
}

impl Scenario {
    /// Runs one seed.
    pub(crate) fn run(self, seed: u64) -> Outcome {
        // Half of the seeds are calm, but for the crashes.
        let choices = Random::new(seed ^ SEED_SALT);
        let faults = if self.faults && choices.coin() { draw_faults(&choices) } else { Faults::default() };
        let delays = if choices.coin() { Delays::default() } else { slow(&choices) };
        let sim = Sim::new(SimOptions { seed, faults: Faults::default(), delays });
        let mut config = BrokerConfig::default();
        // Lives are short: segments are looked at for deletion early and often.
        let pairs = [
            "log.initial.task.delay.ms=5",
            "log.retention.check.interval.ms=20",
            "log.cleaner.backoff.ms=20",
            "offsets.topic.num.partitions=4",
            "transaction.state.log.num.partitions=4",
            "group.initial.rebalance.delay.ms=5",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms=10",
        ];
        for pair in pairs {
            config.set_pair(pair).expect("a config that works");
        }
        let pair = format!("alluvium.durability={}", self.coordinators);
        config.set_pair(&pair).expect("a config that works");
        // In half of the seeds there is a tier, which is looked after all the time; half of these are not of this machine.
        let drawn = choices.coin().then(|| draw_tier(&choices, self.faults));
        let tier = match self.store {
            Some(faults) => Some(SimTier { elsewhere: Some(faults), memory_bytes: 1 << 20 }),
            None => drawn,
        };
        if tier.is_some() {
            config.enable_tier();
            for pair in [
                "remote.log.manager.task.interval.ms=20",
                "remote.log.manager.task.retry.backoff.ms=5",
                "remote.log.manager.task.retry.backoff.max.ms=50",
            ] {
                config.set_pair(pair).expect("a config that works");
            }
        }
        // In a third of the seeds core 0 has all connections, and works with core 1 by mail.
        let listen_mode = if seed % 3 == 2 { ListenMode::FirstCore } else { ListenMode::PerCore };
        let mut server = Server::new(&sim, config, listen_mode);
        server.tier = tier;
        let random = sim.random();
        let mut run = Run { sim, server, ledger: Rc::default(), random, faults, scenario: self, story: Vec::new() };
        run.live();
        let ledger = &run.ledger;
        Outcome {
            violation: ledger.violation(),
            promised_count: ledger.promised_count(),
            trace_hash: run.sim.trace_hash(),
            summary: format!("{:?}; {}", ledger.counts, run.story.join(", ")),
            trace_tail: run.sim.trace_tail(),
        }
    }
}

impl Run {
    fn live(&mut self) {
        let client = Client {
            io: self.sim.machine().core(0),
            ledger: self.ledger.clone(),
            random: self.random.fork(),
            options: WorkloadOptions {
                durability: self.scenario.durability,
                topic_count: self.random.between(1, 3) as usize,
                batches_max: self.random.between(10, 40) as u32,
                broker_count: self.server.broker_count(),
                is_tiered: self.server.tier.is_some(),
            },
        };
        let checker =
            Client { io: client.io.clone(), ledger: self.ledger.clone(), random: self.random.fork(), ..client };
        workload::start(client);
        for _ in 0..self.random.between(2, 4) {
            self.sim.set_faults(self.faults);
            self.boot();
            self.live_a_while();
            self.end_life();
            if self.ledger.is_violated() {
                return;
            }
        }
        self.settle(checker);
    }

    fn boot(&mut self) {
        self.server.boot();
        if self.random.below(4) == 0 {
            // A crash while it starts.
            self.step(1, 30_000_000);
            self.tell("crash in boot");
            let how = self.draw_crash();
            self.server.crash(how);
            self.server.boot();
        }
    }

    /// Serves, with this and that going wrong.
    fn live_a_while(&mut self) {
        for _ in 0..self.random.between(1, 4) {
            let is_troubled = self.scenario.faults && self.random.below(4) == 0;
            match if is_troubled { self.random.below(2) } else { 9 } {
                0 => {
                    let core = self.random.index(CORE_COUNT);
                    self.server.machine().pause(core);
                    self.step(1_000_000, 100_000_000);
                    self.server.machine().resume(core);
                    self.tell("pause");
                }
                1 => {
                    let free_bytes = self.random.below(3_000);
                    self.server.machine().set_disk_bytes_max(Some(self.server.machine().disk_bytes() + free_bytes));
                    self.step(1_000_000, 100_000_000);
                    self.server.machine().set_disk_bytes_max(None);
                    self.tell("full disk");
                }
                _ => self.step(1_000_000, 150_000_000),
            }
            if let Some(reason) = self.server.failure() {
                return self.judge_failure(&reason);
            }
        }
    }

    /// The server gave up. With a broken disk it may; without, it may not.
    fn judge_failure(&mut self, reason: &str) {
        self.tell(&format!("gave up: {reason}"));
        let is_excused = self.scenario.faults && !self.story.iter().all(|event| event != "full disk")
            || has_disk_errors(&self.faults);
        if !is_excused {
            self.ledger.violate(format!("the server does not start: {reason}"));
        }
    }

    fn end_life(&mut self) {
        // After a sync that failed the page cache shows what the disk does not have, and no later sync says so: a start that
        // finds it there is deceived, as every program on Linux is. Only a power cut tells the truth.
        let may_deceive = self.faults.sync_error_per_million > 0;
        if !may_deceive && self.server.failure().is_none() && self.random.below(4) == 0 && self.stop_cleanly() {
            return;
        }
        let how = self.draw_crash();
        self.tell(&format!("{how:?}"));
        self.server.crash(how);
    }

    /// SIGTERM; false where it was crashed before it came to an end.
    fn stop_cleanly(&mut self) -> bool {
        self.server.request_stop();
        let limit_ns = if self.random.below(4) == 0 { self.random.below(20_000_000) } else { 8_000_000_000 };
        let (server, sim) = (&self.server, &self.sim);
        let has_stopped = sim.run_until(|| server.has_stopped() || server.failure().is_some(), limit_ns).is_ok()
            && server.failure().is_none();
        let has_finished = has_stopped && self.server.finish_stop(&self.sim, limit_ns);
        if has_finished {
            self.tell("stop");
        }
        if !has_stopped && limit_ns == 8_000_000_000 && self.server.is_ready() && !has_disk_errors(&self.faults) {
            self.ledger.violate("a clean stop did not come to an end".to_owned());
        }
        has_finished
    }

    /// The last life: nothing goes wrong any more, so everything comes to an end.
    fn settle(&mut self, checker: Client) {
        self.sim.set_faults(Faults::default());
        if let Some(tier) = &mut self.server.tier
            && self.scenario.store.is_none()
        {
            tier.elsewhere = tier.elsewhere.map(|_| StoreFaults::default());
        }
        for is_last in [false, true] {
            self.server.boot();
            let (server, sim) = (&self.server, &self.sim);
            let booted = sim.run_until(|| server.is_ready() || server.failure().is_some(), SETTLE_NS);
            if let Some(reason) = server.failure() {
                return self.ledger.violate(format!("the server does not start: {reason}"));
            }
            if booted.is_err() {
                return self.ledger.violate(format!("the server is not ready in time: {booted:?}"));
            }
            let ledger = self.ledger.clone();
            ledger.end();
            let ended = sim.run_until(|| ledger.client_count() == 0 || ledger.is_violated(), SETTLE_NS);
            if ended.is_err() {
                let left = ledger.client_count();
                return ledger
                    .violate(format!("{left} clients do not come to an end although nothing is wrong: {ended:?}"));
            }
            let (io, judge) = (checker.io.clone(), self.ledger.clone());
            let again = Client { io: io.clone(), ledger: judge, random: self.random.fork(), ..checker };
            match sim.run(&io, SETTLE_NS, async move { workload::check_all(&again).await }) {
                Ok(Ok(())) => {}
                failed => {
                    return ledger.violate(format!("not all can be fetched although nothing is wrong: {failed:?}"));
                }
            }
            if is_last || ledger.is_violated() || self.random.coin() {
                return;
            }
            // Once more, after another end: what was there stays.
            self.end_life();
        }
    }

    fn step(&mut self, low_ns: u64, high_ns: u64) {
        let ns = self.random.between(low_ns, high_ns);
        let ledger = self.ledger.clone();
        let _ = self.sim.run_until(|| ledger.is_violated(), ns);
    }

    fn draw_crash(&self) -> Crash {
        if self.faults.sync_error_per_million > 0 {
            return Crash::PowerCut;
        }
        self.scenario.crashes[self.random.index(self.scenario.crashes.len())]
    }

    fn tell(&mut self, what: &str) {
        self.story.push(what.to_owned());
    }
}

/// A store of this machine or of another one, that is slow, fails and lies.
fn draw_tier(random: &Random, faults: bool) -> SimTier {
    let memory_bytes = [16 << 10, 256 << 10, 64 << 20][random.index(3)];
    if random.coin() {
        return SimTier { elsewhere: None, memory_bytes };
    }
    let rate = |max: u64| if faults && random.coin() { random.below(max) as u32 } else { 0 };
    let faults = StoreFaults {
        error_per_million: rate(30_000),
        hang_per_million: rate(20_000),
        hang_us: random.below(1_000_000),
        late_per_million: rate(20_000),
        delay_us_max: random.below(3_000),
        lost_rename_per_million: rate(200_000),
        short_close_per_million: rate(200_000),
        lost_remove_per_million: rate(200_000),
        stale_list_per_million: rate(500_000),
        hides_lies: false,
    };
    SimTier { elsewhere: Some(faults), memory_bytes }
}

fn has_disk_errors(faults: &Faults) -> bool {
    let Faults { read_error_per_million, write_error_per_million, .. } = *faults;
    let Faults { sync_error_per_million, metadata_error_per_million, .. } = *faults;
    read_error_per_million + write_error_per_million + sync_error_per_million + metadata_error_per_million > 0
}

fn draw_faults(random: &Random) -> Faults {
    let rate = |max: u64| if random.coin() { random.below(max) as u32 } else { 0 };
    Faults {
        read_error_per_million: rate(5_000),
        write_error_per_million: rate(5_000),
        sync_error_per_million: rate(5_000),
        metadata_error_per_million: rate(5_000),
        stream_reset_per_million: rate(10_000),
        connect_refused_per_million: rate(50_000),
        core_stall_per_million: rate(1_000),
        core_stall_ms_max: 50,
        wall_jump_ms_max: u64::from(rate(1_000)),
    }
}

/// A slow disk: more is under way at each moment.
fn slow(random: &Random) -> Delays {
    let times = random.between(2, 10);
    let slower = |(low, high): (u64, u64)| (low, high * times);
    let usual = Delays::default();
    Delays {
        sync_ns: slower(usual.sync_ns),
        metadata_ns: slower(usual.metadata_ns),
        write_ns: slower(usual.write_ns),
        ..usual
    }
}

const SEED_SALT: u64 = 0x0a11_0c1e;
/// Simulated time in which all comes to an end where nothing is wrong.
const SETTLE_NS: u64 = 120_000_000_000;
