//! A server whose disk is lost comes back from its tier, which fails and is slow meanwhile.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use alluvium::cli::tier_args::TierRestoreArgs;
use alluvium::cli::tier_restore;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::Crash;
use alluvium::tier::sim_store::StoreFaults;
use alluvium::tier::tier_url::TierUrl;

use crate::remote_reads::{
    COLD, EARLIEST_LOCAL, FIRST_MS, PARTITIONS, RECORDS, World, fetch_as, leader, list, produce,
};
use crate::seeds::seeds;
use crate::server::{CORE_COUNT, DATA_DIR, NODE_ID, TIER_DIR};

const SECOND_NS: u64 = 1_000_000_000;
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// Removes all of a folder but the folder.
async fn empty(io: &Io, folder: &Path) {
    let mut folders = vec![folder.to_path_buf()];
    let mut at = 0;
    while let Some(next) = folders.get(at).cloned() {
        for entry in io.read_dir(&next).await.expect("it is there") {
            let path = next.join(&entry.name);
            if entry.is_dir { folders.push(path) } else { io.remove_file(&path).await.expect("it is there") }
        }
        io.sync_dir(&next).await.expect("it is there");
        at += 1;
    }
    for folder in folders.iter().skip(1).rev() {
        io.remove_dir(folder).await.expect("it is empty");
    }
    io.sync_dir(folder).await.expect("it is there");
}

#[test]
fn c156_a_lost_disk_comes_back_from_a_tier_that_fails_meanwhile() {
    for seed in seeds(3) {
        let mut world = World::new(seed, &[], StoreFaults::default());
        // The manifests say all of it.
        world.run(async |io: Io| io.sleep_ms(2_000).await);
        world.server.crash(Crash::Kill);
        let faults = StoreFaults {
            error_per_million: 4_000,
            hang_per_million: 10_000,
            hang_us: 3_000_000,
            delay_us_max: 5_000,
            ..StoreFaults::default()
        };
        let args = TierRestoreArgs {
            from: TierUrl::Simulated { base: PathBuf::from(TIER_DIR), faults },
            topics: Vec::new(),
            data_dirs: vec![PathBuf::from(DATA_DIR)],
            node_id: Some(u32::try_from(NODE_ID).expect("not negative")),
            metadata_only: false,
            slow: seed % 3 == 2,
            hdfs: Default::default(),
        };
        let is_restored = Rc::new(Cell::new(false));
        let mut attempts = 0;
        while !is_restored.get() {
            attempts += 1;
            assert!(attempts < 100, "seed {seed}: it is never restored");
            // As the operator, who empties what was not restored whole. The first, and every third then, is cut off.
            let io = world.server.machine().core(CORE_COUNT);
            let (task, args, told) = (io.clone(), args.clone(), is_restored.clone());
            let limit_ns = if attempts % 3 == 1 { 40_000_000 * attempts } else { 600 * SECOND_NS };
            let ended = world.sim.run(&io, limit_ns, async move {
                empty(&task, Path::new(DATA_DIR)).await;
                told.set(tier_restore::restore_into(&task, &args).await.is_ok());
            });
            assert!(ended.is_ok() || !is_restored.get(), "seed {seed}: {ended:?}");
            drop(io);
            // What is restored is lasting.
            world.server.crash(Crash::PowerCut);
        }
        world.boot_with(StoreFaults::default());
        world.run(async move |io: Io| {
            for partition in 0..PARTITIONS {
                let (id, mut connection) = leader(&io, COLD, partition).await;
                let ends = [
                    list(&mut connection, partition, EARLIEST, 0).await,
                    list(&mut connection, partition, LATEST, 0).await,
                ];
                assert_eq!(ends, [(0, 0), (0, RECORDS)], "seed {seed}: after {attempts} attempts");
                for at in 0..RECORDS {
                    let found = fetch_as(&mut connection, &[(id, partition)], at, 1, 1, 0).await;
                    assert!(found[0].0 == 0 && found[0].1 > 200, "seed {seed}: record {at}: {found:?}");
                }
            }
            // And it goes on.
            for partition in 0..4 {
                for at in RECORDS..2 * RECORDS {
                    produce(&io, COLD, partition, FIRST_MS + 1000 * at).await;
                }
                let (_, mut connection) = leader(&io, COLD, partition).await;
                // Restored by the files alone it keeps more here.
                while list(&mut connection, partition, EARLIEST_LOCAL, 0).await.1 < RECORDS {
                    io.sleep_ms(50).await;
                }
                assert_eq!(list(&mut connection, partition, LATEST, 0).await, (0, 2 * RECORDS), "seed {seed}");
            }
        });
        world.server.crash(Crash::Kill);
    }
}
