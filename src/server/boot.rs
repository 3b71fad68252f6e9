//! Boot and stop of the whole server: locks, ports, one thread a core.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::Poll;

use tracing::{error, info};

use crate::ring::core::{self as ring_core, CoreOptions, RunError};
use crate::ring::dir_lock::{DirLock, LockError};
use crate::ring::io::Io;
use crate::ring::mesh::{CoreMesh, CoreSeat, Notifier};
use crate::ring::port::{BoundPort, PortTaken, bind_ports, bind_shared_port, bind_soon};
use crate::ring::startup_check;
use crate::server::core_main::{self, CoreBoot};
use crate::server::data_dir::{self, DataDirError, DataDirs, LOCK_FILE};
use crate::shard::checkpoints;
use crate::shard::core::ShardMail;
use crate::shard::durability::SYNCS_AT_ONCE_MAX;
use crate::shard::error::StartError;
use crate::shard::hosting::Closed;
use crate::shard::options::{ListenMode, ShardOptions};
#[cfg(feature = "hdfs")]
use crate::tier::companion::{Companion, CompanionOptions};
#[cfg(feature = "hdfs")]
use crate::tier::tier_url::TierUrl;

/// What the server was started with, resolved.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where core 0 listens; core i listens on the port plus i.
    pub listen: SocketAddr,
    /// The CPU of each core.
    pub cpus: Vec<usize>,
    /// The data directories.
    pub data_dirs: Vec<PathBuf>,
    /// How each core's ring runs; the CPU is set for each core.
    pub ring: CoreOptions,
    /// What the cores are told; `cluster_id` and `data_dirs` are filled in here.
    pub shard: ShardOptions,
}

