//! The broker's code in a world that fails, from seeds, judged by an oracle.
//!
//! ```text
//! seeds.rs    which seeds to run: all of a range, or the one that failed
//! broker.rs   the tests: the real broker's seeds, and wrong brokers that have to be found out
//! scenario.rs one seed: lives of the server and how they end, and the judgement at the end
//! server.rs   the real server on a simulated machine: boot, crash, stop
//! workload.rs its clients: topics made and deleted, readers, the check of all that is there
//! producer.rs a producer as Kafka's clients are: batches in flight, retries in order, idempotent or not
//! client.rs   a connection that speaks Kafka's protocol
//! ledger.rs   what all clients were promised and saw
//! oracle.rs   what was promised of records, and whether it was kept: knows no server and no simulator
//! coordinators.rs connections to coordinators, and what a group has committed
//! member.rs    a member of a group: what it was told is committed stays
//! transactor.rs a transactional producer, and what read_committed sees of it
//! transaction_offsets.rs the offsets that it commits for a group
//! membership_model.rs what a classic group must come to
//! membership_rules.rs who is in it, who must join again, and by when
//! membership_walk.rs random requests to its coordinator, whose answers are what the model says
//! transaction_model.rs what transactions must come to, as a table
//! transaction_walk.rs random requests to both coordinators, whose answers are what the model says
//! compaction.rs a compacted topic, whose segments are replaced while it crashes
//! directories.rs several data directories, of which one fails
//! remote_reads.rs a tier that is elsewhere, slow or failing: what waits for it, and what does not
//! restored.rs a server whose disk is lost comes back from a tier that fails meanwhile
//! time_lookups.rs how often a cold lookup by time reads, and that it is right, after stops and crashes
//! full_indexes.rs a disk that has no room for indexes for a while
//! tiered_aborts.rs aborted transactions whose records the tier alone has
//! deletion.rs what deleted segments leave behind
//! canary.rs   a tiny store, right and wrong, to show that the oracle can fail
//! ```
//!
//! `scripts/simulate SEED` runs one seed again.

mod broker;
mod canary;
mod client;
mod compaction;
mod coordinators;
mod deletion;
mod directories;
mod ending;
mod full_indexes;
mod ledger;
mod member;
mod membership_model;
mod membership_rules;
mod membership_walk;
mod oracle;
mod producer;
mod remote_reads;
mod restored;
mod scenario;
mod seeds;
mod server;
mod tiered_aborts;
mod time_lookups;
mod transaction_model;
mod transaction_offsets;
mod transaction_walk;
mod transactor;
mod workload;
