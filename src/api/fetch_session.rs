//! Incremental fetch sessions of one core (KIP-227): what a client asked for last time, so it need not say it again.
//!
//! Pure: time and randomness come in. A session id carries the core that has it, in its lowest bits.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::wire::error_code::ErrorCode;
use crate::wire::uuid::Uuid;

/// How a client names a topic: by name up to version 12, by id from 13.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopicKey {
    /// By name.
    Name(Rc<str>),
    /// By id.
    Id(Uuid),
}

/// One partition that a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPartition {
    /// Its topic.
    pub topic: TopicKey,
    /// Its index.
    pub partition: i32,
    /// What the client takes the leader's epoch to be, or -1.
    pub current_leader_epoch: i32,
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// Epoch of the last record that the client has, or -1.
    pub last_fetched_epoch: i32,
    /// Bytes of records wanted at most.
    pub bytes_max: i32,
}

/// What a client was told of a partition last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    high_watermark: i64,
    log_start: i64,
}

impl Told {
    /// Never told anything: the next reply has the partition in any case.
    const NOTHING: Self = Self { high_watermark: -1, log_start: -1 };
}

/// What is said of a partition in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Its error.
    pub error: ErrorCode,
    /// Its high watermark, -1 where there is an error.
    pub high_watermark: i64,
    /// Its log start offset, -1 where there is an error.
    pub log_start: i64,
    /// Bytes of records.
    pub records_bytes: u64,
    /// The client's log diverges.
    pub diverges: bool,
}

/// How a request stands to the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// No session: the request says all it wants, and the reply tells all.
    Sessionless,
    /// The request says all it wants; the reply tells all, and a session with this id keeps it.
    Opened(i32),
    /// The reply tells what has changed in this session.
    Incremental(i32),
}

impl SessionKind {
    /// The session id of the reply.
    pub fn reply_id(self) -> i32 {
        match self {
            Self::Sessionless => 0,
            Self::Opened(id) | Self::Incremental(id) => id,
        }
    }
}

/// The session fields of a request, with what it wants.
pub struct SessionRequest {
    /// Session id, 0 for none.
    pub id: i32,
    /// Epoch in the session: 0 opens one, -1 closes it.
    pub epoch: i32,
    /// Topics are named by id.
    pub by_topic_id: bool,
    /// What is wanted, new or changed.
    pub wanted: Vec<WantedPartition>,
    /// What is wanted no longer.
    pub forgotten: Vec<(TopicKey, i32)>,
}

/// The sessions of one core, at most `sessions_max`.
pub struct FetchSessions {
    core: u32,
    sessions_max: usize,
    sessions: HashMap<i32, Session, ahash::RandomState>,
}

struct Session {
    epoch: i32,
    by_topic_id: bool,
    used_ms: u64,
    next_place: u64,
    /// In the order they are served; who got records goes to the end, so that all have their turn.
    partitions: BTreeMap<u64, (WantedPartition, Told)>,
    places: HashMap<(TopicKey, i32), u64, ahash::RandomState>,
}

impl FetchSessions {
    /// No sessions yet.
    pub fn new(core: u32, sessions_max: usize) -> Self {
        Self { core, sessions_max, sessions: HashMap::with_hasher(fixed_hasher()) }
    }

