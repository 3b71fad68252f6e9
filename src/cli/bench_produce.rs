//! `alluvium bench produce`: write prebuilt batches over pipelined connections.
#![allow(clippy::disallowed_methods)] // a load's own clock and files

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::args::BenchProduceArgs;
use super::bench_batch::PrebuiltBatch;
use super::bench_meter::{self, Meter};
use super::bench_plan::{self, LanePlan};
use super::bench_run;
use super::client_error::ClientError;
use super::cluster::Cluster;
use super::connection::Connection;
use super::produce_lane::{LaneEnd, OnAcknowledged, ProduceLane, RequestTemplate, Schedule};
use super::topic_admin::{self, NewTopic};
use super::topics;
use crate::wire::api_keys::ApiKey;
use crate::wire::error_code::ErrorCode;

/// Runs the load and prints its report.
pub fn run(args: &BenchProduceArgs) -> Result<(), ClientError> {
    let load = &args.load;
    let (mut cluster, limit) = topics::connect(&load.connect)?;
    if let Some(partitions) = args.create_partitions {
        make_topic(&mut cluster, &load.topic, partitions, limit)?;
    }
    let topic = cluster.topic(&load.topic)?;
    let led = bench_run::leaders(&topic, load.partitions)?;
    let plans = bench_plan::plan(&led, load.connections as usize);
    bench_run::note_connections(load, plans.len());

    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let codec = args.compression.codec();
    let batch = PrebuiltBatch::build(args.batch_bytes, args.record_bytes, codec, now_ms as i64, BATCH_SEED)
        .map_err(|source| ClientError::System { what: "compress a batch", source })?;
    let meter = Meter::default();
    let acknowledged: Vec<_> = topic.partitions.iter().map(|_| AtomicI64::new(-1)).collect();
    // A thread for each processor at most: one thread serves hundreds of connections, and more would only take turns.
    let threads = thread::available_parallelism().map_or(1, usize::from).min(plans.len()).max(1);
    let mut workers = Vec::with_capacity(threads);
    for index in 0..threads {
        let mine: Vec<_> = plans.iter().skip(index).step_by(threads).cloned().collect();
        let mut worker = Worker {
            args,
            limit,
            batch: &batch,
            meter: &meter,
            acknowledged: args.acked_file.is_some().then_some(acknowledged.as_slice()),
            plans: mine,
            lanes_all: plans.len(),
            first_lane: index,
            lane_step: threads,
            lanes: Vec::new(),
            epoll: epoll::create(CreateFlags::CLOEXEC).map_err(epoll_error)?,
            latencies: bench_meter::latencies(),
        };
        worker.open(&mut cluster)?;
        workers.push(move || worker.run());
    }
    let report = bench_run::run("produce", load, load.warmup_seconds, &meter, workers);
    write_acknowledged(args, &acknowledged)?;
    bench_run::finish(&report, load, &meter)
}

struct Worker<'a> {
    args: &'a BenchProduceArgs,
    limit: Duration,
    batch: &'a PrebuiltBatch,
    meter: &'a Meter,
    acknowledged: Option<&'a [AtomicI64]>,
    plans: Vec<LanePlan>,
    /// How many lanes all threads have together, and which of them are this thread's: where it stands in a schedule.
    lanes_all: usize,
    first_lane: usize,
    lane_step: usize,
    lanes: Vec<WatchedLane>,
    epoll: OwnedFd,
    latencies: Histogram<u64>,
}

