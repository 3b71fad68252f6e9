//! HDFS as a store, through the core's companion thread.
//!
//! What its client lacks is worked around here (versions 0.14): no call has a time limit of its own, so each gets one, and
//! those that move bytes a watchdog; after a call that took too long the client is made anew, so that nothing waits on its
//! connection any more and another NameNode is found where one hangs; a writer does not go on after a lost DataNode, so a
//! copy begins anew; places of blocks are asked for once, at the opening, so a read that fails opens the file again; reads
//! past the end panic, so they are cut before.
//!
//! The client keeps connections to DataNodes on which a range was read to its end, for 3 s and for all threads of the
//! process; but only the thread that made one is told when something comes on it. So that no core waits for another's
//! companion, reads ask for a byte of the packet behind the last that they want, and leave it: such a connection is closed.
//! At the end of a block there is no such byte; where the connection of such a read is handed to another core, and its
//! companion stands still just then, the read is ended by the watchdog and made again.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use hdfs_native::client::FileStatus;
use hdfs_native::file::{FileReader, FileWriter};
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use crate::ring::buffer::Buffer;
use crate::ring::io::Io;
use crate::ring::lent_bytes::{Lender, LentBytes};
use crate::tier::companion::{Companion, Watchdog};
use crate::tier::error::StoreError;
use crate::tier::hdfs_error::into_io;
use crate::tier::hdfs_options::HdfsOptions;
use crate::tier::store::StoreEntry;

/// A folder of HDFS.
#[derive(Clone)]
pub struct HdfsStore {
    inner: Rc<Inner>,
}

struct Inner {
    io: Io,
    companion: Companion,
    /// As the operator wrote it.
    url: String,
    /// Scheme and authority.
    cluster: String,
    base: String,
    options: HdfsOptions,
    client: RefCell<Option<Client>>,
    /// A call took too long: a client that is made from now on asks the NameNodes of a nameservice in any order.
    any_order: Cell<bool>,
    /// What the client is to write or to fill, or has of a call that nobody waits for any more.
    lender: Lender,
    /// Files that were given up: they may be there, or come into being yet.
    doubtful: RefCell<Vec<String>>,
    is_sweeping: Cell<bool>,
    is_collecting: Cell<bool>,
}

/// A file that is being written.
pub struct HdfsUpload {
    store: HdfsStore,
    path: String,
    writer: Option<Box<FileWriter>>,
    /// Places for pieces that no DataNode has yet.
    places: Arc<Semaphore>,
}