    /// Sessions open.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// True where none is open.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Takes a request up: what it stands for, and all partitions to look at, in order.
    ///
    /// # Errors
    /// The whole request is answered with this error.
    pub fn begin(
        &mut self,
        request: SessionRequest,
        now_ms: u64,
        random: u64,
    ) -> Result<(SessionKind, Vec<WantedPartition>), ErrorCode> {
        if request.epoch == FINAL_EPOCH || request.epoch == INITIAL_EPOCH {
            if request.id != 0 {
                self.sessions.remove(&request.id);
            }
            if request.epoch == FINAL_EPOCH {
                return Ok((SessionKind::Sessionless, request.wanted));
            }
            let kind = match self.open(&request, now_ms, random) {
                Some(id) => SessionKind::Opened(id),
                None => SessionKind::Sessionless,
            };
            return Ok((kind, request.wanted));
        }
        let session = self.sessions.get_mut(&request.id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != request.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_topic_id != request.by_topic_id {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        for wanted in request.wanted {
            session.want(wanted);
        }
        for key in request.forgotten {
            session.forget(&key);
        }
        session.used_ms = now_ms;
        session.epoch = next_epoch(session.epoch);
        if session.partitions.is_empty() {
            self.sessions.remove(&request.id);
            return Ok((SessionKind::Sessionless, Vec::new()));
        }
        let wanted = session.partitions.values().map(|(wanted, _)| wanted.clone()).collect();
        Ok((SessionKind::Incremental(request.id), wanted))
    }

    /// True where the reply has to name the partition. Remembers what it is told, and sends who got records to the end.
    pub fn tell(&mut self, kind: SessionKind, topic: &TopicKey, partition: i32, telling: Telling) -> bool {
        let (SessionKind::Opened(id) | SessionKind::Incremental(id)) = kind else { return true };
        let full = matches!(kind, SessionKind::Opened(_));
        // A session may have been evicted while the request waited: then all is told.
        let Some(session) = self.sessions.get_mut(&id) else { return true };
        let key = (topic.clone(), partition);
        let Some(place) = session.places.get(&key).copied() else { return true };
        let Some((_, told)) = session.partitions.get_mut(&place) else { return true };
        let now = Told { high_watermark: telling.high_watermark, log_start: telling.log_start };
        let changed = *told != now || telling.records_bytes > 0 || telling.error != ErrorCode::None || telling.diverges;
        // After an error the next reply has it again, so that the client learns that it is over.
        *told = if telling.error == ErrorCode::None { now } else { Told::NOTHING };
        // A new session begins in the order of its first reply.
        if (full || telling.records_bytes > 0)
            && let Some(entry) = session.partitions.remove(&place)
        {
            session.next_place += 1;
            session.partitions.insert(session.next_place, entry);
            session.places.insert(key, session.next_place);
        }
        full || changed
    }

    fn open(&mut self, request: &SessionRequest, now_ms: u64, random: u64) -> Option<i32> {
        if self.sessions.len() >= self.sessions_max && !self.evict(request.wanted.len(), now_ms) {
            return None;
        }
        let mut session = Session {
            epoch: next_epoch(INITIAL_EPOCH),
            by_topic_id: request.by_topic_id,
            used_ms: now_ms,
            next_place: 0,
            partitions: BTreeMap::new(),
            places: HashMap::with_hasher(fixed_hasher()),
        };
        for wanted in &request.wanted {
            session.want(wanted.clone());
        }
        let mut id = session_id(random, self.core);
        while id == 0 || self.sessions.contains_key(&id) {
            id = session_id(
                random.wrapping_add(id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) | 1,
                self.core,
            );
        }
        self.sessions.insert(id, session);
        Some(id)
    }

    /// Makes room as Kafka does: a session unused for two minutes goes, else a smaller one for a larger.
    fn evict(&mut self, wanted_count: usize, now_ms: u64) -> bool {
        let oldest = self.sessions.iter().min_by_key(|(id, session)| (session.used_ms, **id));
        let smallest = self.sessions.iter().min_by_key(|(id, session)| (session.partitions.len(), **id));
        let gone = match (oldest, smallest) {
            (Some((id, session)), _) if now_ms.saturating_sub(session.used_ms) > EVICTION_MS => *id,
            (_, Some((id, session))) if session.partitions.len() < wanted_count => *id,
            _ => return false,
        };
        self.sessions.remove(&gone);
        true
    }
}

impl Session {
    fn want(&mut self, wanted: WantedPartition) {
        let key = (wanted.topic.clone(), wanted.partition);
        if let Some(place) = self.places.get(&key)
            && let Some((known, _)) = self.partitions.get_mut(place)
        {
            *known = wanted;
            return;
        }
        self.next_place += 1;
        self.places.insert(key, self.next_place);
        self.partitions.insert(self.next_place, (wanted, Told::NOTHING));
    }

    fn forget(&mut self, key: &(TopicKey, i32)) {
        if let Some(place) = self.places.remove(key) {
            self.partitions.remove(&place);
        }
    }
}

/// Keys are not chosen to collide by anyone who could gain by it: a session is its own client's.
fn fixed_hasher() -> ahash::RandomState {
    ahash::RandomState::with_seeds(1, 2, 3, 4)
}

fn session_id(random: u64, core: u32) -> i32 {
    let high = (random as u32) & 0x7fff_ff00;
    (high | (core & 0xff)) as i32
}

fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

const INITIAL_EPOCH: i32 = 0;
const FINAL_EPOCH: i32 = -1;
/// Kafka's min.incremental.fetch.session.eviction.ms, which it does not let anyone set.
const EVICTION_MS: u64 = 120_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(partition: i32, fetch_offset: i64) -> WantedPartition {
        WantedPartition {
            topic: TopicKey::Name(Rc::from("t")),
            partition,
            current_leader_epoch: -1,
            fetch_offset,
            last_fetched_epoch: -1,
            bytes_max: 1024,
        }
    }

    fn request(id: i32, epoch: i32, wanted: Vec<WantedPartition>) -> SessionRequest {
        SessionRequest { id, epoch, by_topic_id: false, wanted, forgotten: Vec::new() }
    }

    fn telling(high_watermark: i64, records_bytes: u64) -> Telling {
        Telling { error: ErrorCode::None, high_watermark, log_start: 0, records_bytes, diverges: false }
    }

    fn opened(sessions: &mut FetchSessions, partitions: i32) -> i32 {
        let all = (0..partitions).map(|partition| wanted(partition, 0)).collect();
        let (kind, _) = sessions.begin(request(0, 0, all), 0, 77 << 8).expect("opens");
        let SessionKind::Opened(id) = kind else { panic!("not opened: {kind:?}") };
        id
    }

    #[test]
    fn tells_only_what_changed() {
        let mut sessions = FetchSessions::new(1, 10);
        let id = opened(&mut sessions, 2);
        assert_eq!(id & 0xff, 1, "the id carries the core");
        let topic = TopicKey::Name(Rc::from("t"));
        for partition in 0..2 {
            assert!(sessions.tell(SessionKind::Opened(id), &topic, partition, telling(5, 0)));
        }
        let (kind, all) = sessions.begin(request(id, 1, vec![wanted(1, 5)]), 1, 0).expect("goes on");
        assert_eq!(kind, SessionKind::Incremental(id));
        assert_eq!(all.iter().map(|w| (w.partition, w.fetch_offset)).collect::<Vec<_>>(), [(0, 0), (1, 5)]);
        assert!(!sessions.tell(kind, &topic, 0, telling(5, 0)), "nothing new");
        assert!(sessions.tell(kind, &topic, 1, telling(6, 0)), "the high watermark moved");
        let error = Telling { error: ErrorCode::NotLeaderOrFollower, ..telling(-1, 0) };
        assert!(sessions.tell(kind, &topic, 1, error));
        assert!(sessions.tell(kind, &topic, 1, telling(6, 0)), "the error is over");
    }

    #[test]
    fn who_got_records_goes_to_the_end() {
        let mut sessions = FetchSessions::new(0, 10);
        let id = opened(&mut sessions, 3);
        let topic = TopicKey::Name(Rc::from("t"));
        for partition in [2, 0, 1] {
            sessions.tell(SessionKind::Opened(id), &topic, partition, telling(5, 100));
        }
        let (kind, all) = sessions.begin(request(id, 1, vec![]), 1, 0).expect("goes on");
        assert_eq!(all.iter().map(|w| w.partition).collect::<Vec<_>>(), [2, 0, 1], "as in the first reply");
        sessions.tell(kind, &topic, 2, telling(5, 100));
        let (_, all) = sessions.begin(request(id, 2, vec![]), 1, 0).expect("goes on");
        assert_eq!(all.iter().map(|w| w.partition).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn wrong_ids_epochs_and_namings_are_refused() {
        let mut sessions = FetchSessions::new(0, 10);
        let id = opened(&mut sessions, 1);
        assert_eq!(sessions.begin(request(id + 256, 1, vec![]), 0, 0).err(), Some(ErrorCode::FetchSessionIdNotFound));
        assert_eq!(sessions.begin(request(id, 2, vec![]), 0, 0).err(), Some(ErrorCode::InvalidFetchSessionEpoch));
        let by_id = SessionRequest { by_topic_id: true, ..request(id, 1, vec![]) };
        assert_eq!(sessions.begin(by_id, 0, 0).err(), Some(ErrorCode::FetchSessionTopicIdError));
        let forget_all =
            SessionRequest { forgotten: vec![(TopicKey::Name(Rc::from("t")), 0)], ..request(id, 1, vec![]) };
        assert_eq!(sessions.begin(forget_all, 0, 0).expect("empty"), (SessionKind::Sessionless, vec![]));
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_full_cache_evicts_the_old_and_the_smaller() {
        let mut sessions = FetchSessions::new(0, 2);
        let first = opened(&mut sessions, 1);
        let second = opened(&mut sessions, 3);
        assert_ne!(first, second);
        let all = |count: i32| (0..count).map(|partition| wanted(partition, 0)).collect::<Vec<_>>();
        let (kind, _) = sessions.begin(request(0, 0, all(1)), 10, 99 << 8).expect("served");
        assert_eq!(kind, SessionKind::Sessionless, "nobody is smaller, nobody is old");
        let (kind, _) = sessions.begin(request(0, 0, all(2)), 10, 99 << 8).expect("served");
        assert!(matches!(kind, SessionKind::Opened(_)), "the session of one partition goes");
        assert_eq!(sessions.begin(request(first, 1, vec![]), 0, 0).err(), Some(ErrorCode::FetchSessionIdNotFound));
        let (kind, _) = sessions.begin(request(0, 0, all(1)), EVICTION_MS + 11, 98 << 8).expect("served");
        assert!(matches!(kind, SessionKind::Opened(_)), "the others are old");
        assert_eq!(sessions.len(), 2);
    }
}