/// Why the server does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// This machine lacks something.
    #[error("this machine cannot run the server:\n{0}")]
    Machine(String),
    /// Another server has the data directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A port is taken.
    #[error(
        "core {core} cannot listen on {address}: {source}; core i needs port + i: stop what uses it, or choose another --listen"
    )]
    Port {
        /// Index of the core.
        core: usize,
        /// Where it was to listen.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The data directories cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A core's ring failed.
    #[error(transparent)]
    Ring(#[from] RunError),
    /// A core could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The thread beside a core that speaks to HDFS.
    #[error("the thread of core {core} that speaks to HDFS could not be started: {source}")]
    Companion {
        /// Index of the core.
        core: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// A core's thread is gone.
    #[error("core {core} ended unexpectedly; see the lines above")]
    CoreGone {
        /// Index of the core.
        core: usize,
    },
}

/// Runs the server until `wait_for_stop` returns. `ready` is called when every core serves.
///
/// # Errors
/// Each in words that an operator can act on; nothing is left running.
pub fn serve(mut options: ServerOptions, ready: impl FnOnce(), wait_for_stop: impl FnOnce()) -> Result<(), ServeError> {
    let cores = options.cpus.len();
    let offered = startup_check::check(&options.ring, cores, OPEN_FILES_MIN)
        .map_err(|lacks| ServeError::Machine(lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    // Half of the descriptors for segments; connections have the rest.
    let open_files = usize::try_from(offered.open_files_max).unwrap_or(usize::MAX);
    options.shard.open_files_max = (open_files / 2 / cores.max(1)).clamp(OPEN_SEGMENTS_MIN, OPEN_SEGMENTS_MAX);
    // All ports and all locks first: a server that cannot have them changes nothing on the disk.
    let ports = bind_soon(|| bind(&options)).map_err(|taken| ServeError::Port {
        core: taken.core,
        address: taken.address,
        source: taken.source,
    })?;
    let (_locks, dirs) = prepare_data_dirs(&options)?;
    let stop = Arc::new(AtomicBool::new(false));
    let cores = start_cores(&options, &dirs, ports, &stop)?;
    let started = cores.wait_ready();
    if started.is_ok() {
        ready();
        wait_for_stop();
        info!("stopping");
    }
    stop.store(true, Ordering::Release);
    cores.notifiers.iter().for_each(Notifier::notify);
    // The error of a core says more than that it is gone.
    let closed = cores.join()?;
    started?;
    finish_data_dirs(&options, dirs, closed)
}

/// The threads of all cores.
struct Cores {
    threads: Vec<std::thread::JoinHandle<Result<Closed, ServeError>>>,
    notifiers: Vec<Notifier>,
    news: mpsc::Receiver<CoreNews>,
}

/// What a core's thread tells the main one.
enum CoreNews {
    /// It serves.
    Ready,
    /// It runs no more: stopped, failed or panicked.
    Ended { core: usize },
}

/// Tells of a thread's end, however it ends.
struct EndNotice {
    core: usize,
    news: mpsc::Sender<CoreNews>,
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        // The main thread may be past listening.
        let _ = self.news.send(CoreNews::Ended { core: self.core });
    }
}

impl Cores {
    /// Waits until every core serves, or one has given up; the others may then be waiting for that one.
    fn wait_ready(&self) -> Result<(), ServeError> {
        let mut left = self.threads.len();
        while left > 0 {
            match self.news.recv() {
                Ok(CoreNews::Ready) => left -= 1,
                Ok(CoreNews::Ended { core }) => return Err(ServeError::CoreGone { core }),
                Err(mpsc::RecvError) => return Err(ServeError::CoreGone { core: 0 }),
            }
        }
        Ok(())
    }

    /// Waits for all threads; the first error of any.
    fn join(self) -> Result<Closed, ServeError> {
        let mut all = Ok(Closed::default());
        for (core, thread) in self.threads.into_iter().enumerate() {
            let ended = thread.join().unwrap_or(Err(ServeError::CoreGone { core }));
            if let Err(error) = &ended {
                error!(core, %error, "core failed");
            }
            all = match (all, ended) {
                (Ok(mut closed), Ok(this)) => {
                    closed.join(this);
                    Ok(closed)
                }
                (Ok(_), Err(error)) | (Err(error), _) => Err(error),
            };
        }
        all
    }
}

/// Locks the data directories and makes them ours, through a ring of this thread's own.
fn prepare_data_dirs(options: &ServerOptions) -> Result<(Vec<DirLock>, DataDirs), ServeError> {
    let (mut locks, mut paths, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for path in &options.data_dirs {
        match DirLock::take(path, LOCK_FILE) {
            Ok(lock) => {
                locks.push(lock);
                paths.push(path.clone());
            }
            // The others may do.
            Err(LockError::Io { path: file, source }) if options.data_dirs.len() > 1 => {
                refused.push(DataDirError::Io { dir: path.clone(), path: file, source });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let node_id = options.shard.node_id;
    let dirs =
        run_apart(options, move |io| async move { Ok(data_dir::prepare(&io, &paths, refused, node_id).await?) })?;
    Ok((locks, dirs))
}

/// Writes what Kafka has once a directory, when no core writes any more.
fn finish_data_dirs(options: &ServerOptions, dirs: DataDirs, closed: Closed) -> Result<(), ServeError> {
    let core_count = options.shard.core_count;
    run_apart(options, move |io| async move {
        for dir in &dirs.dirs {
            if !closed.is_clean(dir) {
                error!(dir = %dir.path.display(), "the stop was not clean in this directory; the next start scans what lies past the recovery points");
                continue;
            }
            // A directory whose checkpoints cannot be merged is left unclean: the next start scans it.
            let finished = match checkpoints::merge(&io, dir, core_count).await {
                Ok(()) => data_dir::write_clean_marker(&io, dir).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = finished {
                error!(dir = %dir.path.display(), %error, "the stop was not clean in this directory; the next start scans it");
            }
        }
        Ok(())
    })
}

/// The port of each core; of one broker it is the same for all, or core 0's alone.
fn bind(options: &ServerOptions) -> Result<Vec<Option<BoundPort>>, PortTaken> {
    let cores = options.cpus.len();
    let mut ports: Vec<Option<BoundPort>> = match options.shard.listen_mode {
        ListenMode::PerCore => bind_ports(options.listen, cores)?,
        ListenMode::Single => bind_shared_port(options.listen, cores)?,
        ListenMode::FirstCore => bind_shared_port(options.listen, 1)?,
    }
    .into_iter()
    .map(Some)
    .collect();
    ports.resize_with(cores, || None);
    Ok(ports)
}

fn run_apart<T, F>(options: &ServerOptions, main: impl FnOnce(Io) -> F) -> Result<T, ServeError>
where
    T: 'static,
    F: Future<Output = Result<T, ServeError>> + 'static,
{
    let mesh = CoreMesh::new(1).map_err(|error| RunError::Ring { core: 0, error })?;
    let ring = CoreOptions { cpu: None, receive_buffer_count: 1, receive_buffer_bytes: 4096, ..options.ring.clone() };
    ring_core::run(ring, mesh.seat(0), main)?
}

fn start_cores(
    options: &ServerOptions,
    dirs: &DataDirs,
    ports: Vec<Option<BoundPort>>,
    stop: &Arc<AtomicBool>,
) -> Result<Cores, ServeError> {
    let mesh = CoreMesh::new(options.cpus.len()).map_err(|error| RunError::Ring { core: 0, error })?;
    let mails = ShardMail::mesh(options.cpus.len());
    let (news_sender, news) = mpsc::channel();
    let mut cores = Cores { threads: Vec::new(), notifiers: Vec::new(), news };
    let ring = options.ring.clone().with_syncs_at_once(dirs.dirs.len().max(1) * SYNCS_AT_ONCE_MAX);
    let parts = ports.into_iter().zip(mails).zip(&options.cpus);
    for (index, ((port, mail), cpu)) in parts.enumerate() {
        let seat = mesh.seat(index);
        cores.notifiers.push(seat.notifier());
        let core = CoreThread {
            ring: CoreOptions { cpu: Some(*cpu), ..ring.clone() },
            shard: ShardOptions {
                cluster_id: dirs.cluster_id.clone(),
                cluster_id_bytes: dirs.cluster_id_bytes,
                data_dirs: dirs.dirs.clone(),
                unusable_dirs: dirs.unusable.clone(),
                catalog_dir: dirs.catalog_dir.clone(),
                ..options.shard.clone()
            },
            port,
            mail,
            news: news_sender.clone(),
            stop: stop.clone(),
        };
        let builder = std::thread::Builder::new().name(format!("core-{index}"));
        let thread = builder.spawn(move || core.run(seat)).map_err(|error| RunError::Ring { core: index, error })?;
        cores.threads.push(thread);
    }
    Ok(cores)
}

/// What one core's thread takes with it.
struct CoreThread {
    ring: CoreOptions,
    shard: ShardOptions,
    port: Option<BoundPort>,
    mail: ShardMail,
    news: mpsc::Sender<CoreNews>,
    stop: Arc<AtomicBool>,
}

impl CoreThread {
    fn run(self, seat: CoreSeat) -> Result<Closed, ServeError> {
        let index = seat.core_index();
        let Self { ring, shard, port, mail, news, stop } = self;
        let _notice = EndNotice { core: index, news: news.clone() };
        #[cfg(feature = "hdfs")]
        let shard = with_companion(shard, index, ring.cpu)?;
        let ran = ring_core::run(ring, seat, move |io| async move {
            let listener = port.map(|port| port.into_listener(&io)).transpose();
            let listener = listener.map_err(|source| StartError::Listen { core: index, source })?;
            let boot = CoreBoot { options: Rc::new(shard), mail, listener };
            // The main thread may have given up already; then the stop comes next.
            let tell_ready = move || {
                let _ = news.send(CoreNews::Ready);
            };
            core_main::run(io.clone(), boot, tell_ready, stop_requested(io, stop)).await
        })?;
        Ok(ran?)
    }
}

/// The options of a core that has its companion, where the tier needs one. It ends with the core.
#[cfg(feature = "hdfs")]
fn with_companion(mut shard: ShardOptions, core: usize, cpu: Option<usize>) -> Result<ShardOptions, ServeError> {
    if let Some(tier) = shard.tier.as_mut().filter(|tier| matches!(tier.url, TierUrl::Hdfs { .. })) {
        let companion = Companion::start(&CompanionOptions::new(core, cpu, &tier.hdfs))
            .map_err(|source| ServeError::Companion { core, source })?;
        if core == 0 && !companion.can_rise() {
            info!(
                "the threads that speak to HDFS stay behind the cores however much waits: this process may not raise a priority (CAP_SYS_NICE, or `ulimit -e 20`)"
            );
        }
        tier.companion = Some(companion);
    }
    Ok(shard)
}

/// Ends when the main thread asks for the stop.
async fn stop_requested(io: Io, stop: Arc<AtomicBool>) {
    std::future::poll_fn(|_| {
        // Noted first, looked at second: no notice is lost.
        io.note_notified();
        if stop.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Descriptors that a server needs to be of use.
const OPEN_FILES_MIN: u64 = 1024;
/// Segment files that a core may keep open.
const OPEN_SEGMENTS_MIN: usize = 16;
const OPEN_SEGMENTS_MAX: usize = 65_536;
