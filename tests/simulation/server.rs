//! The real server on a simulated machine: booted as `server::boot` boots it, crashed, stopped.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;

use alluvium::control::broker_config::BrokerConfig;
use alluvium::ring::io::{Io, Listener};
use alluvium::ring::sim::machine::Machine;
use alluvium::ring::sim::options::Crash;
use alluvium::ring::sim::world::Sim;
use alluvium::server::core_main::{self, CoreBoot};
use alluvium::server::data_dir::{self, DataDirs};
use alluvium::shard::checkpoints;
use alluvium::shard::core::ShardMail;
use alluvium::shard::hosting::Closed;
use alluvium::shard::options::{BrokerAddress, ListenMode, ShardOptions, TierOptions};
use alluvium::tier::hdfs_options::HdfsOptions;
use alluvium::tier::sim_store::StoreFaults;
use alluvium::tier::tier_url::TierUrl;

/// Cores of the server: one listens on the port, the next on the port after.
pub(crate) const CORE_COUNT: usize = 2;

/// The server, running or not.
pub(crate) struct Server {
    machine: Machine,
    config: BrokerConfig,
    listen_mode: ListenMode,
    /// Where its tier is, if it has one.
    pub(crate) tier: Option<SimTier>,
    /// In the order of the command line.
    pub(crate) data_dirs: Vec<&'static str>,
    life: Option<Life>,
}

/// A tier: a folder of the server's disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimTier {
    /// It is as if it were on another machine, with what that does wrong.
    pub(crate) elsewhere: Option<StoreFaults>,
    /// `--tier-memory`, of one core.
    pub(crate) memory_bytes: usize,
}

/// One run of it, from a boot to a crash or a stop.
struct Life {
    main: Io,
    state: Rc<LifeState>,
}

#[derive(Default)]
struct LifeState {
    ready_count: Cell<usize>,
    ended_count: Cell<usize>,
    closed: RefCell<Closed>,
    failed: RefCell<Option<String>>,
    stop: Cell<bool>,
    dirs: RefCell<Option<DataDirs>>,
}

impl Server {
    /// A server that was never started, on an empty disk.
    pub(crate) fn new(sim: &Sim, config: BrokerConfig, listen_mode: ListenMode) -> Self {
        Self { machine: sim.machine(), config, listen_mode, tier: None, data_dirs: vec![DATA_DIR], life: None }
    }

    /// Brokers that clients see.
    pub(crate) fn broker_count(&self) -> usize {
        if self.listen_mode.is_one_broker() { 1 } else { CORE_COUNT }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Where a core listens.
    pub(crate) fn address(core: usize) -> SocketAddr {
        let port = PORT + u16::try_from(core).expect("few cores");
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), port)
    }

    /// Starts it; [`Server::is_ready`] tells when it serves.
    pub(crate) fn boot(&mut self) {
        assert!(self.life.is_none(), "it runs already");
        // The main thread has a ring of its own for what comes before the cores.
        let main = self.machine.core(CORE_COUNT);
        let cores: Vec<Io> = (0..CORE_COUNT).map(|core| self.machine.core(core)).collect();
        let state = Rc::new(LifeState::default());
        let options = self.options();
        let data_dirs = self.data_dirs.iter().map(PathBuf::from).collect();
        main.spawn(run(main.clone(), cores, options, data_dirs, state.clone()));
        self.life = Some(Life { main, state });
    }

    /// True when every core serves.
    pub(crate) fn is_ready(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.state.ready_count.get() == CORE_COUNT)
    }

    /// Why it gave up, where it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.life.as_ref().and_then(|life| life.state.failed.borrow().clone())
    }

    /// Ends it at once.
    pub(crate) fn crash(&mut self, how: Crash) {
        self.life = None;
        self.machine.crash(how);
    }

    /// Asks for a clean stop (SIGTERM); [`Server::has_stopped`] tells when the cores have ended.
    pub(crate) fn request_stop(&self) {
        let Some(life) = &self.life else { return };
        life.state.stop.set(true);
        (0..CORE_COUNT).for_each(|core| life.main.notify(core));
    }

    /// True when all cores have ended after a request to stop.
    pub(crate) fn has_stopped(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.state.ended_count.get() == CORE_COUNT)
    }

    /// After the cores have ended: writes what a clean stop writes, and ends the process. False where it does not come
    /// to an end in `limit_ns`; the machine is then to be crashed.
    pub(crate) fn finish_stop(&mut self, sim: &Sim, limit_ns: u64) -> bool {
        let Some(life) = self.life.take() else { return true };
        // As boot does: no marker where a core could not close all cleanly.
        let (dirs, closed) = (life.state.dirs.borrow().clone(), life.state.closed.take());
        drop(life);
        // The threads of the cores are joined first.
        self.machine.crash(Crash::Stop);
        let Some(dirs) = dirs else { return true };
        let main = self.machine.core(CORE_COUNT);
        let io = main.clone();
        let finished = sim.run(&main, limit_ns, async move {
            for dir in dirs.dirs.iter().filter(|dir| closed.is_clean(dir)) {
                if checkpoints::merge(&io, dir, CORE_COUNT as u32).await.is_ok() {
                    let _ = data_dir::write_clean_marker(&io, dir).await;
                }
            }
        });
        if finished.is_ok() {
            self.machine.crash(Crash::Stop);
        }
        finished.is_ok()
    }

    fn options(&self) -> ShardOptions {
        let brokers = (0..self.broker_count()).map(|core| BrokerAddress {
            id: broker_id(core),
            host: Self::address(core).ip().to_string(),
            port: Self::address(core).port(),
        });
        ShardOptions {
            node_id: NODE_ID,
            core_count: CORE_COUNT as u32,
            cluster_id: String::new(),
            cluster_id_bytes: [0; 16],
            clamp_replication: false,
            listen_mode: self.listen_mode,
            brokers: brokers.collect(),
            data_dirs: Vec::new(),
            catalog_dir: PathBuf::new(),
            unusable_dirs: Vec::new(),
            frame_memory_bytes: 8 << 20,
            // Few, so that handles are closed and opened again.
            open_files_max: 6,
            // Few, so that it is seen often.
            whole_sync_partitions_min: 2,
            request_bytes_max: 1 << 20,
            connection_idle_ms_max: 600_000,
            connections_max: 100,
            connections_per_ip_max: 100,
            fetch_bytes_max: 1 << 20,
            fetch_sessions_max: 10,
            broker_config: self.config.clone(),
            tier: self.tier.map(|tier| TierOptions {
                url: match tier.elsewhere {
                    None => TierUrl::Directory(PathBuf::from(TIER_DIR)),
                    Some(faults) => TierUrl::Simulated { base: PathBuf::from(TIER_DIR), faults },
                },
                is_required: false,
                memory_bytes: tier.memory_bytes,
                hdfs: HdfsOptions::default(),
                #[cfg(feature = "hdfs")]
                companion: None,
            }),
        }
    }
}