impl Worker<'_> {
    /// Works until the time is over, or until the partitions' leaders cannot be reached any more.
    fn run(mut self) -> Histogram<u64> {
        // The kernel rounds a sleep up by 50 us unless told otherwise; a schedule wants better.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
        while let Err(end) = self.drive() {
            if self.meter.is_stopped() {
                break;
            }
            if !matches!(end, LaneEnd::LeaderMoved) {
                self.meter.count_error(|| end.to_string());
            }
            if let Err(error) = self.reopen() {
                if !self.meter.is_stopped() {
                    self.meter.count_error(|| error.to_string());
                }
                break;
            }
        }
        self.latencies
    }

    /// Sends and receives until the time is over.
    fn drive(&mut self) -> Result<(), LaneEnd> {
        let acknowledged = self.acknowledged;
        let note = move |partition: i32, offset: i64| {
            let index = usize::try_from(partition).ok();
            if let Some(place) = index.and_then(|index| acknowledged?.get(index)) {
                place.fetch_max(offset, Relaxed);
            }
        };
        let on_acknowledged: Option<OnAcknowledged<'_>> = acknowledged.is_some().then_some(&note);
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        while !self.meter.is_stopped() {
            let due = self.lanes.iter().filter_map(|watched| watched.lane.next_due()).min();
            wait(&self.epoll, due, &mut events).map_err(LaneEnd::Broken)?;
            for event in events.drain(..) {
                let index = event.data.u64() as usize;
                let Some(watched) = self.lanes.get_mut(index) else {
                    continue;
                };
                let flags = event.flags;
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    watched.lane.receive(self.batch, self.meter, &mut self.latencies, on_acknowledged)?;
                }
                watched.send(&self.epoll, index, self.batch, self.meter)?;
            }
            if due.is_none() {
                continue;
            }
            let now = Instant::now();
            for (index, watched) in self.lanes.iter_mut().enumerate() {
                if watched.lane.next_due().is_some_and(|due| due <= now) {
                    watched.send(&self.epoll, index, self.batch, self.meter)?;
                }
            }
        }
        Ok(())
    }

    /// Closes all connections and opens them to the partitions' leaders of now.
    fn reopen(&mut self) -> Result<(), ClientError> {
        self.lanes.clear();
        let deadline = Instant::now() + REOPEN_LIMIT;
        loop {
            let (mut cluster, plans) =
                bench_run::follow_leaders(&self.args.load, &self.plans, self.meter, REOPEN_LIMIT)?;
            self.plans = plans;
            match self.open(&mut cluster) {
                Ok(()) => return Ok(()),
                // The server may know of a broker that is not up yet.
                Err(_) if Instant::now() < deadline && !self.meter.is_stopped() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a connection for each plan.
    fn open(&mut self, cluster: &mut Cluster) -> Result<(), ClientError> {
        self.lanes.clear();
        let started = Instant::now();
        for (index, plan) in self.plans.iter().enumerate() {
            let address = cluster.broker_address(plan.broker_id).ok_or_else(|| ClientError::NoLeader {
                topic: self.args.load.topic.clone(),
                partition: plan.partitions.first().copied().unwrap_or(-1),
            })?;
            let connection = Connection::connect(address, self.limit)?;
            let version = connection.version(ApiKey::Produce, PRODUCE_VERSION_MAX)?;
            let lane = self.lane(index, plan, version, started, connection)?;
            let data = EventData::new_u64(index as u64);
            // Writable at once, which is what starts it.
            epoll::add(&self.epoll, lane.stream(), data, EventFlags::IN | EventFlags::OUT).map_err(epoll_error)?;
            self.lanes.push(WatchedLane { lane, for_write: true });
        }
        Ok(())
    }

    fn lane(
        &self,
        index: usize,
        plan: &LanePlan,
        version: i16,
        started: Instant,
        connection: Connection,
    ) -> Result<ProduceLane, ClientError> {
        let (args, topic, acks) = (self.args, &self.args.load.topic, self.args.acks.code());
        let groups = plan.partitions.chunks(args.partitions_per_request as usize);
        let templates: Result<Vec<_>, _> = groups
            .map(|partitions| RequestTemplate::build(version, topic, acks, partitions, &self.batch.bytes))
            .collect();
        let api = ApiKey::Produce.name();
        let templates = templates.map_err(|source| ClientError::Encode { api, source })?;
        let schedule = args.rate.map(|rate| {
            let every = Duration::from_secs_f64(self.lanes_all as f64 / rate);
            let place = (self.first_lane + index * self.lane_step) as f64 / self.lanes_all.max(1) as f64;
            Schedule { next: started + every.mul_f64(place.min(1.0)), every }
        });
        let in_flight_max = args.in_flight as usize;
        let address = connection.address().clone();
        ProduceLane::new(connection.into_stream(), version, acks, templates, in_flight_max, schedule)
            .map_err(|source| ClientError::Broken { address, api, source })
    }
}

/// A lane and what the kernel was asked to tell about it.
struct WatchedLane {
    lane: ProduceLane,
    for_write: bool,
}

impl WatchedLane {
    fn send(&mut self, epoll: &OwnedFd, index: usize, batch: &PrebuiltBatch, meter: &Meter) -> Result<(), LaneEnd> {
        self.lane.send(batch, meter)?;
        let for_write = self.lane.wants_write();
        if for_write != self.for_write {
            self.for_write = for_write;
            let flags = if for_write { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            let data = EventData::new_u64(index as u64);
            epoll::modify(epoll, self.lane.stream(), data, flags).map_err(|error| LaneEnd::Broken(error.into()))?;
        }
        Ok(())
    }
}

/// Sleeps until a socket has news, a request is due, or it is time to look whether the load is over.
fn wait(epoll: &OwnedFd, due: Option<Instant>, events: &mut Vec<Event>) -> std::io::Result<()> {
    let limit = due.map_or(STOP_LOOK, |due| due.saturating_duration_since(Instant::now()).min(STOP_LOOK));
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    match epoll::wait(epoll, spare_capacity(events), Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn make_topic(cluster: &mut Cluster, name: &str, partitions: i32, limit: Duration) -> Result<(), ClientError> {
    let new = NewTopic { name, partitions: Some(partitions), replication_factor: 1, configs: &[] };
    match topic_admin::create(cluster, &new, limit) {
        Err(error) if error.is_refusal(ErrorCode::TopicAlreadyExists) => {
            topic_admin::wait_until_led(cluster, name, limit).map(|_| ())
        }
        made => made.map(|_| ()),
    }
}

/// One line a partition: its index and the last offset acknowledged, -1 for none.
fn write_acknowledged(args: &BenchProduceArgs, acknowledged: &[AtomicI64]) -> Result<(), ClientError> {
    let Some(path) = &args.acked_file else {
        return Ok(());
    };
    let mut text = String::new();
    for (partition, offset) in acknowledged.iter().enumerate() {
        let _ = writeln!(text, "{partition} {}", offset.load(Relaxed));
    }
    fs::write(path, text).map_err(|source| ClientError::File { path: path.display().to_string(), source })
}

fn epoll_error(error: Errno) -> ClientError {
    ClientError::System { what: "watch sockets", source: error.into() }
}

const BATCH_SEED: u64 = 0x616c_6c75_7669_756d;
/// By name: version 13 goes by topic ids, which changes nothing that is measured.
const PRODUCE_VERSION_MAX: i16 = 12;
const EVENTS_MAX: usize = 64;
/// How soon a thread sees that the load is over.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// How long a load waits for a server that has gone.
const REOPEN_LIMIT: Duration = Duration::from_secs(5);
