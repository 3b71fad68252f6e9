//! Where manifests lie in a store: a row of numbered files for each broker; written, found, read, thinned out.
//!
//! A row is a full manifest and the deltas behind it. A new full one is durable under its name before those before it go,
//! so a crash at any step leaves a row that can be read.

use std::fmt;

use crate::ring::buffer::Buffer;
use crate::ring::io::Io;
use crate::tier::error::{ManifestError, StoreError};
use crate::tier::manifest::{self, Manifest};
use crate::tier::manifest_view::ManifestView;
use crate::tier::store::{Store, StoredFile, TEMPORARY_FOLDER, Upload};

/// The name of a manifest in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestName {
    /// Its place.
    pub number: u64,
    /// It says all.
    pub is_full: bool,
}

impl ManifestName {
    /// Reads a name; `None` for anything else.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (digits, kind) = name.split_once('.')?;
        let is_full = match kind {
            FULL => true,
            DELTA => false,
            _ => return None,
        };
        let is_number = digits.len() == NUMBER_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self { number: digits.parse().ok().filter(|_| is_number)?, is_full })
    }
}

impl fmt::Display for ManifestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$}.{}", self.number, if self.is_full { FULL } else { DELTA }, width = NUMBER_DIGITS)
    }
}

/// The row of one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestRow {
    /// The broker.
    pub broker_id: i32,
}

/// A manifest on its way: nobody sees it before it is finished.
pub struct ManifestUpload {
    upload: Upload,
    temporary: String,
    path: String,
    written_bytes: u64,
}

impl ManifestRow {
    fn folder(self) -> String {
        format!("{MANIFESTS}/{}", self.broker_id)
    }

    /// Where a manifest lies in the store.
    #[must_use]
    pub fn path(self, name: ManifestName) -> String {
        format!("{}/{name}", self.folder())
    }

