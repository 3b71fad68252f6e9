//! The life of one core: take the catalog, open partitions, serve, stop cleanly.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use tracing::{info, warn};

use crate::api::context::Api;
use crate::ring::io::{Io, Listener};
use crate::ring::timer::Nanos;
use crate::server::listener::{self, Connections};
use crate::shard::catalog_host::{self, CatalogHost};
use crate::shard::checkpoints;
use crate::shard::cleaner;
use crate::shard::core::{Shard, ShardMail, StartState};
use crate::shard::error::StartError;
use crate::shard::forward;
use crate::shard::hosting::{self, Closed};
use crate::shard::manifest_writer;
use crate::shard::options::ShardOptions;
use crate::shard::retention;
use crate::shard::tier_work;
use crate::tier::error::OwnerError;

/// What one core needs besides the world.
pub struct CoreBoot {
    /// The same on all cores.
    pub options: Rc<ShardOptions>,
    /// Mail to and from the others.
    pub mail: ShardMail,
    /// Listens already: all ports were bound before any core started. `None` where other cores accept for this one.
    pub listener: Option<Listener>,
}

/// Runs a core until `stop` ends. `ready` is called when this core serves all that the catalog places on it.
///
/// On return everything acknowledged is in the files, the recovery points are written, and no task uses a partition. Says
/// whether all of it could be closed as a clean stop demands.
///
/// # Errors
/// The catalog cannot be read: no core may serve then.
pub async fn run(
    io: Io,
    boot: CoreBoot,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<Closed, StartError> {
    let shard = Shard::new(io.clone(), boot.options, boot.mail);
    let mut recovery_points = BTreeMap::new();
    for dir in &shard.options().data_dirs {
        // What a killed server had made, and was not yet durable, is built upon from here on.
        match io.sync_dir(&dir.path).await {
            Ok(()) => {}
            Err(source) if dir.path == shard.options().catalog_dir => {
                return Err(StartError::CatalogDisk { path: dir.path.clone(), source });
            }
            Err(source) => shard.fail_directory(&dir.path, "it could not be synced", &source),
        }
        recovery_points.insert(dir.path.clone(), checkpoints::load(&io, dir).await);
    }
    shard.durability().open(&io).await;
    shard.set_start_state(StartState { recovery_points });
    let mut stop = Box::pin(stop);
    let host = match shard.core_index() {
        CONTROLLER_CORE => Some(CatalogHost::load(&shard).await?),
        _ => None,
    };
    io.spawn(catalog_host::answer_mail(shard.clone(), host.clone()));
    io.spawn(forward::run_jobs(shard.clone()));
    if let Some(host) = &host {
        host.start(&shard).await?;
        io.spawn(hosting::sweep(shard.clone()));
    } else if !wait_for_catalog(&shard, stop.as_mut()).await {
        return Ok(Closed::default());
    }
    let api = Api::new(shard.clone());
    let connections = Connections::new(io.random_u64());
    if let Some(listener) = boot.listener {
        io.spawn(listener::accept(api, listener, connections.clone()));
    }
    begin_tier(&shard).await?;
    checkpoints::keep_log_starts(&shard).await;
    io.spawn(checkpoints::keep(shard.clone()));
    io.spawn(retention::keep(shard.clone()));
    io.spawn(cleaner::keep(shard.clone()));
    io.spawn(tier_work::keep(shard.clone()));
    io.spawn(manifest_writer::keep(shard.clone()));
    ready();
    stop.await;

    shard.stop();
    let deadline = io.now().plus_ms(DRAIN_MS_MAX);
    wait_for_connections(&shard, &connections, deadline).await;
    if shard.options().listen_mode.is_one_broker() {
        shard.wait_all_drained(deadline).await;
    }
    let closed = hosting::close_all(&shard).await;
    let turns = io.turn_stats();
    info!(
        core = shard.core_index(),
        turns = turns.turns,
        turn_us_p99 = turns.turn_us_at(0.99),
        turn_us_longest = turns.longest_us(),
        turns_over_10_ms = turns.stalls,
        "core stopped"
    );
    Ok(closed)
}

/// Looks at the tier once before the server is ready, so that a wrong one is told at once.
///
/// # Errors
/// It is another cluster's; or it does not answer, and `--tier-required` was given.
async fn begin_tier(shard: &Rc<Shard>) -> Result<(), StartError> {
    let Some(tier) = &shard.options().tier else { return Ok(()) };
    match tier_work::claim(shard).await {
        Ok(()) => Ok(()),
        Err(error @ (OwnerError::Other { .. } | OwnerError::Missing { .. })) => Err(error.into()),
        Err(error) if tier.is_required => Err(error.into()),
        Err(error) => {
            warn!(%error, "the tier does not answer; the server starts without it and tries again");
            Ok(())
        }
    }
}

/// A core that is not the controller's gets the catalog by mail, and has opened its partitions when it has it. False
/// where the server stops first: the controller's core could not start.
async fn wait_for_catalog(shard: &Rc<Shard>, mut stop: Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_fn(|context| {
        if shard.has_catalog() {
            return Poll::Ready(true);
        }
        shard.note_catalog();
        stop.as_mut().poll(context).map(|()| false)
    })
    .await
}

/// Waits until all connections have had their last reply, within a limit.
async fn wait_for_connections(shard: &Rc<Shard>, connections: &Rc<Connections>, deadline: Nanos) {
    let io = shard.io();
    let _timer = io.wake_at(deadline);
    poll_fn(|_| {
        if connections.count() == 0 {
            return Poll::Ready(());
        }
        if io.now() >= deadline {
            warn!(connections = connections.count(), "connections are cut: they did not end within {DRAIN_MS_MAX} ms");
            return Poll::Ready(());
        }
        connections.all_ended().wait(io.current_task());
        Poll::Pending
    })
    .await;
}

/// The core with the catalog: in Kafka's terms, the controller.
pub const CONTROLLER_CORE: u32 = 0;
const DRAIN_MS_MAX: u64 = 5_000;
