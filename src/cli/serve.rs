//! `alluvium serve`: resolve the options, run the server; the log, the signals, the `ready` line.
#![allow(clippy::disallowed_methods)] // a thread of its own waits for signals

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use super::args::{self, ServeArgs};
use super::serve_options::{Machine, ServeError, ServeOptions};
use super::tier_settings;
use crate::control::broker_config::{BrokerConfig, Effect};
use crate::control::id::{BrokerId, CoreIndex};
use crate::ring::core::CoreOptions;
use crate::server::boot::{self, ServerOptions};
use crate::shard::options::{BrokerAddress, ListenMode, ShardOptions, TierOptions, WHOLE_SYNC_PARTITIONS_MIN};
use crate::tier::hdfs_options::TIER_THREADS;

/// Runs `alluvium serve` until it ends.
pub fn run(args: &ServeArgs) -> ExitCode {
    let ended = ServeOptions::resolve(args, &Machine::read()).and_then(|options| {
        // Standard error takes the options and the log; standard output has the `ready` line alone.
        let _ = write!(io::stderr().lock(), "{options}");
        serve(&options)
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("alluvium serve: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the server until SIGTERM or SIGINT. Prints one line that starts with `ready` when every core serves.
///
/// # Errors
/// In words that an operator can act on.
fn serve(options: &ServeOptions) -> Result<(), ServeError> {
    // The log is written by a thread of its own, and lines are dropped when a terminal cannot keep up: no core waits.
    let (writer, _flush_at_end) = tracing_appender::non_blocking(io::stderr());
    let filter = EnvFilter::try_new(&options.log_filter.value).unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false).with_ansi(false).init();

    end_at_panic();
    let server = server_options(options)?;
    // Taken over before the server starts, so that a signal during the start stops it cleanly too.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(ServeError::Signals)?;
    let ready_line = ready_line(&server);
    let ready = move || {
        let mut out = io::stdout().lock();
        // Nobody may be listening on standard output; the server runs all the same.
        let _ = writeln!(out, "{ready_line}").and_then(|()| out.flush());
    };
    let wait_for_stop = move || {
        if let Some(signal) = signals.forever().next() {
            info!(signal, "signal received, stopping");
        }
    };
    boot::serve(server, ready, wait_for_stop).map_err(ServeError::Server)
}

/// A panic ends the process, with its message: nothing may be served by what a core has left half-done. The threads that
/// speak to HDFS alone go on: what panics there is the client of HDFS, and it ends one call, which is tried again.
fn end_at_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        if !std::thread::current().name().is_some_and(|name| name.starts_with(TIER_THREADS)) {
            std::process::abort();
        }
    }));
}

fn ready_line(server: &ServerOptions) -> String {
    let brokers: Vec<String> =
        server.shard.brokers.iter().map(|broker| format!("{}={}:{}", broker.id, broker.host, broker.port)).collect();
    format!("ready {}", brokers.join(" "))
}

fn server_options(options: &ServeOptions) -> Result<ServerOptions, ServeError> {
    let mut broker_config = BrokerConfig::default();
    let mut hdfs = options.hdfs.clone();
    for (key, value) in &options.settings.value {
        if tier_settings::take_setting(&mut hdfs, key, value) {
            continue;
        }
        match broker_config.set(&tier_settings::full_name(key), value).map_err(ServeError::Setting)? {
            Effect::Works => {}
            Effect::NoMeaning { why } => warn!(key, value, why, "this setting has no meaning here"),
        }
    }
    tier_settings::settle(&mut hdfs);
    if options.tier.value.is_some() {
        broker_config.enable_tier();
    }
    broker_config.set("alluvium.durability", options.durability.value.name()).map_err(ServeError::Setting)?;
    let cpus = options.cores.value.clone();
    let core_count = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
    let node_id = i32::try_from(options.node_id.value).unwrap_or(i32::MAX);
    let advertise = &options.advertise.value;
    let listen_mode = match options.listen_mode.value {
        args::ListenMode::PerCore => ListenMode::PerCore,
        args::ListenMode::Single => ListenMode::Single,
        args::ListenMode::FirstCore => ListenMode::FirstCore,
    };
    let broker_count = if listen_mode.is_one_broker() { 1 } else { core_count };
    let brokers = CoreIndex::first(u16::try_from(broker_count).unwrap_or(u16::MAX))
        .into_iter()
        .map(|core| BrokerAddress {
            id: BrokerId::of(node_id, core).map_or(i32::MAX, |id| id.0),
            host: advertise.host.clone(),
            // Checked when the options were resolved: the last core's port is a port.
            port: advertise.port.saturating_add(core.index()),
        })
        .collect();
    let share = |whole: u32| usize::try_from(whole / core_count.max(1)).unwrap_or(usize::MAX).max(1);
    let memory_bytes = usize::try_from(options.memory_bytes.value).unwrap_or(usize::MAX) / cpus.len().max(1);
    let frame_memory_bytes = memory_bytes / 4 * 3;
    let request_bytes_max = broker_config.socket_request_max_bytes();
    check_memory(options, request_bytes_max, frame_memory_bytes)?;
    let shard = ShardOptions {
        node_id,
        core_count,
        cluster_id: String::new(),
        cluster_id_bytes: [0; 16],
        clamp_replication: options.clamp_replication.value,
        listen_mode,
        brokers,
        data_dirs: Vec::new(),
        catalog_dir: PathBuf::new(),
        unusable_dirs: Vec::new(),
        frame_memory_bytes,
        // Known when the machine was looked at.
        open_files_max: 0,
        whole_sync_partitions_min: WHOLE_SYNC_PARTITIONS_MIN,
        request_bytes_max,
        connection_idle_ms_max: broker_config.connections_max_idle_ms().unwrap_or(u64::MAX / 4),
        connections_max: share(broker_config.max_connections()),
        connections_per_ip_max: usize::try_from(broker_config.max_connections_per_ip()).unwrap_or(usize::MAX),
        fetch_bytes_max: broker_config.fetch_max_bytes(),
        fetch_sessions_max: share(broker_config.fetch_session_slots_max()),
        tier: options.tier.value.clone().map(|url| TierOptions {
            url,
            is_required: options.tier_required.value,
            memory_bytes: usize::try_from(options.tier_memory_bytes.value).unwrap_or(usize::MAX),
            hdfs: hdfs.clone(),
            #[cfg(feature = "hdfs")]
            companion: None,
        }),
        broker_config,
    };
    let ring = CoreOptions {
        ring_mask: options.ring_mask.value,
        spin_us: u64::from(options.spin_us.value),
        disk_operations_max: (DISK_QUEUE / cpus.len().max(1)).max(8),
        pool_bytes_max: memory_bytes / 8,
        ..CoreOptions::default()
    };
    Ok(ServerOptions { listen: options.listen.value, cpus, data_dirs: options.data_dirs.value.clone(), ring, shard })
}

/// A core must be able to hold the largest request there may be.
fn check_memory(options: &ServeOptions, request_bytes_max: u32, frame_memory_bytes: usize) -> Result<(), ServeError> {
    let needed = usize::try_from(request_bytes_max).unwrap_or(usize::MAX) / 15 * 16 + 1024 * 1024;
    if frame_memory_bytes < needed {
        let cores = options.cores.value.len();
        return Err(ServeError::Memory {
            request_bytes_max,
            cores,
            needed_bytes: (needed / 3 * 4 + 4) as u64 * cores as u64,
        });
    }
    Ok(())
}

/// Entries of a block device's queue: more operations in flight would make submission wait.
const DISK_QUEUE: usize = 256;
