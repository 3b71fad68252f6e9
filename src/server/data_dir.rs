//! What stands in a data directory beside the partitions: whose it is, and how it was left.
//!
//! `meta.properties` is Kafka's file with Kafka's keys (`version`, `cluster.id`, `node.id`, `directory.id`); one line of ours,
//! `alluvium.format`, says what a server must know to use the directory. A marker, `.kafka_cleanshutdown`, says that the
//! server was stopped cleanly; it is taken away at start, before anything is written.

use std::io;
use std::path::{Path, PathBuf};

use tracing::error;

use crate::ring::io::{Io, OpenHow, read_file, replace_file};
use crate::shard::catalog_host::CATALOG_FILE;
use crate::shard::options::DataDir;
use crate::wire::uuid::Uuid;

/// The data directories of a server, ready to be used.
#[derive(Clone, Debug)]
pub struct DataDirs {
    /// The cluster's id, in Kafka's base64.
    pub cluster_id: String,
    /// The same as 16 bytes; an id that is no uuid (none of Kafka's is) stands as zeros.
    pub cluster_id_bytes: [u8; 16],
    /// Those that can be used, in the order of the command line.
    pub dirs: Vec<DataDir>,
    /// The one of these with the catalog.
    pub catalog_dir: PathBuf,
    /// Those that the disk refused: their partitions stay offline.
    pub unusable: Vec<PathBuf>,
}

/// Why the data directories cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// The disk refused.
    #[error("{}: {source}; check that it exists, is a directory, and that this user may write there", path.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// What was touched.
        path: PathBuf,
        /// The disk's answer.
        source: io::Error,
    },
    /// It has files, and none says that it is a data directory.
    #[error("{} is not empty and has no meta.properties: it is not a data directory; name an empty one with --data-dir", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
    },
    /// `meta.properties` makes no sense.
    #[error("{}: {reason}; restore it from a backup, or name another --data-dir", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// A later version of the server wrote it.
    #[error("{} has format {found}, this server knows up to {known}: it was used by a newer alluvium; start that one", path.display())]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The latest known here.
        known: u32,
    },
    /// Two directories with a catalog each.
    #[error("{} and {} each have a catalog of topics: they were two servers' directories; name one of them with --data-dir", first.display(), second.display())]
    TwoCatalogs {
        /// One.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Directories of different clusters or nodes.
    #[error("{} belongs to {key} {found}, not {expected}: it is another server's directory; check --data-dir and --node-id", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// `cluster.id` or `node.id`.
        key: &'static str,
        /// What it has.
        found: String,
        /// What was expected.
        expected: String,
    },
}

