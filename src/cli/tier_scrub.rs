//! `alluvium tier scrub`: what is in the store against what is known of it; what nobody knows may be deleted.

use std::collections::{BTreeMap, BTreeSet};

use super::output;
use super::progress::Progress;
use super::tier::{TierCommandError, load_all, open_store};
use super::tier_args::TierScrubArgs;
use crate::ring::io::Io;
use crate::tier::error::StoreError;
use crate::tier::store::{Store, StoreEntry, TEMPORARY_FOLDER, parse_partition_folder, partition_folder};

/// What was found.
#[derive(Default)]
struct Findings {
    orphans: u64,
    orphan_bytes: u64,
    missing: u64,
    deleted: u64,
}

/// What of a folder nobody knows.
struct Scrubbing<'a> {
    store: &'a Store,
    args: &'a TierScrubArgs,
    now_ms: i64,
    findings: Findings,
}

/// Looks, and deletes where that was asked for.
pub(in crate::cli) async fn scrub(io: Io, args: TierScrubArgs) -> Result<(), TierCommandError> {
    let store = open_store(&io, &args.tier, &args.hdfs)?;
    // First what is in the store, then what is known: what is copied meanwhile is not taken for an orphan.
    let folders = list(&store, "").await?;
    let mut files: BTreeMap<String, Vec<StoreEntry>> = BTreeMap::new();
    let progress = Progress::of_count(folders.len() as u64);
    for folder in folders.iter().filter(|entry| entry.is_dir) {
        progress.at(&folder.name);
        if folder.name == TEMPORARY_FOLDER || parse_partition_folder(&folder.name).is_some() {
            files.insert(folder.name.clone(), list(&store, &folder.name).await?);
        }
        progress.add(1);
    }
    drop(progress);
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut finished: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for loaded in load_all(&io, &args.which).await? {
        let header = loaded.file.header();
        let folder = partition_folder(&header.topic, header.id);
        known.entry(folder.clone()).or_default().extend(loaded.segments.live().iter().map(ToString::to_string));
        // A copy that is under way has its file there.
        let temporary = known.entry(TEMPORARY_FOLDER.to_owned()).or_default();
        temporary.extend(loaded.segments.unfinished().iter().map(ToString::to_string));
        let names = loaded.segments.finished().iter().map(|span| span.id().to_string());
        finished.entry(folder).or_default().extend(names);
    }
    known.entry(TEMPORARY_FOLDER.to_owned()).or_default();
    let mut scrubbing = Scrubbing { store: &store, args: &args, now_ms: io.wall_ms(), findings: Findings::default() };
    for (folder, segments) in &finished {
        let there: BTreeSet<&str> = files.get(folder).into_iter().flatten().map(|entry| entry.name.as_str()).collect();
        for name in segments.iter().filter(|name| !there.contains(name.as_str())) {
            let path = format!("{folder}/{name}");
            // It may have been copied since the folder was listed.
            match store.len_bytes(&path).await {
                Err(error) if error.is_not_found() => {
                    scrubbing.findings.missing += 1;
                    output::print_lines([format!("{path}: missing").as_str()]);
                }
                answered => drop(answered?),
            }
        }
    }
    for (folder, entries) in &files {
        match known.get(folder) {
            Some(known) => {
                let orphans = entries.iter().filter(|entry| !entry.is_dir && !known.contains(&entry.name));
                scrubbing.orphans(folder, orphans, args.delete_orphans).await?;
            }
            None if args.which.topic.is_none() => scrubbing.unknown_folder(folder, entries).await?,
            // With one topic asked for, the others are nobody's business.
            None => {}
        }
    }
    let Findings { orphans, orphan_bytes, missing, deleted } = scrubbing.findings;
    output::print_lines([format!(
        "{orphans} files that nobody knows ({orphan_bytes} bytes), {deleted} of them deleted; {missing} missing"
    )
    .as_str()]);
    match orphans - deleted + missing {
        0 => Ok(()),
        count => Err(TierCommandError::Problems { count }),
    }
}

impl Scrubbing<'_> {
    async fn orphans(
        &mut self,
        folder: &str,
        orphans: impl Iterator<Item = &StoreEntry>,
        may_delete: bool,
    ) -> Result<(), TierCommandError> {
        for entry in orphans {
            let path = format!("{folder}/{}", entry.name);
            let age_ms = match self.store.modified_ms(&path).await {
                Ok(modified_ms) => self.now_ms.saturating_sub(modified_ms),
                // Gone meanwhile.
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            let is_old = age_ms >= i64::from(self.args.older_than).saturating_mul(MS_AN_HOUR);
            if folder == TEMPORARY_FOLDER && entry.name.starts_with(MANIFEST) && !is_old {
                // One that a server is writing.
                continue;
            }
            self.findings.orphans += 1;
            self.findings.orphan_bytes += entry.len_bytes;
            let age_hours = age_ms / MS_AN_HOUR;
            let what = match (may_delete, is_old) {
                (true, true) => {
                    self.findings.deleted += u64::from(self.store.remove(&path, false).await?);
                    "deleted"
                }
                (true, false) => "kept: too young (--older-than)",
                (false, _) => "nobody knows it",
            };
            let line = format!("{path}: {} bytes, {age_hours} hours old: {what}", entry.len_bytes);
            output::print_lines([line.as_str()]);
        }
        Ok(())
    }

    /// A partition that the data directories do not have: a deleted topic's, or one of a server whose directories were not
    /// all named, or that was restored in part. Not deleted but on request.
    async fn unknown_folder(&mut self, folder: &str, entries: &[StoreEntry]) -> Result<(), TierCommandError> {
        if !self.args.unknown_partitions {
            let bytes: u64 = entries.iter().map(|entry| entry.len_bytes).sum();
            self.findings.orphans += entries.len() as u64;
            self.findings.orphan_bytes += bytes;
            let line = format!(
                "{folder}: {} files, {bytes} bytes: no data directory has this partition (--unknown-partitions deletes it too)",
                entries.len()
            );
            output::print_lines([line.as_str()]);
            return Ok(());
        }
        let deleted_before = self.findings.deleted;
        self.orphans(folder, entries.iter().filter(|entry| !entry.is_dir), self.args.delete_orphans).await?;
        if self.findings.deleted - deleted_before == entries.len() as u64 && self.args.delete_orphans {
            self.store.remove(folder, true).await?;
        }
        Ok(())
    }
}

async fn list(store: &Store, folder: &str) -> Result<Vec<StoreEntry>, StoreError> {
    match store.list(folder).await {
        Err(error) if error.is_not_found() && !folder.is_empty() => Ok(Vec::new()),
        listed => listed,
    }
}

const MANIFEST: &str = "manifest-";
const MS_AN_HOUR: i64 = 3_600_000;
