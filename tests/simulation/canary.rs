//! A tiny store, right and wrong, to show that world and oracle together find a lost record.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use alluvium::ring::buffer::Buffer;
use alluvium::ring::io::{Io, OpenHow};
use alluvium::ring::sim::options::{Crash, SimOptions};
use alluvium::ring::sim::world::Sim;

use crate::oracle::{Contents, Oracle, Violation};
use crate::seeds::seeds;

const SECOND_NS: u64 = 1_000_000_000;
const RECORD_BYTES: usize = 100;

/// When the store acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acknowledges {
    AfterSync,
    BeforeSync,
}

/// The records that are whole, from the first on; the rest is cut off.
async fn recover(io: &Io) -> Vec<(i64, Vec<u8>)> {
    let file = io.open(Path::new("/log"), OpenHow::ReadWriteOrCreate).await.expect("opens");
    io.sync_dir(Path::new("/")).await.expect("syncs");
    let len = file.len().await.expect("says") as usize;
    let (read, bytes) = file.read_at(Buffer::zeroed(len), 0).await;
    assert_eq!(read.expect("reads"), len);
    let whole = bytes
        .chunks_exact(RECORD_BYTES)
        .take_while(|record| record[0] != 0 && record.iter().all(|byte| *byte == record[0]));
    let records: Vec<(i64, Vec<u8>)> =
        whole.enumerate().map(|(offset, record)| (offset as i64, record.to_vec())).collect();
    file.set_len((records.len() * RECORD_BYTES) as u64).await.expect("cuts");
    file.sync_data().await.expect("syncs");
    records
}

/// Appends records for ever.
async fn append(io: Io, oracle: Rc<RefCell<Oracle>>, next: usize, acknowledges: Acknowledges) {
    let file = io.open(Path::new("/log"), OpenHow::ReadWrite).await.expect("opens");
    for offset in next..255 {
        let payload = vec![offset as u8 + 1; RECORD_BYTES];
        oracle.borrow_mut().sent("t", 0, 1, &payload);
        file.write_at(Buffer::from_vec(payload.clone()), (offset * RECORD_BYTES) as u64).await.0.expect("writes");
        let acknowledge = || oracle.borrow_mut().acknowledged("t", 0, offset as i64, &payload).expect("a new offset");
        if acknowledges == Acknowledges::BeforeSync {
            acknowledge();
        }
        file.sync_data().await.expect("syncs");
        if acknowledges == Acknowledges::AfterSync {
            acknowledge();
        }
    }
}

/// Five lives of the store, each ended by a crash.
fn run(seed: u64, acknowledges: Acknowledges) -> Result<usize, Violation> {
    let sim = Sim::new(SimOptions::calm(seed));
    let machine = sim.machine();
    let random = sim.random();
    let oracle: Rc<RefCell<Oracle>> = Rc::default();
    for _ in 0..5 {
        let io = machine.core(0);
        let task = io.clone();
        let records = sim.run(&io, SECOND_NS, async move { recover(&task).await }).expect("recovers");
        let contents = Contents { log_start_offset: 0, high_watermark: records.len() as i64, records: &records };
        oracle.borrow_mut().check("t", 0, &contents)?;
        io.spawn(append(io.clone(), oracle.clone(), records.len(), acknowledges));
        sim.run_for(random.below(SECOND_NS / 10));
        machine.crash(if random.coin() { Crash::PowerCut } else { Crash::Kill });
    }
    let promised_count = oracle.borrow().promised_count();
    Ok(promised_count)
}

#[test]
fn a_store_that_syncs_first_keeps_every_promise() {
    for seed in seeds(200) {
        let promised_count = run(seed, Acknowledges::AfterSync);
        assert!(promised_count.is_ok(), "seed {seed}: {promised_count:?}");
    }
    let promised: usize = (0..20).filter_map(|seed| run(seed, Acknowledges::AfterSync).ok()).sum();
    assert!(promised > 500, "only {promised} promises were made");
}

#[test]
fn a_store_that_acknowledges_first_is_found_out() {
    let found = (0..50).filter_map(|seed| run(seed, Acknowledges::BeforeSync).err()).collect::<Vec<_>>();
    assert!(found.len() > 5, "{found:?}");
    assert!(found.iter().all(|violation| matches!(violation, Violation::Lost { .. })), "{found:?}");
}
