//! The pieces of remote segments that a core has, or that are on their way.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use ahash::RandomState;
use lru::LruCache;

use crate::ring::buffer::Buffer;
use crate::ring::io::Io;
use crate::ring::task::WaitList;
use crate::tier::error::StoreError;
use crate::tier::metadata::RemoteSegmentId;

pub(in crate::shard) struct Pieces {
    pub(in crate::shard) logs: LruCache<Key, Slot, RandomState>,
    pub(in crate::shard) indexes: LruCache<Key, Slot, RandomState>,
    pub(in crate::shard) index_bytes: usize,
}

pub(in crate::shard) type Key = (RemoteSegmentId, u64);

pub(in crate::shard) enum Slot {
    Loading(Rc<Flight>),
    Ready(Rc<Piece>),
}

/// One read of the store, for one piece or several.
pub(in crate::shard) struct Flight {
    pub(in crate::shard) first: u64,
    pub(in crate::shard) waiters: WaitList,
    pub(in crate::shard) outcome: RefCell<Option<Landed>>,
}

/// The pieces of a read, or why there are none.
pub(in crate::shard) type Landed = Result<Vec<Rc<Piece>>, Rc<StoreError>>;

pub(in crate::shard) struct Piece {
    /// All pieces of a read share their memory, and what was reserved for it.
    pub(in crate::shard) bytes: Buffer,
    /// Read ahead, and asked for by nobody yet.
    pub(in crate::shard) is_unread: Cell<bool>,
}

pub(in crate::shard) enum Taken {
    Ready(Rc<Piece>),
    Loading(Rc<Flight>),
}

impl Pieces {
    pub(in crate::shard) fn of(&mut self, is_index: bool) -> &mut LruCache<Key, Slot, RandomState> {
        if is_index { &mut self.indexes } else { &mut self.logs }
    }

    pub(in crate::shard) fn known(&self, is_index: bool) -> &LruCache<Key, Slot, RandomState> {
        if is_index { &self.indexes } else { &self.logs }
    }

    pub(in crate::shard) fn remove(&mut self, is_index: bool, key: Key) {
        if let Some(Slot::Ready(piece)) = self.of(is_index).pop(&key)
            && is_index
        {
            self.index_bytes -= piece.bytes.len();
        }
    }

    /// Those that nobody uses, the longest unused first.
    pub(in crate::shard) fn idle(&mut self, is_index: bool) -> Vec<Key> {
        let slots = self.of(is_index).iter().rev();
        slots
            .filter(|(_, slot)| matches!(slot, Slot::Ready(piece) if Rc::strong_count(piece) == 1))
            .map(|(key, _)| *key)
            .collect()
    }
}

impl Flight {
    /// Waits until the read has come to its end. Its pieces stay while anyone waits here.
    pub(in crate::shard) async fn landed(&self, io: &Io, number: u64) -> Result<Rc<Piece>, Rc<StoreError>> {
        let at = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        poll_fn(|_| match &*self.outcome.borrow() {
            Some(Ok(pieces)) => Poll::Ready(Ok(pieces.get(at).expect("of this read").clone())),
            Some(Err(error)) => Poll::Ready(Err(error.clone())),
            None => {
                self.waiters.wait(io.current_task());
                Poll::Pending
            }
        })
        .await
    }
}
