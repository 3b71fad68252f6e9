//! What groups cost: heartbeats, commits, a large rebalance, the first use of a server, the replay of a coordinator.
//!
//! `cargo bench --bench groups [-- first-use|commits|rebalance|heartbeats|echo|replay ...]` starts a server of one core with `--durability segment` and prints a line for each figure.
//! CPU is the server process's (`/proc/PID/stat`), so a client that is slow does not count; latencies are a client's, from
//! the moment at which the request was due. Wrong where neighbours take the CPUs: then the CPU columns and the median hold.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures from outside of the server")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use alluvium::cli::connection::read_response_header;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::messages::find_coordinator_request::FindCoordinatorRequest;
use alluvium::wire::messages::find_coordinator_response::FindCoordinatorResponse;
use alluvium::wire::messages::heartbeat_request::HeartbeatRequest;
use alluvium::wire::messages::heartbeat_response::HeartbeatResponse;
use alluvium::wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use alluvium::wire::messages::join_group_response::JoinGroupResponse;
use alluvium::wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use alluvium::wire::messages::offset_commit_response::OffsetCommitResponse;
use alluvium::wire::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use alluvium::wire::messages::sync_group_response::SyncGroupResponse;
use alluvium::wire::reader::Reader;
use hdrhistogram::Histogram;
use support::client::Client;
use support::process::{Server, ServerPlan};

#[path = "../tests/support/mod.rs"]
mod support;

/// Measures, and prints a line.
type Figure = fn(&Server);

/// A member of a group, after its join.
#[derive(Clone, Debug)]
struct Member {
    id: String,
    generation: i32,
    is_leader: bool,
}

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|word| word == name);
    if wanted("first-use") {
        first_use();
    }
    let figures: [(&str, Figure); 3] = [("commits", commits), ("rebalance", rebalance), ("heartbeats", heartbeats)];
    if figures.iter().any(|(name, _)| wanted(name)) {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let server = start(folder.path(), 100);
        leave_first_processor();
        client(&server).create_topic("t", 1000, &[]).expect("it is new");
        wait_for_coordinator(&server);
        figures.iter().filter(|(name, _)| wanted(name)).for_each(|(_, figure)| figure(&server));
    }
    if wanted("echo") {
        echo();
    }
    if wanted("replay") {
        replay();
    }
}

fn start(folder: &std::path::Path, initial_delay_ms: u32) -> Server {
    let mut plan = ServerPlan::new(&folder.join("data"));
    plan.cores = "1".to_owned();
    plan.flags(&format!("--durability segment --set group.initial.rebalance.delay.ms={initial_delay_ms}")).start()
}

/// The server's core is pinned to the first processor: the clients leave that alone, where there is another.
fn leave_first_processor() {
    if let Some(last) = core_affinity::get_core_ids().and_then(|ids| ids.last().copied()) {
        core_affinity::set_for_current(last);
    }
}

fn client(server: &Server) -> Client {
    Client::connect(server.address(0)).expect("the server listens")
}

