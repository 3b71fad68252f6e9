//! The file system under a folder, synced as a whole.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::ring::helper::Helper;
use crate::ring::io::Io;
use crate::ring::ring_mask::RingMask;
#[cfg(any(test, feature = "sim"))]
use crate::ring::sim::core::SimFileSystem;
use crate::ring::uring::Ring;

/// The file system that holds a folder; of one core.
///
/// It is to be open before its core writes, and stays so: an error of writing back is told to the first sync after it, of
/// each who had the file system open by then.
pub enum FileSystem {
    #[doc(hidden)]
    Uring(UringFileSystem),
    #[doc(hidden)]
    #[cfg(any(test, feature = "sim"))]
    Sim(SimFileSystem),
}

/// The real one.
pub struct UringFileSystem {
    io: Io,
    ring: Rc<Ring>,
    folder: Arc<OwnedFd>,
    /// Its own: a disk that hangs keeps nobody else's thread.
    helper: RefCell<Option<Helper>>,
}

impl FileSystem {
    /// Makes durable all that was written to its files before this call, whoever wrote it (syncfs). It takes as long as all
    /// that takes. A dropped future leaves the sync to end by itself; another one waits for it.
    ///
    /// # Errors
    /// Something of the file system could not be written, or nobody could be asked to sync it. A sync of each file then
    /// tells whose bytes are lost: its own error is still there.
    pub async fn sync(&self) -> io::Result<()> {
        match self {
            Self::Uring(system) => system.sync().await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(system) => system.sync().await,
        }
    }
}

impl UringFileSystem {
    /// Opens the folder; `None` where a sync of its whole file system is not known to be worth one of each file.
    pub(in crate::ring) async fn open(io: &Io, ring: &Rc<Ring>, path: &Path) -> io::Result<Option<Self>> {
        if !ring.has(RingMask::SYNCFS) {
            return Ok(None);
        }
        let path = path.to_owned();
        let helper = RefCell::new(None);
        let folder = ring.ask(&helper, HELPER, io, move || open_if_trusted(&path)).await??;
        Ok(folder.map(|folder| Self { io: io.clone(), ring: ring.clone(), folder: Arc::new(folder), helper }))
    }

    async fn sync(&self) -> io::Result<()> {
        let folder = self.folder.clone();
        let synced = self.ring.ask(&self.helper, HELPER, &self.io, move || rustix::fs::syncfs(&folder)).await?;
        synced.map_err(io::Error::from)
    }
}

/// ext4 and XFS end a syncfs with their journal and the disk's own cache on stable storage. Of others (a network, layers of
/// a container, file systems that make a whole snapshot) it is not known, or known to be dear.
fn open_if_trusted(path: &Path) -> io::Result<Option<OwnedFd>> {
    let folder = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let magic = u64::try_from(rustix::fs::fstatfs(&folder)?.f_type).unwrap_or(0);
    Ok(matches!(magic, EXT4_MAGIC | XFS_MAGIC).then_some(folder))
}

const HELPER: &str = "sync-helper";
const EXT4_MAGIC: u64 = 0xEF53;
const XFS_MAGIC: u64 = 0x5846_5342;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::buffer::Buffer;
    use crate::ring::core::tests::run_alone;
    use crate::ring::io::OpenHow;

    /// On the disk of the source tree: whether that is one to trust, the machine says.
    #[test]
    fn a_file_system_that_is_trusted_is_synced_and_others_are_not_offered() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let trusted = open_if_trusted(folder.path()).unwrap().is_some();
        let path = folder.path().to_owned();
        run_alone(RingMask::NONE, move |io| async move {
            let system = io.file_system(&path).await.unwrap();
            assert_eq!(system.is_some(), trusted);
            if let Some(system) = system {
                let file = io.open(&path.join("x"), OpenHow::CreateNew).await.unwrap();
                file.write_at(Buffer::from_vec(vec![7; 9]), 0).await.0.unwrap();
                system.sync().await.unwrap();
                system.sync().await.unwrap();
            }
            assert!(io.file_system(Path::new("/proc")).await.unwrap().is_none(), "no disk");
            assert_eq!(io.file_system(&path.join("y")).await.err().map(|e| e.kind()), Some(io::ErrorKind::NotFound));
        });
        let path = folder.path().to_owned();
        run_alone(RingMask::SYNCFS, move |io| async move {
            assert!(io.file_system(&path).await.unwrap().is_none(), "hidden");
        });
    }
}
