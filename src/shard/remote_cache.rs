//! What one core has read of remote segments that are not files of this machine.
//!
//! Ranges are read in pieces and kept for those who come next, within the tier's memory: whoever needs room lets go of what
//! was not used for longest. Two that want the same piece cost one read. A read that was begun goes on to its end although
//! those who wait for it go away: its memory is held until then, and the next one who asks finds it done.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use ahash::RandomState;
use lru::LruCache;
use tracing::warn;

use crate::ring::buffer::Buffer;
use crate::ring::io::Io;
use crate::ring::shared_bytes::SharedBytes;
use crate::ring::task::WaitList;
use crate::shard::counters::Counter;
use crate::shard::piece_runs::{missing_runs, reach, without_short_run};
use crate::shard::piece_source::{
    AHEAD_RUN_PIECES_MAX, LOG_PIECE_BYTES, PieceSource, RUN_PIECES_MAX, Region, held_bytes,
};
use crate::shard::pieces::{Flight, Key, Piece, Pieces, Slot, Taken};
use crate::shard::remote_bytes::RemoteBytes;
use crate::shard::tier_memory::{TierMemory, TierReservation};
use crate::tier::error::StoreError;
use crate::tier::metadata::RemoteSegmentId;

/// The pieces of one core.
pub struct RemoteCache {
    memory: Rc<TierMemory>,
    pieces: RefCell<Pieces>,
    /// `remote.log.index.file.cache.total.size.bytes`, of this core, and within the tier's memory.
    index_bytes_max: usize,
    /// How far is read ahead: less where pieces had to go before anyone had read them.
    ahead_bytes: Cell<usize>,
    /// What it has done.
    pub counters: CacheCounters,
}

/// Counters of a cache.
#[derive(Default)]
pub struct CacheCounters {
    /// Reads of the store.
    pub loads: Counter,
    /// Their bytes.
    pub loaded_bytes: Counter,
    /// Reads of the store that failed.
    pub failures: Counter,
    /// Pieces that were there when they were asked for.
    pub hits: Counter,
    /// Pieces that made room.
    pub evictions: Counter,
}

/// Somebody lets go of pieces, however that comes about: whoever waits for memory looks again. Made before them, dropped
/// after them.
struct LettingGo<'a> {
    memory: &'a TierMemory,
    io: &'a Io,
}

impl Drop for LettingGo<'_> {
    fn drop(&mut self) {
        self.memory.wake_first(self.io);
    }
}

/// A piece that is in use: it stays, and tells whoever waits for memory when it may go.
struct Pin {
    piece: Rc<Piece>,
    memory: Rc<TierMemory>,
    io: Io,
}

impl AsRef<[u8]> for Pin {
    fn as_ref(&self) -> &[u8] {
        &self.piece.bytes
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.memory.wake_first(&self.io);
    }
}

impl RemoteCache {
    /// An empty cache. `seeds` are of its hashes, so that a simulation repeats.
    pub fn new(memory: Rc<TierMemory>, index_bytes_max: u64, seeds: impl Fn() -> RandomState) -> Rc<Self> {
        let quarter_bytes = memory.total_bytes() / 4;
        let pieces = Pieces {
            logs: LruCache::unbounded_with_hasher(seeds()),
            indexes: LruCache::unbounded_with_hasher(seeds()),
            index_bytes: 0,
        };
        Rc::new(Self {
            index_bytes_max: usize::try_from(index_bytes_max).unwrap_or(usize::MAX).min(quarter_bytes),
            ahead_bytes: Cell::new(AHEAD_BYTES_MAX.min(quarter_bytes / 2)),
            memory,
            pieces: RefCell::new(pieces),
            counters: CacheCounters::default(),
        })
    }

    /// The memory that it draws on.
    pub fn memory(&self) -> &Rc<TierMemory> {
        &self.memory
    }

    /// Memory of the tier for something else; pieces that nobody uses make room.
    pub async fn reserve(&self, io: &Io, len_bytes: usize) -> TierReservation {
        self.memory.reserve(io, len_bytes, |bytes| self.make_room(bytes)).await
    }