    /// What the row has, by number.
    ///
    /// # Errors
    /// The store does not answer. A row that is not there yet has nothing.
    pub async fn list(self, store: &Store) -> Result<Vec<ManifestName>, StoreError> {
        let entries = match store.list(&self.folder()).await {
            Ok(entries) => entries,
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names: Vec<ManifestName> =
            entries.iter().filter_map(|entry| ManifestName::parse(&entry.name)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The number of the next manifest. Makes the row where there is none, and sees that this server may write there.
    ///
    /// # Errors
    /// The store does not answer, or a newer server wrote the row.
    pub async fn take_up(self, io: &Io, store: &Store) -> Result<u64, ManifestError> {
        store.make_folder(&self.folder()).await?;
        let names = self.list(store).await?;
        let Some(last) = names.last() else { return Ok(0) };
        let path = self.path(*last);
        let file = store.open(&path).await?;
        let head = file.read(io.buffer(HEADER_BYTES_MAX), 0).await?;
        // What is damaged is replaced by a full one, and only then removed.
        if let Err(error @ ManifestError::Newer { .. }) = manifest::decode_header(&path, &mut &head[..]) {
            return Err(error);
        }
        Ok(last.number + 1)
    }

    /// Begins a manifest of about `len_bytes`.
    ///
    /// # Errors
    /// The store does not do it now.
    pub async fn begin(self, store: &Store, name: ManifestName, len_bytes: u64) -> Result<ManifestUpload, StoreError> {
        let temporary = format!("{TEMPORARY_FOLDER}/manifest-{}-{name}", self.broker_id);
        let upload = store.create(&temporary, len_bytes).await?;
        Ok(ManifestUpload { upload, temporary, path: self.path(name), written_bytes: 0 })
    }

    /// Removes what a full manifest has replaced.
    ///
    /// # Errors
    /// The store does not do it now: what stays is read over, and removed the next time.
    pub async fn remove_before(self, store: &Store, full: ManifestName) -> Result<(), StoreError> {
        for name in self.list(store).await? {
            if name.number < full.number {
                store.remove(&self.path(name), false).await?;
            }
        }
        Ok(())
    }

    /// Replays the row. Says also what is missing or not readable in it, in words.
    async fn load(self, io: &Io, store: &Store, notes: &mut Vec<String>) -> Result<ManifestView, ManifestError> {
        let names = self.list(store).await?;
        let mut view = ManifestView::default();
        let full = names.iter().rposition(|name| name.is_full);
        if full.is_none() && !names.is_empty() {
            notes.push(format!("{}: no full manifest is there; what those that are say is taken", self.folder()));
        }
        let full = full.unwrap_or(0);
        let mut expected = None;
        for name in names.get(full..).unwrap_or_default() {
            let path = self.path(*name);
            if expected.is_some_and(|expected| expected != name.number) {
                notes.push(format!("{path}: the manifest before it is missing"));
            }
            expected = Some(name.number + 1);
            let bytes = read_whole(io, &path, &store.open(&path).await?).await?;
            view.replay(&path, Manifest::decode(&path, &bytes)?)?;
            io.yield_now().await;
        }
        Ok(view)
    }
}

impl ManifestUpload {
    /// Adds bytes.
    ///
    /// # Errors
    /// It is to be given up.
    pub async fn append(&mut self, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.written_bytes += bytes.len() as u64;
        if !bytes.is_empty() {
            self.upload.append(Buffer::from_vec(bytes)).await?;
        }
        Ok(())
    }

    /// All was added: on return the manifest has its name, to stay. Says its length.
    ///
    /// # Errors
    /// It may have its name or not; if it has, it is whole. What it was to replace has to stay.
    pub async fn finish(self, store: &Store) -> Result<u64, StoreError> {
        self.upload.close(self.written_bytes).await?;
        store.check_len_bytes(&self.temporary, self.written_bytes).await?;
        store.rename(&self.temporary, &self.path).await?;
        store.check_len_bytes(&self.path, self.written_bytes).await?;
        Ok(self.written_bytes)
    }
}

/// Reads the manifests of all brokers; `None` where there are none. Notes say what is missing, in words.
///
/// # Errors
/// The store does not answer, or a manifest cannot be read. Nothing was changed.
pub async fn load_all(io: &Io, store: &Store, notes: &mut Vec<String>) -> Result<Option<ManifestView>, ManifestError> {
    let entries = match store.list(MANIFESTS).await {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut all: Option<ManifestView> = None;
    for broker_id in entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| entry.name.parse().ok()) {
        let view = ManifestRow { broker_id }.load(io, store, notes).await?;
        all.get_or_insert_default().join(view);
    }
    Ok(all.filter(|view| view.catalog.is_some() || !view.partitions.is_empty()))
}

async fn read_whole(io: &Io, path: &str, file: &StoredFile) -> Result<Vec<u8>, ManifestError> {
    let len_bytes = usize::try_from(file.len_bytes()).ok().filter(|len_bytes| *len_bytes <= MANIFEST_BYTES_MAX);
    let Some(len_bytes) = len_bytes else {
        return Err(ManifestError::Damaged { path: path.to_owned(), what: "it is longer than any manifest" });
    };
    let mut bytes = Vec::with_capacity(len_bytes);
    while bytes.len() < len_bytes {
        let piece = file.read(io.buffer(PIECE_BYTES.min(len_bytes - bytes.len())), bytes.len() as u64).await?;
        if piece.is_empty() {
            break;
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The folder of all manifests, below the base.
pub const MANIFESTS: &str = ".manifests";
const FULL: &str = "full";
const DELTA: &str = "delta";
const NUMBER_DIGITS: usize = 20;
const HEADER_BYTES_MAX: usize = 512;
const PIECE_BYTES: usize = 1 << 20;
/// A million segments are about 110 MB.
const MANIFEST_BYTES_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use crate::tier::manifest::tests::{header, partition};
    use crate::tier::manifest::{ManifestEncoder, ManifestEntry};
    use crate::tier::sim_store::{SimStore, StoreFaults};

    #[test]
    fn names_sort_by_their_numbers() {
        let name = ManifestName { number: 12, is_full: false };
        assert_eq!(name.to_string(), "00000000000000000012.delta");
        assert_eq!(ManifestName::parse(&name.to_string()), Some(name));
        for other in ["12.delta", "00000000000000000012", "00000000000000000012.tmp", "x0000000000000000012.full", ""] {
            assert_eq!(ManifestName::parse(other), None, "{other}");
        }
    }

    async fn write(io: &Io, store: &Store, row: ManifestRow, name: ManifestName, log_end: i64) {
        let mut encoder = ManifestEncoder::new(&header(name.number, name.is_full));
        encoder.add(&ManifestEntry::Partition(partition(1, log_end)));
        encoder.end();
        let mut upload = row.begin(store, name, 100).await.expect("space");
        upload.append(encoder.take()).await.expect("space");
        upload.finish(store).await.expect("space");
        io.yield_now().await;
    }

    #[test]
    fn a_row_is_read_whatever_step_of_its_compaction_a_crash_came_at() {
        let sim = Sim::new(SimOptions::default());
        let io = sim.machine().core(0);
        let run = io.clone();
        sim.run(&io, 1 << 40, async move {
            let store = Store::directory(&run, Path::new("/tier"));
            let row = ManifestRow { broker_id: 1001 };
            store.make_folder(TEMPORARY_FOLDER).await.expect("space");
            assert!(load_all(&run, &store, &mut Vec::new()).await.expect("an answer").is_none());
            assert_eq!(row.take_up(&run, &store).await.expect("an answer"), 0);
            let full = |number| ManifestName { number, is_full: true };
            write(&run, &store, row, full(0), 10).await;
            write(&run, &store, row, ManifestName { number: 1, is_full: false }, 20).await;
            let end = async || {
                let mut notes = Vec::new();
                let view = load_all(&run, &store, &mut notes).await.expect("an answer").expect("manifests");
                (view.partitions.values().next().expect("one").said.log_end.0, notes.len())
            };
            assert_eq!(end().await, (20, 0));
            // Not renamed yet.
            let mut upload = row.begin(&store, full(2), 100).await.expect("space");
            upload.append(vec![1, 2, 3]).await.expect("space");
            drop(upload);
            assert_eq!(end().await, (20, 0));
            // Renamed; nothing removed yet.
            write(&run, &store, row, full(2), 30).await;
            assert_eq!(end().await, (30, 0));
            // Some removed.
            store.remove(&row.path(full(0)), false).await.expect("an answer");
            assert_eq!(end().await, (30, 0));
            row.remove_before(&store, full(2)).await.expect("an answer");
            assert_eq!(row.list(&store).await.expect("an answer"), [full(2)]);
            assert_eq!(end().await, (30, 0));
            assert_eq!(row.take_up(&run, &store).await.expect("an answer"), 3);
            // One that is missing is told.
            write(&run, &store, row, ManifestName { number: 4, is_full: false }, 40).await;
            assert_eq!(end().await, (40, 1));
            // Another one's row stays as it is.
            let path = row.path(ManifestName { number: 5, is_full: true });
            store.put(&path, ".tmp/x", b"alv-mani\x00\x02".to_vec()).await.expect("space");
            assert!(matches!(row.take_up(&run, &store).await, Err(ManifestError::Newer { .. })));
            assert!(matches!(load_all(&run, &store, &mut Vec::new()).await, Err(ManifestError::Newer { .. })));
        })
        .expect("ends");
    }

    #[test]
    fn a_manifest_counts_when_it_is_there_whatever_the_store_says() {
        let lying = [
            StoreFaults { lost_rename_per_million: 1_000_000, ..StoreFaults::default() },
            StoreFaults { short_close_per_million: 1_000_000, ..StoreFaults::default() },
        ];
        let sim = Sim::new(SimOptions::default());
        let io = sim.machine().core(0);
        let run = io.clone();
        sim.run(&io, 1 << 40, async move {
            let base = Path::new("/tier");
            let right = Store::directory(&run, base);
            let row = ManifestRow { broker_id: 1001 };
            right.make_folder(TEMPORARY_FOLDER).await.expect("space");
            assert_eq!(row.take_up(&run, &right).await.expect("an answer"), 0);
            write(&run, &right, row, ManifestName { number: 0, is_full: true }, 10).await;
            for faults in lying {
                let store = Store::Sim(SimStore::new(&run, base, faults));
                let name = ManifestName { number: 1, is_full: true };
                let mut upload = row.begin(&store, name, 100).await.expect("space");
                upload.append(vec![1; 100]).await.expect("space");
                assert!(upload.finish(&store).await.is_err(), "{faults:?}");
                assert!(store.put("alluvium-owner", ".tmp/x", vec![1; 100]).await.is_err(), "{faults:?}");
                assert!(right.len_bytes("alluvium-owner").await.is_err_and(|error| error.is_not_found()), "{faults:?}");
                let view = load_all(&run, &right, &mut Vec::new()).await.expect("an answer").expect("manifests");
                assert_eq!(view.partitions.values().next().expect("one").said.log_end.0, 10, "{faults:?}");
            }
        })
        .expect("ends");
    }
}