/// From the first word to an empty server until a member has its assignment, with no initial delay.
fn first_use() {
    let mut took_ms: Vec<f64> = (0..5)
        .map(|_| {
            let folder = tempfile::tempdir().expect("a scratch folder");
            let server = start(folder.path(), 0);
            client(&server).create_topic("t", 8, &[]).expect("it is new");
            let began = Instant::now();
            wait_for_coordinator(&server);
            let mut connection = client(&server);
            send_join(&mut connection, "first", &[0; 16]);
            let (member, members) = receive_joined(&mut connection);
            let sent = send_sync(&mut connection, "first", &member, &members, 32);
            receive_synced(&mut connection, sent);
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    took_ms.sort_by(f64::total_cmp);
    println!(
        "first use of an empty server to the first assignment: median {:.0} ms, worst {:.0} ms",
        took_ms[2], took_ms[4]
    );
}

/// 100,000 committed offsets in one coordinator, read back after a kill.
fn replay() {
    const GROUPS: i64 = 1000;
    const PARTITIONS: i32 = 100;
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut plan = ServerPlan::new(&folder.path().join("data"));
    plan.cores = "1".to_owned();
    let plan = plan.flags("--durability segment --set offsets.topic.num.partitions=1");
    let server = plan.start();
    let mut connection = client(&server);
    connection.create_topic("t", PARTITIONS, &[]).expect("it is new");
    wait_for_coordinator(&server);
    for number in 0..GROUPS {
        send_commit(&mut connection, &format!("replayed-{number}"), 0..PARTITIONS, number);
        receive_committed(&mut connection);
    }
    server.kill();
    let server = plan.start();
    let took_ms = support::wait::until("the coordinator", Duration::from_secs(60), || {
        let log = server.log();
        let line =
            log.lines().find(|line| line.contains("coordinator loaded") && line.contains("__consumer_offsets"))?;
        assert!(line.contains(&format!("records={}", GROUPS * i64::from(PARTITIONS))), "{line}");
        let field = line.split("elapsed_ms=").nth(1)?;
        field.split(|byte: char| !byte.is_ascii_digit()).next()?.parse::<u64>().ok()
    });
    println!("replay of 100,000 committed offsets: {took_ms} ms");
}

/// 10,000 commits a second, one partition each, over 1,000 groups and ten connections.
fn commits(server: &Server) {
    const CONNECTIONS: u64 = 10;
    const RATE: u64 = 10_000;
    const SECONDS: u64 = 10;
    let (cpu, began) = (cpu_seconds(server), Instant::now());
    let interval = Duration::from_nanos(1_000_000_000 * CONNECTIONS / RATE);
    let count = u32::try_from(RATE * SECONDS / CONNECTIONS).expect("few");
    let receivers: Vec<_> = (0..CONNECTIONS)
        .map(|worker| {
            let mut sender = client(server);
            let mut receiver = Client::over(sender.stream.try_clone().expect("a descriptor")).expect("a socket");
            let began = Instant::now();
            thread::spawn(move || {
                for number in 0..count {
                    if let Some(left) = (interval * number).checked_sub(began.elapsed()) {
                        thread::sleep(left);
                    }
                    let group = format!("commit-{}", (u64::from(number) * CONNECTIONS + worker) % 1000);
                    send_commit(&mut sender, &group, 0..1, number.into());
                }
            });
            thread::spawn(move || {
                let mut latencies = Histogram::<u64>::new(3).expect("three digits");
                for number in 0..count {
                    receive_committed(&mut receiver);
                    let late = began.elapsed().saturating_sub(interval * number);
                    latencies.record(u64::try_from(late.as_micros()).unwrap_or(u64::MAX)).expect("it fits");
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Histogram::<u64>::new(3).expect("three digits");
    for receiver in receivers {
        latencies.add(receiver.join().expect("no panic")).expect("the same digits");
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds(server) - cpu);
    println!(
        "commits: {:.0}/s, {:.1} us of CPU each, p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms",
        latencies.len() as f64 / wall,
        cpu / latencies.len() as f64 * 1e6,
        latencies.value_at_quantile(0.5) as f64 / 1e3,
        latencies.value_at_quantile(0.99) as f64 / 1e3,
        latencies.value_at_quantile(0.999) as f64 / 1e3,
    );
}

/// 100 members on 1,000 partitions, from the first join to the last assignment.
fn rebalance(server: &Server) {
    const MEMBERS: usize = 100;
    const PARTITIONS: usize = 1000;
    let mut connections: Vec<Client> = (0..MEMBERS).map(|_| client(server)).collect();
    let (cpu, began) = (cpu_seconds(server), Instant::now());
    let members = join_all(&mut connections, "large", MEMBERS);
    let sent: Vec<i32> = connections
        .iter_mut()
        .zip(&members)
        .map(|(connection, (member, all))| send_sync(connection, "large", member, all, 8 + 4 * PARTITIONS / MEMBERS))
        .collect();
    for (connection, sent) in connections.iter_mut().zip(sent) {
        receive_synced(connection, sent);
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds(server) - cpu);
    println!(
        "rebalance of {MEMBERS} members on {PARTITIONS} partitions: {:.0} ms beside the delay of 100 ms, {:.0} ms of CPU",
        wall * 1e3 - 100.0,
        cpu * 1e3
    );
}

/// 1,000 groups of three members, each with a heartbeat every three seconds.
fn heartbeats(server: &Server) {
    const GROUPS: usize = 1000;
    const SECONDS: u32 = 30;
    let mut connections: Vec<Client> = (0..3).map(|_| client(server)).collect();
    let mut members = Vec::new();
    // A connection has at most so many requests under way.
    for at in (0..GROUPS).step_by(DEPTH) {
        let names: Vec<String> = (at..GROUPS.min(at + DEPTH)).map(|group| format!("beat-{group}")).collect();
        for connection in &mut connections {
            names.iter().for_each(|name| send_join(connection, name, &[0; 64]));
        }
        let joined: Vec<Vec<_>> = connections
            .iter_mut()
            .map(|connection| names.iter().map(|_| receive_joined(connection)).collect())
            .collect();
        // The leaders first: the others wait for what they say.
        for leads in [true, false] {
            for (connection, joined) in connections.iter_mut().zip(&joined) {
                let mut sent = Vec::new();
                for (name, (member, all)) in
                    names.iter().zip(joined).filter(|(_, (member, _))| member.is_leader == leads)
                {
                    sent.push(send_sync(connection, name, member, all, 64));
                }
                sent.into_iter().for_each(|sent| receive_synced(connection, sent));
            }
        }
        for (index, joined) in joined.into_iter().enumerate() {
            members.extend(names.iter().cloned().zip(joined).map(|(name, (member, _))| (index, name, member)));
        }
    }
    let (cpu, began) = (cpu_seconds(server), Instant::now());
    let interval = Duration::from_secs(3) / u32::try_from(members.len()).expect("few");
    let mut beats = 0_u32;
    while began.elapsed() < Duration::from_secs(SECONDS.into()) {
        for (index, group, member) in &members {
            if let Some(left) = (interval * beats).checked_sub(began.elapsed()) {
                thread::sleep(left);
            }
            beat(&mut connections[*index], group, member);
            beats += 1;
        }
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds(server) - cpu);
    println!(
        "heartbeats: {} members, {:.0}/s, {:.2} % of a core, {:.0} us of CPU each",
        members.len(),
        f64::from(beats) / wall,
        cpu / wall * 100.0,
        cpu / f64::from(beats) * 1e6
    );
}

/// What the machine asks for as many answers of the same length, from a thread on the same processor that does nothing else: a
/// blocking read and a blocking write each. What heartbeats cost beyond that is the server's.
fn echo() {
    const BEATS: u32 = 10_000;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a bound socket");
    let answers = thread::spawn(move || {
        if let Some(first) = core_affinity::get_core_ids().and_then(|ids| ids.first().copied()) {
            core_affinity::set_for_current(first);
        }
        let (mut stream, _) = listener.accept().expect("the client comes");
        stream.set_nodelay(true).expect("a socket");
        let mut request = [0; BEAT_REQUEST_BYTES];
        for _ in 0..BEATS {
            stream.read_exact(&mut request).expect("the client asks");
            stream.write_all(&request[..BEAT_RESPONSE_BYTES]).expect("the client reads");
        }
        ticks_of("/proc/thread-self/stat") / TICKS_PER_SECOND
    });
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let began = Instant::now();
    for beat in 0..BEATS {
        if let Some(left) = (Duration::from_millis(1) * beat).checked_sub(began.elapsed()) {
            thread::sleep(left);
        }
        stream.write_all(&[0; BEAT_REQUEST_BYTES]).expect("it reads");
        stream.read_exact(&mut [0; BEAT_RESPONSE_BYTES]).expect("it answers");
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), answers.join().expect("no panic"));
    println!(
        "bare echo of the same bytes: {:.0}/s, {:.2} % of a core, {:.0} us of CPU each",
        f64::from(BEATS) / wall,
        cpu / wall * 100.0,
        cpu / f64::from(BEATS) * 1e6
    );
}

fn wait_for_coordinator(server: &Server) {
    let mut connection = client(server);
    support::wait::until("the coordinator", Duration::from_secs(30), || {
        let request = FindCoordinatorRequest { key: "first", ..FindCoordinatorRequest::default() };
        let code = connection.call(
            ApiKey::FindCoordinator,
            3,
            |out| request.encode(out, 3),
            |reader| Ok(FindCoordinatorResponse::decode(reader, 3)?.error_code),
        );
        (code.expect("it answers") == 0).then_some(())
    });
}

/// Joins of all members of one group, in flight together.
fn join_all(connections: &mut [Client], group: &str, count: usize) -> Vec<(Member, Vec<String>)> {
    connections.iter_mut().take(count).for_each(|connection| send_join(connection, group, &[0; 64]));
    connections.iter_mut().take(count).map(receive_joined).collect()
}

fn send_join(connection: &mut Client, group: &str, metadata: &[u8]) {
    let request = JoinGroupRequest {
        group_id: group,
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer",
        protocols: vec![JoinGroupRequestProtocol { name: "range", metadata }],
        ..JoinGroupRequest::default()
    };
    connection.send(ApiKey::JoinGroup, JOIN_VERSION, |out| request.encode(out, JOIN_VERSION)).expect("it is sent");
}

/// A member, and at the leader the ids of all.
fn receive_joined(connection: &mut Client) -> (Member, Vec<String>) {
    let frame = connection.receive().expect("a join is answered");
    let mut reader = Reader::new(&frame);
    read_response_header(&mut reader, ApiKey::JoinGroup, JOIN_VERSION).expect("a header");
    let response = JoinGroupResponse::decode(&mut reader, JOIN_VERSION).expect("a body");
    assert_eq!(response.error_code, 0, "the join is taken");
    let member = Member {
        id: response.member_id.to_owned(),
        generation: response.generation_id,
        is_leader: response.member_id == response.leader,
    };
    (member, response.members.iter().map(|member| member.member_id.to_owned()).collect())
}

fn send_sync(connection: &mut Client, group: &str, member: &Member, all: &[String], bytes: usize) -> i32 {
    let assignment = vec![0; bytes];
    let assignments = all
        .iter()
        .filter(|_| member.is_leader)
        .map(|id| SyncGroupRequestAssignment { member_id: id, assignment: &assignment })
        .collect();
    let request = SyncGroupRequest {
        group_id: group,
        generation_id: member.generation,
        member_id: &member.id,
        assignments,
        ..SyncGroupRequest::default()
    };
    connection.send(ApiKey::SyncGroup, SYNC_VERSION, |out| request.encode(out, SYNC_VERSION)).expect("it is sent")
}

fn receive_synced(connection: &mut Client, sent: i32) {
    let frame = connection.receive().expect("a sync is answered");
    let mut reader = Reader::new(&frame);
    assert_eq!(read_response_header(&mut reader, ApiKey::SyncGroup, SYNC_VERSION).expect("a header"), sent);
    let response = SyncGroupResponse::decode(&mut reader, SYNC_VERSION).expect("a body");
    assert_eq!(response.error_code, 0, "the sync is taken");
}

fn beat(connection: &mut Client, group: &str, member: &Member) {
    let request = HeartbeatRequest {
        group_id: group,
        generation_id: member.generation,
        member_id: &member.id,
        ..HeartbeatRequest::default()
    };
    let code = connection.call(
        ApiKey::Heartbeat,
        3,
        |out| request.encode(out, 3),
        |reader| Ok(HeartbeatResponse::decode(reader, 3)?.error_code),
    );
    assert_eq!(code.expect("it answers"), 0, "a member of {group}");
}

fn send_commit(connection: &mut Client, group: &str, partitions: std::ops::Range<i32>, offset: i64) {
    let partition = |index| OffsetCommitRequestPartition {
        partition_index: index,
        committed_offset: offset,
        ..OffsetCommitRequestPartition::default()
    };
    let partitions = partitions.map(partition).collect();
    let request = OffsetCommitRequest {
        group_id: group,
        topics: vec![OffsetCommitRequestTopic { name: "t", partitions, ..OffsetCommitRequestTopic::default() }],
        ..OffsetCommitRequest::default()
    };
    connection
        .send(ApiKey::OffsetCommit, COMMIT_VERSION, |out| request.encode(out, COMMIT_VERSION))
        .expect("it is sent");
}

fn receive_committed(connection: &mut Client) {
    let frame = connection.receive().expect("a commit is answered");
    let mut reader = Reader::new(&frame);
    read_response_header(&mut reader, ApiKey::OffsetCommit, COMMIT_VERSION).expect("a header");
    let response = OffsetCommitResponse::decode(&mut reader, COMMIT_VERSION).expect("a body");
    assert_eq!(response.topics[0].partitions[0].error_code, 0, "the commit is taken");
}

/// User and system time of the server.
fn cpu_seconds(server: &Server) -> f64 {
    ticks_of(&format!("/proc/{}/stat", server.pid)) / TICKS_PER_SECOND
}

fn ticks_of(stat: &str) -> f64 {
    let stat = fs::read_to_string(stat).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    ticks(11) + ticks(12)
}

/// The last one in which a member needs no id before it joins.
const JOIN_VERSION: i16 = 3;
const SYNC_VERSION: i16 = 3;
const COMMIT_VERSION: i16 = 7;
/// Requests of one connection that are under way.
const DEPTH: usize = 50;
/// A heartbeat with its length and header, and its answer.
const BEAT_REQUEST_BYTES: usize = 90;
const BEAT_RESPONSE_BYTES: usize = 14;
/// `USER_HZ` of Linux on all that we run on.
const TICKS_PER_SECOND: f64 = 100.0;
