//! Whose a base folder is: a file with the cluster's id, made once.

use crate::ring::io::Io;
use crate::tier::error::{OwnerError, StoreError};
use crate::tier::store::{Store, TEMPORARY_FOLDER};

/// Takes the base folder, or finds that it is ours. Makes the folder for files that are being written.
///
/// `has_segments`: segments of ours are known to be there; a folder without an owner is then another one.
///
/// # Errors
/// It is another cluster's, or the store does not answer. Nothing was changed.
pub async fn claim(io: &Io, store: &Store, cluster_id: &str, has_segments: bool) -> Result<(), OwnerError> {
    let found = match read_owner(io, store).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => {
            if has_segments {
                return Err(OwnerError::Missing { url: store.url() });
            }
            store.make_folder(TEMPORARY_FOLDER).await?;
            let unique = format!("{TEMPORARY_FOLDER}/owner-{:016x}", io.random_u64());
            store.put(OWNER_FILE, &unique, format!("{OWNER_LINE}{cluster_id}\n").into_bytes()).await?;
            // Where two took it at once, both see here who has it.
            read_owner(io, store).await?
        }
        Err(error) => return Err(error.into()),
    };
    if found.strip_prefix(OWNER_LINE).map(str::trim) != Some(cluster_id) {
        let found = found.strip_prefix(OWNER_LINE).unwrap_or("(not readable)").trim().to_owned();
        return Err(OwnerError::Other { url: store.url(), found, expected: cluster_id.to_owned() });
    }
    store.make_folder(TEMPORARY_FOLDER).await?;
    Ok(())
}

/// The id of the cluster that has the base folder; `None` where nobody has.
///
/// # Errors
/// The store does not answer.
pub async fn find(io: &Io, store: &Store) -> Result<Option<String>, StoreError> {
    match read_owner(io, store).await {
        Ok(found) => Ok(found.strip_prefix(OWNER_LINE).map(|id| id.trim().to_owned())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn read_owner(io: &Io, store: &Store) -> Result<String, StoreError> {
    let file = store.open(OWNER_FILE).await?;
    let wanted_bytes = usize::try_from(file.len_bytes()).unwrap_or(usize::MAX).min(OWNER_BYTES_MAX);
    let bytes = file.read(io.buffer(wanted_bytes), 0).await?;
    if bytes.len() < wanted_bytes {
        // Half a name would be another one's.
        return Err(StoreError::of(OWNER_FILE, std::io::Error::from(std::io::ErrorKind::UnexpectedEof)));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Its name in the base folder.
pub const OWNER_FILE: &str = "alluvium-owner";
const OWNER_LINE: &str = "cluster.id=";
const OWNER_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use crate::tier::directory_store::DirectoryStore;

    #[test]
    fn a_base_folder_has_one_owner() {
        let sim = Sim::new(SimOptions::default());
        let io = sim.machine().core(0);
        let run = io.clone();
        sim.run(&io, 1 << 40, async move {
            let store = Store::Directory(DirectoryStore::new(&run, Path::new("/tier")));
            let lost = claim(&run, &store, "one", true).await.expect_err("nothing is there");
            assert!(lost.to_string().contains("is the right disk mounted?"), "{lost}");
            claim(&run, &store, "one", false).await.expect("free");
            claim(&run, &store, "one", true).await.expect("ours");
            let refused = claim(&run, &store, "another", false).await.expect_err("taken");
            assert!(refused.to_string().contains("belongs to cluster one"), "{refused}");
            claim(&run, &store, "one", false).await.expect("nothing has changed");
        })
        .expect("ends");
    }
}