/// Broker id of a core.
pub(crate) fn broker_id(core: usize) -> i32 {
    NODE_ID * 1000 + core as i32
}

/// The core behind a broker id.
pub(crate) fn core_of(broker_id: i32) -> Option<usize> {
    (0..CORE_COUNT).find(|core| self::broker_id(*core) == broker_id)
}

/// The main thread: data directories, then the cores.
async fn run(io: Io, cores: Vec<Io>, options: ShardOptions, data_dirs: Vec<PathBuf>, state: Rc<LifeState>) {
    let listening = cores.iter().take(options.brokers.len());
    let listeners: Vec<Listener> = match listening.map(|core| core.listen(Server::address(core.core_index()))).collect()
    {
        Ok(listeners) => listeners,
        Err(error) => return state.fail(&format!("listen: {error}")),
    };
    let listeners = listeners.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
    for dir in &data_dirs {
        match io.create_dir(dir).await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return state.fail(&format!("mkdir: {error}")),
        }
    }
    // The directory is the operator's, made long ago.
    if let Err(error) = io.sync_dir(Path::new("/")).await {
        return state.fail(&format!("mkdir: {error}"));
    }
    let dirs = match data_dir::prepare(&io, &data_dirs, Vec::new(), NODE_ID).await {
        Ok(dirs) => dirs,
        Err(error) => return state.fail(&error.to_string()),
    };
    let options = ShardOptions {
        cluster_id: dirs.cluster_id.clone(),
        cluster_id_bytes: dirs.cluster_id_bytes,
        data_dirs: dirs.dirs.clone(),
        catalog_dir: dirs.catalog_dir.clone(),
        ..options
    };
    *state.dirs.borrow_mut() = Some(dirs);
    for ((core, mail), listener) in cores.into_iter().zip(ShardMail::mesh(CORE_COUNT)).zip(listeners) {
        let boot = CoreBoot { options: Rc::new(options.clone()), mail, listener };
        core.clone().spawn(run_core(core, boot, state.clone()));
    }
}

async fn run_core(io: Io, boot: CoreBoot, state: Rc<LifeState>) {
    let (ready, stopping, waiter) = (state.clone(), state.clone(), io.clone());
    let stop = std::future::poll_fn(move |_| {
        waiter.note_notified();
        if stopping.stop.get() { Poll::Ready(()) } else { Poll::Pending }
    });
    let ran = core_main::run(io, boot, move || ready.ready_count.set(ready.ready_count.get() + 1), stop).await;
    match ran {
        Ok(closed) => {
            state.closed.borrow_mut().join(closed);
            state.ended_count.set(state.ended_count.get() + 1);
        }
        Err(error) => state.fail(&error.to_string()),
    }
}

impl LifeState {
    fn fail(&self, reason: &str) {
        self.failed.borrow_mut().get_or_insert_with(|| reason.to_owned());
    }
}

pub(crate) const NODE_ID: i32 = 1;
const PORT: u16 = 9092;
pub(crate) const DATA_DIR: &str = "/data";
pub(crate) const TIER_DIR: &str = "/tier";