impl DataDirError {
    /// True where the disk is to blame, not what stands in the directory.
    fn is_of_a_disk(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// Reads what the directories say, and makes new ones ours. On return `meta.properties` of each is durable, and the
/// markers of a clean stop are taken away: from here on only another clean stop makes the next start quick.
///
/// A directory whose disk refuses (`refused` did so already) is left out, and the others are used, as in Kafka: but for the
/// one with the catalog, and at the first start of all, where a name is more likely wrong than a disk broken. The catalog
/// stays where it is, whatever the order of the directories; at the first start it is made in the first.
///
/// # Errors
/// No directory may be left out, or one is not this server's.
pub async fn prepare(
    io: &Io,
    paths: &[PathBuf],
    mut refused: Vec<DataDirError>,
    node_id: i32,
) -> Result<DataDirs, DataDirError> {
    assert!(!paths.is_empty() || !refused.is_empty(), "a server has a data directory");
    let mut known: Vec<(&PathBuf, Option<Meta>)> = Vec::with_capacity(paths.len());
    for path in paths {
        match read_meta(io, path).await {
            Ok(meta) => known.push((path, meta)),
            Err(error) if error.is_of_a_disk() => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    let is_first_start = known.iter().all(|(_, meta)| meta.is_none());
    if is_first_start && !refused.is_empty() {
        return Err(refused.swap_remove(0));
    }
    let cluster_id = known.iter().find_map(|(_, meta)| meta.as_ref().map(|meta| meta.cluster_id.clone()));
    let cluster_id = cluster_id.unwrap_or_else(|| random_uuid(io).to_string());
    let Some(catalog_dir) = catalog_dir(io, &known, !refused.is_empty()).await? else {
        return Err(refused.swap_remove(0));
    };
    let mut dirs: Vec<DataDir> = Vec::with_capacity(paths.len());
    for (path, meta) in known {
        match take(io, path, meta, &cluster_id, node_id).await {
            Ok(dir) => dirs.push(dir),
            Err(error) if error.is_of_a_disk() && !is_first_start && *path != catalog_dir => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    let mut unusable = Vec::new();
    for error in &refused {
        error!(%error, "a data directory cannot be used: its partitions stay offline, the others are served; mend it and restart the server");
        if let DataDirError::Io { dir, .. } = error {
            unusable.push(dir.clone());
        }
    }
    let cluster_id_bytes = Uuid::from_base64(&cluster_id).map_or([0; 16], |id| id.0);
    Ok(DataDirs { cluster_id, cluster_id_bytes, dirs, catalog_dir, unusable })
}

/// The directory that has the catalog, or is to have it. `None` where that may be one that is left out.
async fn catalog_dir(
    io: &Io,
    known: &[(&PathBuf, Option<Meta>)],
    some_left_out: bool,
) -> Result<Option<PathBuf>, DataDirError> {
    let mut found: Option<&PathBuf> = None;
    for (path, _) in known {
        let file = path.join(CATALOG_FILE);
        match (io.open(&file, OpenHow::Read).await, found) {
            (Ok(_), None) => found = Some(path),
            (Ok(_), Some(first)) => {
                return Err(DataDirError::TwoCatalogs { first: first.clone(), second: (*path).clone() });
            }
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {}
            (Err(error), _) => return Err(at(path, &file)(error)),
        }
    }
    let first = known.first().map(|(path, _)| *path).filter(|_| !some_left_out);
    Ok(found.or(first).cloned())
}

/// Makes one directory ours, whatever `meta` says it was.
async fn take(
    io: &Io,
    path: &Path,
    meta: Option<Meta>,
    cluster_id: &str,
    node_id: i32,
) -> Result<DataDir, DataDirError> {
    let Some(meta) = meta else {
        let meta = Meta { cluster_id: cluster_id.to_owned(), node_id, directory_id: random_uuid(io) };
        let file = path.join(META_FILE);
        replace_file(io, &file, meta.text().into_bytes()).await.map_err(at(path, &file))?;
        return Ok(DataDir { id: meta.directory_id.0, path: path.to_path_buf(), clean: true });
    };
    meta.check_owner(path, cluster_id, node_id)?;
    let clean = take_clean_marker(io, path).await?;
    Ok(DataDir { id: meta.directory_id.0, path: path.to_path_buf(), clean })
}

/// Takes the marker of a clean stop away, durably; says whether there was one.
async fn take_clean_marker(io: &Io, path: &Path) -> Result<bool, DataDirError> {
    let marker = path.join(CLEAN_FILE);
    match io.remove_file(&marker).await {
        Ok(()) => {
            io.sync_dir(path).await.map_err(at(path, path))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(at(path, &marker)(error)),
    }
}

/// True where nothing stands in a directory that a server would take for data.
///
/// # Errors
/// It cannot be read, or has files of somebody else.
pub async fn is_free(io: &Io, path: &Path) -> Result<bool, DataDirError> {
    Ok(read_meta(io, path).await?.is_none())
}

/// The cluster that a directory belongs to; `None` where it is nobody's.
///
/// # Errors
/// It cannot be read, or has files of somebody else.
pub async fn cluster_of(io: &Io, path: &Path) -> Result<Option<String>, DataDirError> {
    Ok(read_meta(io, path).await?.map(|meta| meta.cluster_id))
}

/// Makes a directory that was filled by hand one of this cluster and node; until then no server takes it.
///
/// # Errors
/// The disk refuses.
pub async fn make_ours(
    io: &Io,
    path: &Path,
    cluster_id: &str,
    node_id: i32,
    directory_id: [u8; 16],
) -> Result<(), DataDirError> {
    let meta = Meta { cluster_id: cluster_id.to_owned(), node_id, directory_id: Uuid(directory_id) };
    let file = path.join(META_FILE);
    replace_file(io, &file, meta.text().into_bytes()).await.map_err(at(path, &file))
}

/// Notes a clean stop in a directory, as Kafka does.
///
/// # Errors
/// Where the disk refuses; the next start then scans what lies past the recovery points.
pub async fn write_clean_marker(io: &Io, dir: &DataDir) -> Result<(), DataDirError> {
    let marker = dir.path.join(CLEAN_FILE);
    let text = r#"{"version":0,"brokerEpoch":-1}"#;
    replace_file(io, &marker, text.as_bytes().to_vec()).await.map_err(at(&dir.path, &marker))
}

/// What `meta.properties` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Meta {
    cluster_id: String,
    node_id: i32,
    directory_id: Uuid,
}

impl Meta {
    fn text(&self) -> String {
        let Self { cluster_id, node_id, directory_id } = self;
        format!(
            "version=1\nalluvium.format={FORMAT}\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
        )
    }

    fn parse(path: &Path, text: &str) -> Result<Self, DataDirError> {
        let value = |key: &str| {
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
            lines
                .filter_map(|line| line.split_once('='))
                .find(|(name, _)| name.trim() == key)
                .map(|(_, value)| value.trim())
        };
        let malformed = |reason| DataDirError::Malformed { path: path.to_path_buf(), reason };
        if value("version") != Some("1") {
            return Err(malformed("version is not 1"));
        }
        // A directory of Kafka's own has no such line: its format is the first.
        let format: u32 =
            value("alluvium.format").unwrap_or("1").parse().map_err(|_| malformed("alluvium.format is no number"))?;
        if format > FORMAT {
            let path = path.parent().unwrap_or(path).to_path_buf();
            return Err(DataDirError::Newer { path, found: format, known: FORMAT });
        }
        let cluster_id = value("cluster.id").ok_or_else(|| malformed("cluster.id is missing"))?.to_string();
        let node_id =
            value("node.id").and_then(|text| text.parse().ok()).ok_or_else(|| malformed("node.id is missing"))?;
        let directory_id = value("directory.id").and_then(Uuid::from_base64);
        let directory_id = directory_id.ok_or_else(|| malformed("directory.id is missing"))?;
        Ok(Self { cluster_id, node_id, directory_id })
    }

    fn check_owner(&self, path: &Path, cluster_id: &str, node_id: i32) -> Result<(), DataDirError> {
        let foreign = |key, found: &str, expected: &str| DataDirError::Foreign {
            path: path.to_path_buf(),
            key,
            found: found.to_string(),
            expected: expected.to_string(),
        };
        if self.cluster_id != cluster_id {
            return Err(foreign("cluster.id", &self.cluster_id, cluster_id));
        }
        if self.node_id != node_id {
            return Err(foreign("node.id", &self.node_id.to_string(), &node_id.to_string()));
        }
        Ok(())
    }
}

/// `None`: the directory is empty, and may become ours.
async fn read_meta(io: &Io, path: &Path) -> Result<Option<Meta>, DataDirError> {
    let file = path.join(META_FILE);
    match read_file(io, &file, META_BYTES_MAX).await {
        Ok(bytes) => Meta::parse(&file, &String::from_utf8_lossy(&bytes)).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let entries = io.read_dir(path).await.map_err(at(path, path))?;
            let is_expected = |name: &str| [LOCK_FILE, "lost+found"].contains(&name) || name.ends_with(".tmp");
            match entries.iter().all(|entry| is_expected(&entry.name)) {
                true => Ok(None),
                false => Err(DataDirError::NotOurs { path: path.to_path_buf() }),
            }
        }
        Err(error) => Err(at(path, &file)(error)),
    }
}

fn random_uuid(io: &Io) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&io.random_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&io.random_u64().to_be_bytes());
    Uuid::from_random_bytes(bytes)
}

fn at(dir: &Path, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let (dir, path) = (dir.to_path_buf(), path.to_path_buf());
    move |source| DataDirError::Io { dir, path, source }
}

/// Kafka's name for the lock of a data directory.
pub const LOCK_FILE: &str = ".lock";
const META_FILE: &str = "meta.properties";
const CLEAN_FILE: &str = ".kafka_cleanshutdown";
/// What a server must know to use the directory; raised when that changes.
const FORMAT: u32 = 1;
const META_BYTES_MAX: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_properties_there_and_back() {
        let meta = Meta { cluster_id: "abc".into(), node_id: 7, directory_id: Uuid([9; 16]) };
        assert_eq!(Meta::parse(Path::new("m"), &meta.text()).expect("our own"), meta);
        let kafka = "#\n#Sun Nov 29\ncluster.id=5L6g3nShT-eMCtK--X86sw\ndirectory.id=CQkJCQkJCQkJCQkJCQkJCQ\nnode.id=1\nversion=1\n";
        assert_eq!(Meta::parse(Path::new("m"), kafka).expect("Kafka's").directory_id, Uuid([9; 16]));
    }

    #[test]
    fn what_is_not_understood_is_refused_in_words() {
        let text = Meta { cluster_id: "abc".into(), node_id: 7, directory_id: Uuid([9; 16]) }.text();
        let cases = [
            (text.replace("alluvium.format=1", "alluvium.format=9"), "has format 9, this server knows up to 1"),
            (text.replace("version=1", "version=0"), "version is not 1"),
            (text.replace("node.id=7", "node.id=x"), "node.id is missing"),
            (text.replace("cluster.id=abc\n", ""), "cluster.id is missing"),
            (text.replace("directory.id=", "directory.id=?"), "directory.id is missing"),
        ];
        for (text, expected) in cases {
            let error = Meta::parse(Path::new("dir/meta.properties"), &text).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