/// A piece on its way, and its place.
struct PieceOnItsWay {
    bytes: LentBytes,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for PieceOnItsWay {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An open file.
#[derive(Clone)]
pub struct HdfsFile {
    store: HdfsStore,
    path: String,
    reader: Rc<RefCell<Arc<FileReader>>>,
    len_bytes: u64,
}

impl HdfsStore {
    /// The folder `base` of the cluster `cluster` (`hdfs://namenode:8020`).
    pub fn new(io: &Io, companion: Companion, cluster: &str, base: &str, options: HdfsOptions) -> Self {
        let inner = Inner {
            io: io.clone(),
            companion,
            url: format!("{cluster}{base}"),
            cluster: cluster.to_owned(),
            base: base.trim_end_matches('/').to_owned(),
            options,
            client: RefCell::new(None),
            any_order: Cell::new(false),
            lender: Lender::default(),
            doubtful: RefCell::new(Vec::new()),
            is_sweeping: Cell::new(false),
            is_collecting: Cell::new(false),
        };
        Self { inner: Rc::new(inner) }
    }

    pub(in crate::tier) fn url(&self) -> String {
        self.inner.url.clone()
    }

    pub(in crate::tier) fn note_backlog(&self, waiting_bytes: u64) {
        self.inner.companion.note_backlog(waiting_bytes);
    }

    fn full(&self, path: &str) -> String {
        if path.is_empty() { self.inner.base.clone() } else { format!("{}/{path}", self.inner.base) }
    }

    /// The client, made at the first call: on the companion, since it reads files and resolves names.
    async fn client(&self) -> io::Result<Client> {
        if let Some(client) = self.inner.client.borrow().clone() {
            return Ok(client);
        }
        let (cluster, options) = (self.inner.cluster.clone(), self.inner.options.clone());
        let any_order = self.inner.any_order.get();
        let built = self.call(async move { build(&cluster, &options, any_order) }).await?;
        Ok(self.inner.client.borrow_mut().insert(built).clone())
    }

    /// Has the companion carry out a call. After one that took too long, the next client is a new one.
    async fn call<T: Send + 'static>(
        &self,
        job: impl Future<Output = hdfs_native::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        self.call_watched(async move { Ok(job.await) }).await
    }

    /// The same of a job that has steps, which the watchdog may end.
    async fn call_watched<T: Send + 'static>(
        &self,
        job: impl Future<Output = io::Result<hdfs_native::Result<T>>> + Send + 'static,
    ) -> io::Result<T> {
        let called = self.inner.companion.call(&self.inner.io, job).await.and_then(|ended| ended);
        if called.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            self.inner.any_order.set(true);
            self.inner.client.borrow_mut().take();
        }
        called.and_then(|answer| answer.map_err(|error| into_io(&self.inner.cluster, error)))
    }

    /// Asks the client for something.
    async fn ask<T, F>(
        &self,
        path: &str,
        job: impl FnOnce(Client, String) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = hdfs_native::Result<T>> + Send + 'static,
    {
        let client = self.client().await.map_err(|e| StoreError::of(path, e))?;
        let full = self.full(path);
        // The client's futures are of many kilobytes: each is made where it is carried out.
        self.call(async move { Box::pin(job(client, full)).await }).await.map_err(|e| StoreError::of(path, e))
    }

    pub(in crate::tier) async fn create(&self, path: &str, len_bytes: u64) -> Result<HdfsUpload, StoreError> {
        // One block: one pipeline is set up, and no DataNode reserves more than the file needs.
        let block_bytes = len_bytes.next_multiple_of(CHUNK_BYTES).max(BLOCK_BYTES_MIN);
        let mut how = WriteOptions::default().block_size(block_bytes).overwrite(true);
        if let Some(replication) = self.inner.options.replication {
            how = how.replication(replication);
        }
        let created = self.ask(path, |client, full| async move { client.create(&full, how).await }).await;
        let writer = created.inspect_err(|_| self.remove_later(path))?;
        // What was given up under this name is replaced: it is not to be deleted from under this one.
        self.inner.doubtful.borrow_mut().retain(|doubtful| doubtful != path);
        let places = Arc::new(Semaphore::new(PIECES_ON_THEIR_WAY_MAX));
        Ok(HdfsUpload { store: self.clone(), path: path.to_owned(), writer: Some(Box::new(writer)), places })
    }

    /// For a file that is given up. Whoever asked for it deletes it, or cannot now; and a NameNode that hung carries out what
    /// it was asked for in any order when it goes on: the file may come into being after its deletion.
    fn remove_later(&self, path: &str) {
        let mut doubtful = self.inner.doubtful.borrow_mut();
        if doubtful.len() < DOUBTFUL_MAX {
            doubtful.push(path.to_owned());
        }
        if !self.inner.is_sweeping.replace(true) {
            self.inner.io.spawn(sweep(self.clone()));
        }
    }

    /// Bytes of a call that has ended may be with the client yet, and with them what was reserved for them: somebody may wait
    /// for it who makes no call.
    fn collect_late(&self) {
        let lender = &self.inner.lender;
        lender.collect();
        if lender.count() > 0 && !self.inner.is_collecting.replace(true) {
            let store = self.clone();
            self.inner.io.spawn(async move {
                while store.inner.lender.count() > 0 {
                    store.inner.io.sleep_ms(COLLECT_MS).await;
                    store.inner.lender.collect();
                }
                store.inner.is_collecting.set(false);
            });
        }
    }

    pub(in crate::tier) async fn make_folder(&self, path: &str) -> Result<(), StoreError> {
        self.ask(path, |client, full| async move { client.mkdirs(&full, FOLDER_PERMISSION, true).await }).await
    }

    pub(in crate::tier) async fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let to_full = self.full(to);
        self.ask(from, |client, full| async move { client.rename(&full, &to_full, true).await }).await
    }

    pub(in crate::tier) async fn len_bytes(&self, path: &str) -> Result<u64, StoreError> {
        let status: FileStatus =
            self.ask(path, |client, full| async move { client.get_file_info(&full).await }).await?;
        Ok(status.length as u64)
    }

    pub(in crate::tier) async fn modified_ms(&self, path: &str) -> Result<i64, StoreError> {
        let status: FileStatus =
            self.ask(path, |client, full| async move { client.get_file_info(&full).await }).await?;
        Ok(i64::try_from(status.modification_time).unwrap_or(i64::MAX))
    }

    pub(in crate::tier) async fn open(&self, path: &str) -> Result<HdfsFile, StoreError> {
        let reader: FileReader = self.ask(path, |client, full| async move { client.read(&full).await }).await?;
        let len_bytes = reader.file_length() as u64;
        let reader = Rc::new(RefCell::new(Arc::new(reader)));
        Ok(HdfsFile { store: self.clone(), path: path.to_owned(), reader, len_bytes })
    }

    pub(in crate::tier) async fn remove(&self, path: &str) -> Result<bool, StoreError> {
        match self.ask(path, |client, full| async move { client.delete(&full, false).await }).await {
            Err(error) if error.is_not_found() => Ok(false),
            other => other,
        }
    }

    pub(in crate::tier) async fn list(&self, path: &str) -> Result<Vec<StoreEntry>, StoreError> {
        let listed = self.ask(path, |client, full| async move { client.list_status(&full, false).await }).await?;
        let entry = |status: FileStatus| StoreEntry {
            name: status.path.rsplit('/').next().unwrap_or_default().to_owned(),
            is_dir: status.isdir,
            len_bytes: status.length as u64,
        };
        let mut entries: Vec<StoreEntry> = listed.into_iter().map(entry).collect();
        entries.sort_by(|one, next| one.name.cmp(&next.name));
        Ok(entries)
    }
}

