//! One member of a classic group.

use std::rc::Rc;

use crate::group::request::Protocol;
use crate::record::coordination::Ticket;

/// A member of a classic group.
#[derive(Clone, Debug)]
pub struct ClassicMember {
    /// Its id.
    pub member_id: Rc<str>,
    /// Set for a static member.
    pub instance_id: Option<Rc<str>>,
    /// What it calls itself.
    pub client_id: String,
    /// Where it is.
    pub client_host: String,
    /// Silent for longer, it is out.
    pub session_timeout_ms: u32,
    /// It has this long to join again in a rebalance.
    pub rebalance_timeout_ms: u32,
    /// What it can do, the preferred first.
    pub protocols: Vec<Protocol>,
    /// What it was given in this generation.
    pub assignment: Vec<u8>,
    /// It has not been in a generation yet: it may be let go although its JoinGroup waits.
    pub is_new: bool,
    /// Its JoinGroup that waits.
    pub awaiting_join: Option<Ticket>,
    /// Its SyncGroup that waits.
    pub awaiting_sync: Option<Ticket>,
}

impl ClassicMember {
    /// What it says in a protocol.
    pub fn metadata(&self, protocol: &str) -> &[u8] {
        self.protocols.iter().find(|offered| offered.name == protocol).map_or(&[], |offered| &offered.metadata)
    }

    /// True where it speaks the protocol.
    pub fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|offered| offered.name == protocol)
    }

    /// The first of its protocols that is a candidate.
    pub fn vote(&self, is_candidate: impl Fn(&str) -> bool) -> Option<&str> {
        self.protocols.iter().map(|offered| offered.name.as_str()).find(|name| is_candidate(name))
    }

    /// True where it waits for the others, and so need not be heard of.
    pub fn is_excused(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }

    /// How long it may be silent now.
    pub fn patience_ms(&self) -> u64 {
        if self.is_new { NEW_MEMBER_JOIN_MS_MAX } else { u64::from(self.session_timeout_ms) }
    }

    /// True for a static member.
    pub fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }
}

/// A client whose first JoinGroup waits for longer has given up, in Kafka's opinion.
const NEW_MEMBER_JOIN_MS_MAX: u64 = 5 * 60 * 1000;
