//! Places for lookups by time, from a clean stop to the next start.
//!
//! Each core leaves a file in each data directory: see [`core_places`]. Derived: where there is none, a lookup asks the
//! indexes.

use std::path::Path;
use std::rc::Rc;

use tracing::warn;

use crate::log::core_places::{self, CorePlaces};
use crate::ring::io::{Io, OpenHow, read_file, replace_file};
use crate::shard::core::Shard;
use crate::shard::options::DataDir;

/// What the last run left in a directory; nothing after a crash, when it is of some run before.
pub async fn load(io: &Io, dir: &DataDir) -> CorePlaces {
    let mut places = CorePlaces::new();
    if !dir.clean {
        return places;
    }
    for name in names(io, &dir.path).await {
        let path = dir.path.join(name);
        match read_file(io, &path, FILE_BYTES_MAX).await.map(|bytes| core_places::parse(&bytes)) {
            Ok(Some(found)) => places.extend(found),
            Ok(None) => {
                warn!(path = %path.display(), "the kept places make no sense; lookups by time will ask the indexes")
            }
            Err(error) => {
                warn!(path = %path.display(), %error, "the kept places could not be read; lookups by time will ask the indexes");
            }
        }
    }
    places
}

/// Keeps the places of all partitions, for a clean stop.
pub(in crate::shard) async fn write(shard: &Rc<Shard>) {
    for dir in shard.options().data_dirs.iter().filter(|dir| !shard.directory_has_failed(&dir.path)) {
        let mut places = CorePlaces::new();
        for partition in shard.partitions().iter().filter(|partition| partition.folder().parent() == Some(&dir.path)) {
            let segments = partition.log().borrow().segment_places();
            if !segments.is_empty() {
                places.insert(partition.id(), segments);
            }
        }
        let path = dir.path.join(format!("{PREFIX}{}", shard.core_index()));
        let bytes = core_places::to_bytes(&places);
        let is_kept = !places.is_empty() && bytes.len() as u64 <= FILE_BYTES_MAX;
        let written = match is_kept {
            true => replace_file(shard.io(), &path, bytes).await,
            false if shard.io().open(&path, OpenHow::Read).await.is_ok() => shard.io().remove_file(&path).await,
            false => Ok(()),
        };
        if let Err(error) = written {
            warn!(path = %path.display(), %error, "the places for lookups by time could not be kept; they will ask the indexes");
        }
    }
}

/// Removes the files of cores that are no more, when no core writes any.
pub(in crate::shard) async fn remove_others(io: &Io, dir: &DataDir, core_count: u32) {
    for name in names(io, &dir.path).await {
        let core = name.strip_prefix(PREFIX).and_then(|core| core.parse::<u32>().ok());
        if core.is_some_and(|core| core >= core_count) {
            // One that stays says nothing of segments that have changed since.
            let _ = io.remove_file(&dir.path.join(name)).await;
        }
    }
}

async fn names(io: &Io, dir: &Path) -> Vec<String> {
    let entries = io.read_dir(dir).await.unwrap_or_default();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.starts_with(PREFIX) && !name.ends_with(".tmp")).collect()
}

/// Each core's file: this and its index.
const PREFIX: &str = "time-places.core-";
/// The places of 8 TiB.
const FILE_BYTES_MAX: u64 = 256 << 20;