    /// Reads a range of a file; less where its part ends before.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn read(
        self: &Rc<Self>,
        io: &Io,
        source: &PieceSource,
        position_bytes: u64,
        len_bytes: usize,
    ) -> Result<RemoteBytes, Rc<StoreError>> {
        let end = position_bytes.saturating_add(len_bytes as u64).min(source.end_bytes);
        let Some(numbers) = source.numbers(position_bytes, len_bytes) else { return Ok(RemoteBytes::default()) };
        let mut reserved: Option<TierReservation> = None;
        // Nothing is held while memory is waited for: what was there may be gone then.
        loop {
            let runs = self.missing_runs(source, numbers.clone(), RUN_PIECES_MAX);
            let needed_bytes: usize = runs.iter().map(|(number, count)| source.loading_bytes(*number, *count)).sum();
            let enough = needed_bytes.min(self.memory.total_bytes());
            if let Some(reserved) = reserved.take_if(|reserved| reserved.len_bytes() >= enough) {
                for (number, count) in runs {
                    let part = reserved.split(source.loading_bytes(number, count));
                    self.load(io, source, number, count, part, false);
                }
                break;
            }
            drop(reserved.take());
            if needed_bytes == 0 {
                break;
            }
            reserved = Some(self.reserve(io, needed_bytes).await);
        }
        // A read that fails or is dropped has pieces that are no one's then.
        let _letting_go = LettingGo { memory: &self.memory, io };
        let found: Vec<Taken> = numbers.clone().map(|number| self.take(source, number)).collect();
        let mut slices = Vec::with_capacity(found.len());
        for (number, taken) in numbers.zip(found) {
            let piece = match taken {
                Taken::Ready(piece) => piece,
                Taken::Loading(flight) => flight.landed(io, number).await?,
            };
            piece.is_unread.set(false);
            let begin = source.piece_begin(number);
            let from = usize::try_from(position_bytes.saturating_sub(begin)).unwrap_or(usize::MAX);
            let to = usize::try_from(end - begin).unwrap_or(usize::MAX);
            let pin = Pin { piece, memory: self.memory.clone(), io: io.clone() };
            slices.push(SharedBytes::new(Rc::new(pin), from..to));
        }
        Ok(RemoteBytes::new(slices))
    }

    /// Begins to read what a sequential reader wants next, from `position_bytes` on, where there is memory for it now. True
    /// where that reaches the end of the part.
    pub fn read_ahead(self: &Rc<Self>, io: &Io, source: &PieceSource, position_bytes: u64) -> bool {
        let ahead_bytes = self.ahead_bytes.get();
        let is_end = position_bytes.saturating_add(ahead_bytes as u64) >= source.end_bytes;
        if let Some(numbers) = source.numbers(position_bytes, ahead_bytes) {
            let half = usize::try_from((numbers.end - numbers.start) / 2).unwrap_or(usize::MAX);
            let pieces_max = half.clamp(RUN_PIECES_MAX, AHEAD_RUN_PIECES_MAX);
            let pieces_min = half.clamp(1, AHEAD_RUN_PIECES_MAX);
            let numbers =
                if is_end { numbers } else { self.without_short_run(source, numbers, pieces_min, pieces_max) };
            let runs = self.missing_runs(source, numbers, pieces_max);
            self.load_now(io, source, runs, true);
        }
        is_end
    }

    /// Begins to read what a fetch will want, where there is memory for it now: in one read, which it joins.
    pub fn begin(self: &Rc<Self>, io: &Io, source: &PieceSource, position_bytes: u64, len_bytes: usize) {
        let reached_bytes = self.reach(source, position_bytes, len_bytes);
        if let Some(numbers) = source.numbers(position_bytes, reached_bytes) {
            let runs = self.missing_runs(source, numbers, RUN_PIECES_MAX);
            self.load_now(io, source, runs, false);
        }
    }

    /// How much of a range an answer has that costs one read of the store at most.
    pub fn reach(&self, source: &PieceSource, position_bytes: u64, len_bytes: usize) -> usize {
        let Some(numbers) = source.numbers(position_bytes, len_bytes) else { return 0 };
        let pieces = self.pieces.borrow();
        let known = pieces.known(source.region == Region::Indexes);
        let end = reach(numbers, RUN_PIECES_MAX, |number| known.contains(&(source.segment, number)));
        let reached_bytes = source.piece_begin(end).min(source.end_bytes) - position_bytes;
        usize::try_from(reached_bytes).unwrap_or(usize::MAX).min(len_bytes)
    }

    fn load_now(self: &Rc<Self>, io: &Io, source: &PieceSource, runs: Vec<(u64, usize)>, is_ahead: bool) {
        for (number, count) in runs {
            let needed_bytes = source.loading_bytes(number, count);
            let reserved = self.memory.try_reserve(io, needed_bytes, |bytes| self.make_room(bytes));
            let Some(reserved) = reserved.filter(|reserved| reserved.len_bytes() >= needed_bytes) else { break };
            self.load(io, source, number, count, reserved, is_ahead);
        }
    }

    /// Lets go of what is kept of a segment.
    pub fn forget(&self, segment: RemoteSegmentId) {
        let mut pieces = self.pieces.borrow_mut();
        for is_index in [false, true] {
            let keys: Vec<Key> =
                pieces.of(is_index).iter().map(|(key, _)| *key).filter(|(of, _)| *of == segment).collect();
            keys.into_iter().for_each(|key| pieces.remove(is_index, key));
        }
    }

    fn missing_runs(&self, source: &PieceSource, numbers: Range<u64>, count_max: usize) -> Vec<(u64, usize)> {
        let pieces = self.pieces.borrow();
        let known = pieces.known(source.region == Region::Indexes);
        missing_runs(numbers, count_max, |number| known.contains(&(source.segment, number)))
    }

    fn without_short_run(
        &self,
        source: &PieceSource,
        numbers: Range<u64>,
        count_min: usize,
        count_max: usize,
    ) -> Range<u64> {
        let pieces = self.pieces.borrow();
        let known = pieces.known(source.region == Region::Indexes);
        without_short_run(numbers, count_min, count_max, |number| known.contains(&(source.segment, number)))
    }

    fn take(&self, source: &PieceSource, number: u64) -> Taken {
        let mut pieces = self.pieces.borrow_mut();
        match pieces.of(source.region == Region::Indexes).get(&(source.segment, number)) {
            Some(Slot::Ready(piece)) => {
                self.counters.hits.add(1);
                if piece.is_unread.get() {
                    let wider_bytes = self.ahead_bytes.get() + piece.bytes.len() / 4;
                    self.ahead_bytes.set(wider_bytes.min(AHEAD_BYTES_MAX).min(self.memory.total_bytes() / 8));
                }
                Taken::Ready(piece.clone())
            }
            Some(Slot::Loading(flight)) => Taken::Loading(flight.clone()),
            None => unreachable!("what was missing was begun in this poll"),
        }
    }

    fn load(
        self: &Rc<Self>,
        io: &Io,
        source: &PieceSource,
        first: u64,
        count: usize,
        reserved: TierReservation,
        is_ahead: bool,
    ) {
        let flight = Rc::new(Flight { first, waiters: WaitList::default(), outcome: RefCell::default() });
        {
            let mut pieces = self.pieces.borrow_mut();
            let slots = pieces.of(source.region == Region::Indexes);
            for number in first..first + count as u64 {
                slots.put((source.segment, number), Slot::Loading(flight.clone()));
            }
        }
        let (this, io_of_task, source) = (self.clone(), io.clone(), source.clone());
        io.spawn(async move {
            let len_bytes = source.run_bytes(first, count);
            let position_bytes = source.piece_begin(first);
            this.counters.loads.add(1);
            // Held for as long as the buffer is anywhere: a store that hangs keeps it past the end of its read.
            let reserved = Rc::new(reserved);
            let buffer = io_of_task.buffer(len_bytes).holding(reserved.clone());
            let read = source.file.read(buffer, position_bytes).await;
            let read = read.and_then(|bytes| match bytes.len() == len_bytes {
                true => Ok(bytes),
                false => Err(StoreError::of(
                    &source.segment.to_string(),
                    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the file is shorter than it was"),
                )),
            });
            // Nobody may be there any more who wants them.
            let _letting_go = LettingGo { memory: &this.memory, io: &io_of_task };
            let flight = flight;
            this.land(&source, &flight, count, read, &reserved, is_ahead);
            io_of_task.wake_all(&flight.waiters);
        });
    }

    fn land(
        &self,
        source: &PieceSource,
        flight: &Rc<Flight>,
        count: usize,
        read: Result<Buffer, StoreError>,
        reserved: &TierReservation,
        is_ahead: bool,
    ) {
        let is_index = source.region == Region::Indexes;
        let mut pieces = self.pieces.borrow_mut();
        let first = flight.first;
        let is_ours = |slot: Option<&Slot>| matches!(slot, Some(Slot::Loading(of)) if Rc::ptr_eq(of, flight));
        let outcome = match read {
            Err(error) => {
                self.counters.failures.add(1);
                warn!(%error, position_bytes = source.piece_begin(first), "a range of the tier could not be read");
                for number in first..first + count as u64 {
                    if is_ours(pieces.of(is_index).peek(&(source.segment, number))) {
                        pieces.remove(is_index, (source.segment, number));
                    }
                }
                Err(Rc::new(error))
            }
            Ok(mut bytes) => {
                self.counters.loaded_bytes.add(bytes.len() as u64);
                reserved.shrink_to(held_bytes(bytes.len()));
                let mut landed = Vec::with_capacity(count);
                for number in first..first + count as u64 {
                    let len = source.run_bytes(number, 1).min(bytes.len());
                    let bytes = bytes.split_to(len);
                    let piece = Rc::new(Piece { bytes, is_unread: Cell::new(is_ahead) });
                    landed.push(piece.clone());
                    // A segment that was let go meanwhile is not kept.
                    if is_ours(pieces.of(is_index).peek(&(source.segment, number))) {
                        pieces.index_bytes += if is_index { len } else { 0 };
                        pieces.of(is_index).put((source.segment, number), Slot::Ready(piece));
                    }
                }
                Ok(landed)
            }
        };
        *flight.outcome.borrow_mut() = Some(outcome);
        if is_index && pieces.index_bytes > self.index_bytes_max {
            for key in pieces.idle(true) {
                if pieces.index_bytes <= self.index_bytes_max {
                    break;
                }
                pieces.remove(true, key);
                self.counters.evictions.add(1);
            }
        }
    }

    /// Lets pieces go that nobody uses, the longest unused first, records before indexes.
    fn make_room(&self, bytes: usize) {
        let target_bytes = self.memory.held_bytes().saturating_sub(bytes);
        let mut pieces = self.pieces.borrow_mut();
        for is_index in [false, true] {
            for key in pieces.idle(is_index) {
                if self.memory.held_bytes() <= target_bytes {
                    return;
                }
                if let Some(Slot::Ready(piece)) = pieces.of(is_index).peek(&key)
                    && piece.is_unread.get()
                {
                    // Read for nothing: there are too many readers for so much.
                    self.ahead_bytes.set((self.ahead_bytes.get() / 2).max(LOG_PIECE_BYTES as usize));
                }
                pieces.remove(is_index, key);
                self.counters.evictions.add(1);
            }
        }
    }
}