impl HdfsUpload {
    /// The bytes are the client's until a DataNode has them. It would take 200 packets: fewer pieces are on their way, so that
    /// the next one gets memory that is in the processor's cache yet.
    pub(in crate::tier) async fn append(&mut self, bytes: Buffer) -> Result<(), StoreError> {
        let bytes = self.store.inner.lender.lend(bytes);
        let places = self.places.clone();
        let watchdog = self.store.inner.companion.watchdog();
        self.with_writer(move |mut writer| async move {
            let place = watchdog.step(NOTHING_TAKEN, places.acquire_owned()).await?;
            let place = place.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            let mut lent = Bytes::from_owner(PieceOnItsWay { bytes, _place: place });
            while !lent.is_empty() {
                let step = lent.split_to(lent.len().min(STEP_BYTES));
                // Taken when those before have been acknowledged, but for what the client holds of them.
                if let Err(error) = watchdog.step(NOTHING_TAKEN, writer.write_bytes(step)).await? {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(writer))
        })
        .await
    }

    pub(in crate::tier) async fn close(mut self, len_bytes: u64) -> Result<(), StoreError> {
        // What it waits for is not to be seen: it has the deadline alone.
        self.with_writer(|mut writer| async move { Ok(writer.close().await.map(|()| writer)) }).await?;
        let found_bytes = self.store.len_bytes(&self.path).await?;
        if found_bytes != len_bytes {
            return Err(StoreError::Length { path: self.path.clone(), found_bytes, expected_bytes: len_bytes });
        }
        Ok(())
    }

    /// Lends the writer to the companion. After an error it is gone: the file is begun anew under another name.
    async fn with_writer<F>(
        &mut self,
        job: impl FnOnce(Box<FileWriter>) -> F + Send + 'static,
    ) -> Result<(), StoreError>
    where
        F: Future<Output = io::Result<hdfs_native::Result<Box<FileWriter>>>> + Send + 'static,
    {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let writer = self.writer.take().ok_or_else(|| StoreError::of(&self.path, gone()))?;
        let called = self.store.call_watched(async move { Box::pin(job(writer)).await }).await;
        let called = called.inspect_err(|_| self.store.remove_later(&self.path));
        self.writer = Some(called.map_err(|e| StoreError::of(&self.path, e))?);
        Ok(())
    }
}

impl Drop for HdfsUpload {
    fn drop(&mut self) {
        // What the client held of it comes back with its writer, or later.
        drop(self.writer.take());
        self.store.collect_late();
    }
}

impl HdfsFile {
    pub(in crate::tier) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(in crate::tier) async fn read(&self, mut buffer: Buffer, position_bytes: u64) -> Result<Buffer, StoreError> {
        let left_bytes = self.len_bytes.saturating_sub(position_bytes);
        buffer.truncate(usize::try_from(left_bytes).unwrap_or(usize::MAX).min(buffer.len()));
        if buffer.is_empty() {
            return Ok(buffer);
        }
        let (len, held) = (buffer.len(), buffer.held());
        let lender = &self.store.inner.lender;
        let lent = lender.lend(buffer);
        let loan = lent.loan();
        match self.read_once(lent, position_bytes).await {
            Ok(buffer) => Ok(buffer),
            // The companion hangs, and so would another read; and one more buffer is more than was reserved.
            Err(error) if lender.is_away(loan) => Err(error),
            Err(error) => {
                warn!(%error, position_bytes, "a read of HDFS failed; the file is opened anew and read once more");
                // Where its blocks are may have changed since it was opened.
                let again = self.store.open(&self.path).await?;
                if again.len_bytes != self.len_bytes {
                    let (found_bytes, expected_bytes) = (again.len_bytes, self.len_bytes);
                    return Err(StoreError::Length { path: self.path.clone(), found_bytes, expected_bytes });
                }
                let reader = again.reader.borrow().clone();
                *self.reader.borrow_mut() = reader;
                let buffer = held.into_iter().fold(self.store.inner.io.buffer(len), Buffer::holding);
                self.read_once(lender.lend(buffer), position_bytes).await
            }
        }
    }

    /// Fills what the companion has meanwhile.
    async fn read_once(&self, lent: LentBytes, position_bytes: u64) -> Result<Buffer, StoreError> {
        let reader = self.reader.borrow().clone();
        let position = usize::try_from(position_bytes).unwrap_or(usize::MAX);
        let watchdog = self.store.inner.companion.watchdog();
        let read =
            self.store.call_watched(async move { Box::pin(read_range(&reader, position, lent, watchdog)).await }).await;
        let (lent, free_bytes) = read.map_err(|e| {
            self.store.collect_late();
            StoreError::of(&self.path, e)
        })?;
        if free_bytes > 0 {
            return Err(StoreError::of(&self.path, io::Error::from(io::ErrorKind::UnexpectedEof)));
        }
        Ok(self.store.inner.lender.restore(lent))
    }
}

/// Fills `into`, or less where the file ends, and says what is left; never reads to the end of what it asks for, where it can.
/// Each packet is copied when it has come and let go of: it is in the processor's cache yet, and the next one gets its memory.
async fn read_range(
    reader: &FileReader,
    position: usize,
    mut into: LentBytes,
    watchdog: Watchdog,
) -> io::Result<hdfs_native::Result<(LentBytes, usize)>> {
    let left = reader.file_length().saturating_sub(position);
    let asked = ask_bytes(position, into.len()).min(left);
    let mut packets = pin!(reader.read_range_stream(position.min(reader.file_length()), asked));
    let mut free = &mut into[..];
    while !free.is_empty() {
        let next = poll_fn(|context| packets.as_mut().poll_next(context));
        match watchdog.step(NOTHING_CAME, next).await? {
            Some(Ok(packet)) => {
                let (now, later) = free.split_at_mut(packet.len().min(free.len()));
                now.copy_from_slice(&packet[..now.len()]);
                free = later;
            }
            Some(Err(error)) => return Ok(Err(error)),
            None => break,
        }
    }
    let free_bytes = free.len();
    Ok(Ok((into, free_bytes)))
}

/// What is asked for where `len` bytes are wanted: one byte more than ends a packet. Packets begin at whole chunks.
fn ask_bytes(position: usize, len: usize) -> usize {
    let into_chunk = position % CHUNK;
    (into_chunk + len).next_multiple_of(PACKET_BYTES) + 1 - into_chunk
}

/// Deletes what came into being late, until the NameNode has answered for a while.
async fn sweep(store: HdfsStore) {
    let mut answered = 0;
    loop {
        store.inner.io.sleep_ms(SWEEP_MS).await;
        let paths = store.inner.doubtful.borrow().clone();
        let mut is_answered = true;
        for path in &paths {
            // Not what was begun anew meanwhile.
            if store.inner.doubtful.borrow().contains(path) {
                is_answered = is_answered && store.remove(path).await.is_ok();
            }
        }
        let mut doubtful = store.inner.doubtful.borrow_mut();
        answered = if is_answered && doubtful.len() == paths.len() { answered + 1 } else { 0 };
        if answered >= SWEEPS {
            doubtful.clear();
            store.inner.is_sweeping.set(false);
            return;
        }
    }
}

#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // on the companion's thread, which may wait
fn build(cluster: &str, options: &HdfsOptions, any_order: bool) -> hdfs_native::Result<Client> {
    let mut settings: Vec<(String, String)> = vec![(REPLACE_POLICY.to_owned(), "NEVER".to_owned())];
    if any_order {
        let nameservice = cluster.rsplit('/').next().unwrap_or_default();
        settings.push((format!("{RANDOM_ORDER}.{nameservice}"), "true".to_owned()));
    }
    settings.extend(options.settings.iter().cloned());
    let mut builder = ClientBuilder::new().with_url(cluster).with_config(settings);
    if let Some(dir) = &options.config_dir {
        let is_there = |name: &str| std::path::Path::new(dir).join(name).is_file();
        if !is_there("core-site.xml") && !is_there("hdfs-site.xml") {
            let refused = format!("--hadoop-conf {dir} has neither core-site.xml nor hdfs-site.xml");
            return Err(HdfsError::InvalidArgument(refused));
        }
        builder = builder.with_config_dir(dir);
    }
    if let Some(user) = &options.user {
        builder = builder.with_user(user);
    }
    if let Some(principal) = &options.principal {
        builder = builder.with_kerberos_principal(principal);
    }
    if let Some(keytab) = &options.keytab {
        let unreadable = |error| HdfsError::InvalidArgument(format!("--hdfs-keytab {keytab}: {error}"));
        std::fs::File::open(keytab).map_err(unreadable)?;
        builder = builder.with_kerberos_keytab(keytab);
    }
    builder.build()
}

/// A block is of whole chunks of the checksum.
const CHUNK_BYTES: u64 = 512;
const CHUNK: usize = 512;
/// A DataNode sends 64 KiB in a packet, or `io.file.buffer.size` where that is more; 128 KiB are often set.
const PACKET_BYTES: usize = 128 * 1024;
/// HDFS's `dfs.namenode.fs-limits.min-block-size`.
const BLOCK_BYTES_MIN: u64 = 1024 * 1024;
/// As much as goes into one packet, about.
const STEP_BYTES: usize = 64 * 1024;
/// Of a copy: 4 MiB.
const PIECES_ON_THEIR_WAY_MAX: usize = 16;
const NOTHING_TAKEN: &str = "no bytes of a write were taken";
const NOTHING_CAME: &str = "no packet of a read came";
const DOUBTFUL_MAX: usize = 1000;
/// How often it is looked for what is late.
const COLLECT_MS: u64 = 250;
const SWEEP_MS: u64 = 2_000;
const SWEEPS: u32 = 15;
const FOLDER_PERMISSION: u32 = 0o755;
/// The client asks for a replacement whenever a DataNode is lost, and fails where there is none.
const REPLACE_POLICY: &str = "dfs.client.block.write.replace-datanode-on-failure.policy";
/// The order of the NameNodes of a nameservice is that of the file otherwise, and the first may be the one that hangs.
const RANDOM_ORDER: &str = "dfs.client.failover.random.order";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_never_comes_to_the_end_of_the_packet_that_it_wants() {
        for packet_bytes in [4096, 64 << 10, 128 << 10] {
            for position in [0, 1, 511, 512, 100_000, 4_000_256] {
                for len in [1, 25, 512, 65_536, 262_144, 1 << 20, (1 << 20) + 1] {
                    let from = position - position % CHUNK;
                    let wanted_ends = (position + len - from).next_multiple_of(packet_bytes);
                    let asked_ends = position + ask_bytes(position, len) - from;
                    assert!(asked_ends > wanted_ends, "{packet_bytes}: {len} at {position}");
                    assert!(asked_ends <= wanted_ends + PACKET_BYTES + 1, "{packet_bytes}: {len} at {position}");
                }
            }
        }
        // Whole pieces of records ask for no packet more but the one that is left.
        assert_eq!(ask_bytes(512 * 7, 1 << 20), (1 << 20) + 1);
    }
}