/// A sequential reader finds this much read already: two reads of the store go on side by side.
const AHEAD_BYTES_MAX: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::random::Random;
    use crate::ring::sim::world::Sim;
    use crate::ring::timer::Nanos;
    use crate::shard::deadline::within;
    use crate::tier::sim_store::{SimStore, StoreFaults};
    use crate::tier::store::Store;

    const FILE_BYTES: usize = 3 * 1024 * 1024 + 12_345;
    const INDEX_BYTES: u64 = 200_000;

    fn byte_at(at: usize) -> u8 {
        (at % 251) as u8 ^ (at >> 13) as u8
    }

    struct Bench {
        io: Io,
        cache: Rc<RemoteCache>,
        indexes: PieceSource,
        log: PieceSource,
        store: SimStore,
    }

    /// A file in a store of `faults`, and a cache of `memory_bytes`.
    fn with_a_file(seed: u64, faults: StoreFaults, memory_bytes: usize, test: impl AsyncFnOnce(Bench) + 'static) {
        let sim = Sim::new(SimOptions::calm(seed));
        let io = sim.machine().core(0);
        let run = io.clone();
        let base = std::path::Path::new("/tier");
        sim.run(&io, 600_000_000_000, async move {
            let quiet = Store::Sim(SimStore::new(&run, base, StoreFaults::default()));
            quiet.make_folder("").await.expect("new");
            quiet.put("x", "y", (0..FILE_BYTES).map(byte_at).collect()).await.expect("space");
            let file = quiet.open("x").await.expect("there");
            let store = SimStore::new(&run, base, faults);
            let mut opened = Store::Sim(store.clone()).open("x").await;
            while opened.is_err() {
                opened = Store::Sim(store.clone()).open("x").await;
            }
            let seeds = || RandomState::with_seeds(1, 2, 3, 4);
            let cache = RemoteCache::new(TierMemory::new(memory_bytes), 1 << 30, seeds);
            let log = PieceSource {
                segment: RemoteSegmentId::from_random(7),
                begin_bytes: INDEX_BYTES,
                end_bytes: file.len_bytes(),
                file: opened.expect("tried until it came"),
                region: Region::Log,
            };
            let indexes = PieceSource { begin_bytes: 0, region: Region::Indexes, ..log.clone() };
            test(Bench { io: run, cache, indexes, log, store }).await;
        })
        .expect("it ends");
    }

    fn is_right(at: u64, bytes: &RemoteBytes) -> bool {
        let at = at as usize;
        bytes.joined().iter().enumerate().step_by(61).all(|(number, byte)| *byte == byte_at(at + number))
    }

    #[test]
    fn readers_of_one_range_cost_one_read() {
        let slow = StoreFaults { delay_us_max: 5_000, ..StoreFaults::default() };
        with_a_file(1, slow, 16 << 20, async |bench: Bench| {
            let Bench { io, cache, log, indexes, .. } = bench;
            let done = Rc::new(Cell::new(0));
            for _ in 0..10 {
                let (io_of_task, cache, log, done) = (io.clone(), cache.clone(), log.clone(), done.clone());
                io.spawn(async move {
                    let read = cache.read(&io_of_task, &log, INDEX_BYTES + 100, 1_000_000).await.expect("there");
                    assert!(read.len() == 1_000_000 && is_right(INDEX_BYTES + 100, &read));
                    done.set(done.get() + 1);
                });
            }
            while done.get() < 10 {
                io.sleep_ms(1).await;
            }
            // Four pieces in one read.
            assert_eq!(cache.counters.loads.get(), 1);
            assert!(cache.counters.loaded_bytes.get() == 1 << 20);
            let head = cache.read(&io, &indexes, 0, 25).await.expect("there");
            assert!(head.len() == 25 && is_right(0, &head));
            let end = cache.read(&io, &log, FILE_BYTES as u64 - 10, 100).await.expect("there");
            assert!(end.len() == 10 && is_right(FILE_BYTES as u64 - 10, &end));
            assert!(cache.read(&io, &log, FILE_BYTES as u64, 100).await.expect("there").is_empty());
            let held_bytes = cache.memory().held_bytes();
            assert!((1 << 20..2 << 20).contains(&held_bytes), "{held_bytes}");
            cache.forget(log.segment);
            drop((head, end));
            assert_eq!(cache.memory().held_bytes(), 0);
        });
    }

    #[test]
    fn the_memory_is_kept_whatever_readers_do() {
        for seed in 0..12 {
            let faults = StoreFaults { delay_us_max: 3_000, error_per_million: 50_000, ..StoreFaults::default() };
            // It hangs as well, and has what it was to fill long after whoever asked was told so.
            let faults = StoreFaults { late_per_million: 200_000, hang_us: 100_000, ..faults };
            let memory_bytes = [64 << 10, 600 << 10, 3 << 20][seed as usize % 3];
            with_a_file(seed, faults, memory_bytes, async move |bench: Bench| {
                let Bench { io, cache, log, indexes, store } = bench;
                let random = Random::new(seed);
                let done = Rc::new(Cell::new(0));
                for _ in 0..20 {
                    let (cache, done, random) = (cache.clone(), done.clone(), random.fork());
                    let (log, indexes, io_of_task) = (log.clone(), indexes.clone(), io.clone());
                    io.spawn(async move {
                        let io = io_of_task;
                        for _ in 0..6 {
                            let source = if random.coin() { &log } else { &indexes };
                            let at = random.between(source.begin_bytes, source.end_bytes - 1);
                            let len = random.between(1, 300_000) as usize;
                            // Some go away in the middle.
                            let until =
                                if random.coin() { io.now().plus_us(random.below(4_000)) } else { Nanos(u64::MAX) };
                            if let Some(Ok(read)) = within(&io, until, cache.read(&io, source, at, len)).await {
                                assert!(is_right(at, &read) && !read.is_empty(), "seed {seed}: {at}");
                                assert!(read.len() == len || read.len() as u64 == source.end_bytes - at);
                                if random.coin() {
                                    io.sleep_ms(random.below(5)).await;
                                }
                            }
                            if random.below(3) == 0 {
                                cache.read_ahead(&io, &log, random.between(log.begin_bytes, log.end_bytes));
                            }
                        }
                        done.set(done.get() + 1);
                    });
                }
                while done.get() < 20 {
                    io.sleep_ms(5).await;
                }
                let memory = cache.memory();
                assert!(memory.held_bytes_max() <= memory_bytes, "seed {seed}: {}", memory.held_bytes_max());
                let late_bytes = store.late_bytes_max();
                // What is more than all there is is read alone.
                let may_hold_bytes = memory_bytes.max(RUN_PIECES_MAX * LOG_PIECE_BYTES as usize);
                assert!(0 < late_bytes && late_bytes <= may_hold_bytes, "seed {seed}: {late_bytes} of reads that hung");
                // What nobody uses makes room for all.
                let all = cache.reserve(&io, memory_bytes).await;
                assert_eq!(all.len_bytes(), memory_bytes, "seed {seed}");
            });
        }
    }

    #[test]
    fn a_sequential_reader_finds_what_comes_next() {
        with_a_file(3, StoreFaults::default(), 64 << 20, async |bench: Bench| {
            let Bench { io, cache, log, .. } = bench;
            assert!(cache.read_ahead(&io, &log, INDEX_BYTES + 5), "the window reaches the end");
            io.sleep_ms(50).await;
            let loads = cache.counters.loads.get();
            assert_eq!(loads, 2, "of half of it each");
            let read = cache.read(&io, &log, INDEX_BYTES, FILE_BYTES).await.expect("there");
            assert!(read.len() as u64 == FILE_BYTES as u64 - INDEX_BYTES && is_right(INDEX_BYTES, &read));
            assert_eq!(cache.counters.loads.get(), loads);
        });
    }

    #[test]
    fn a_sequential_reader_is_read_ahead_in_long_runs() {
        // For the largest window, and for smaller ones: each reader has no more reads than its file has such runs.
        for (memory_bytes, reads) in [(64 << 20, 2), (16 << 20, 3), (8 << 20, 5)] {
            with_a_file(4, StoreFaults::default(), memory_bytes, async move |bench: Bench| {
                let Bench { io, cache, log, .. } = bench;
                let mut at = INDEX_BYTES;
                while at < log.end_bytes {
                    cache.read_ahead(&io, &log, at);
                    io.sleep_ms(50).await;
                    let read = cache.read(&io, &log, at, 300_000).await.expect("there");
                    assert!(is_right(at, &read));
                    at += read.len() as u64;
                }
                let counters = &cache.counters;
                assert!(counters.loads.get() <= reads, "{memory_bytes}: {} reads", counters.loads.get());
                assert_eq!(counters.loaded_bytes.get(), log.end_bytes - log.begin_bytes);
            });
        }
    }

    /// A fetch as it is made: what it wants is begun, then read to see how long its first batch is, then read.
    async fn fetched(bench: &Bench, at: u64) -> usize {
        let Bench { io, cache, log, .. } = bench;
        cache.begin(io, log, at, 1 << 20);
        cache.read(io, log, at, 61).await.expect("there");
        let reached = cache.reach(log, at, 1 << 20);
        let read = cache.read(io, log, at, reached).await.expect("there");
        assert!(read.len() == reached && is_right(at, &read), "{reached} at {at}");
        reached
    }

    #[test]
    fn a_fetch_is_one_read() {
        const PIECE: u64 = LOG_PIECE_BYTES;
        let slow = StoreFaults { delay_us_max: 5_000, ..StoreFaults::default() };
        // Where it was thought to be, where it is, and what it has of the store by how many reads.
        let cases = [
            (300, 300, 4 * PIECE - 300, 1),
            (PIECE - 1, PIECE - 1, 3 * PIECE + 1, 1),
            (300, PIECE + 300, 3 * PIECE - 300, 1),
            (PIECE + 300, 300, 1 << 20, 2),
            (300, 7 * PIECE, 1 << 20, 2),
        ];
        for (guess, at, len, reads) in cases {
            with_a_file(5, slow, 16 << 20, async move |bench: Bench| {
                bench.cache.begin(&bench.io, &bench.log, INDEX_BYTES + guess, 1 << 20);
                let reached = fetched(&bench, INDEX_BYTES + at).await;
                let found = (reached as u64, bench.cache.counters.loads.get());
                assert_eq!(found, (len, reads), "{guess} for {at}");
            });
        }
        // One that comes in order, and for whom nothing was read ahead: no piece is read alone.
        with_a_file(6, slow, 16 << 20, async |bench: Bench| {
            let mut at = INDEX_BYTES;
            while at < FILE_BYTES as u64 - 1000 {
                at += fetched(&bench, at).await as u64 - 700;
            }
            assert_eq!(bench.cache.counters.loads.get(), 3, "of twelve pieces");
        });
    }
}
