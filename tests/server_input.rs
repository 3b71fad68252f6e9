//! Bad and hostile input: that connection closes with one line in the log, and nobody else notices.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "clients with sockets of their own")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use alluvium::cli::connection::encode_request;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::messages::api_versions_request::ApiVersionsRequest;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use support::client::{Client, batch, produce_request};
use support::process::{Server, ServerPlan};
use support::random::{self, Random};
use support::wait;

fn start(flags: &str) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let server = ServerPlan::new(folder.path()).flags(flags).start();
    (folder, server)
}

/// Sends bytes, and waits for the server to close.
fn send_and_wait_for_close(address: SocketAddr, bytes: &[u8], close_our_side: bool) -> SocketAddr {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let own = stream.local_addr().expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    // The server may close before it has it all.
    let _ = stream.write_all(bytes);
    if close_our_side {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{:?}: the server did not close: {error}", &bytes[..bytes.len().min(20)]),
    }
    own
}

/// A frame's length before its bytes.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat()
}

#[test]
fn what_is_no_request_closes_its_connection_with_one_line() {
    let (_folder, server) = start("");
    let mut others: Vec<Client> = (0..2).map(|core| server.client(core)).collect();
    let mut long_topics = vec![0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff];
    long_topics.extend(i32::MAX.to_be_bytes());
    let cases: [(&str, Vec<u8>, &str); 13] = [
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "this is HTTP"),
        ("TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], "this is TLS"),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "not a frame of Kafka's protocol"),
        ("a length of 0", vec![0; 4], "frame of 0 bytes"),
        ("a length of -1", vec![0xff; 4], "frame of -1 bytes"),
        ("the least length", i32::MIN.to_be_bytes().to_vec(), "not a frame"),
        ("a length over the limit", (104_857_601_i32).to_be_bytes().to_vec(), "socket.request.max.bytes"),
        ("a header cut short", framed(&[0, 3, 0]), ""),
        ("an unknown API", framed(&[0x27, 0x0f, 0, 0, 0, 0, 0, 1, 0xff, 0xff]), ""),
        ("an unknown version", framed(&[0, 3, 0x7f, 0, 0, 0, 0, 1, 0xff, 0xff]), ""),
        ("an array longer than its frame", framed(&long_topics), ""),
        ("a string longer than its frame", framed(&[0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff]), ""),
        ("a Produce without a body", framed(&[0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0]), ""),
    ];
    for (name, bytes, words) in &cases {
        for core in 0..2 {
            let peer = send_and_wait_for_close(server.address(core), bytes, false);
            let mark = format!("peer={peer} ");
            server.wait_for_log(&mark, 1);
            let log = server.log();
            let lines: Vec<&str> = log.lines().filter(|line| line.contains(&mark)).collect();
            assert_eq!(lines.len(), 1, "{name}: one line: {lines:?}");
            assert!(lines[0].contains("connection closed") && lines[0].contains(words), "{name}: {}", lines[0]);
            others[usize::from(core)].ping().unwrap_or_else(|error| panic!("{name}: another connection: {error}"));
        }
    }
    // Closed by the peer in the middle: of a length, of a frame in a receive buffer, of one that holds memory.
    for (name, bytes) in [
        ("inside a length", vec![0, 0]),
        ("inside a frame", [&100_i32.to_be_bytes()[..], &[0; 50]].concat()),
        ("inside a long frame", [&10_000_000_i32.to_be_bytes()[..], &[0; 200_000]].concat()),
    ] {
        let peer = send_and_wait_for_close(server.address(0), &bytes, true);
        let mark = format!("peer={peer} ");
        server.wait_for_log(&mark, 1);
        let log = server.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&mark)).collect();
        assert_eq!(lines.len(), 1, "{name}: one line: {lines:?}");
        assert!(lines[0].contains("inside a frame"), "{name}: {}", lines[0]);
    }
    others.iter_mut().for_each(|other| other.ping().expect("other connections live"));
    server.stop().assert_clean();
}

#[test]
fn random_frames_harm_nobody() {
    let seed = random::seed();
    let mut random = Random::new(seed);
    let (_folder, server) = start("--log error");
    let mut other = server.client(0);
    assert_eq!(other.create_topic("t", 2, &[]).expect("the server answers"), 0);
    let keys: Vec<i16> = (0..70).chain([-1, 1000, i16::MAX]).collect();
    for round in 0..600 {
        let mut stream = TcpStream::connect(server.address(round % 2)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        let mut frame = Vec::new();
        frame.extend(keys[random.below(keys.len() as u64) as usize].to_be_bytes());
        frame.extend((random.below(15) as i16).to_be_bytes());
        frame.extend([0, 0, 0, 1, 0, 1, b'x']);
        for _ in 0..random.below(80) {
            // Mostly small numbers, so that lengths and counts get past the first check.
            frame.push(if random.below(3) == 0 { random.next() as u8 } else { random.below(4) as u8 });
        }
        let _ = stream.write_all(&framed(&frame));
        let _ = stream.shutdown(Shutdown::Write);
        // Answered or not, it ends.
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "SEED={seed} round {round}: {frame:?}");
        }
        if round % 100 == 0 {
            other.ping().unwrap_or_else(|error| panic!("SEED={seed} round {round}: {error}"));
        }
    }
    other.ping().unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
    server.stop().assert_clean();
}

#[test]
fn a_frame_that_does_not_come_is_given_up() {
    let (_folder, server) = start("");
    let mut other = server.client(0);
    let began = Instant::now();
    // Twenty of them, each with memory reserved for 5 MB, and a byte now and then.
    let mut streams: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(server.address(0)).expect("listens")).collect();
    for stream in &mut streams {
        stream.write_all(&5_000_000_i32.to_be_bytes()).expect("a fresh socket");
        stream.write_all(&[0; 10]).expect("a fresh socket");
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
    }
    let limit = Duration::from_secs(30);
    let mut closed = 0;
    for stream in &mut streams {
        loop {
            match stream.read(&mut [0; 16]) {
                Ok(0) => break,
                Ok(_) => panic!("an answer to nothing"),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    assert!(
                        began.elapsed() < limit + Duration::from_secs(20),
                        "still open after {:?}",
                        began.elapsed()
                    );
                    let _ = stream.write_all(&[0]);
                    other.ping().expect("others are served meanwhile");
                }
                Err(_) => break,
            }
        }
        closed += 1;
    }
    assert!(began.elapsed() > limit - Duration::from_secs(2), "{closed} closed after {:?}", began.elapsed());
    server.wait_for_log("was not received whole within", 20);
    other.ping().expect("others live");
    server.stop().assert_clean();
}

#[test]
fn announced_frames_take_no_memory_and_hold_up_no_small_request() {
    let (_folder, server) = start("");
    let mut other = server.client(0);
    assert_eq!(other.create_topic("t", 2, &[]).expect("the server answers"), 0);
    let led = other.partitions("t").expect("the server answers").expect("it is there");
    let partition = if led[0].core == 0 { 0 } else { 1 };
    let before = server.resident_bytes();
    // Five times what the core may hold, of which nothing comes but the first bytes.
    let streams: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address(0)).expect("the server listens");
            stream.write_all(&100_000_000_i32.to_be_bytes()).expect("a fresh socket");
            stream.write_all(&[0; 100]).expect("a fresh socket");
            stream
        })
        .collect();
    for number in 0..100 {
        let produced = other.produce("t", partition, -1, &batch(&[vec![b'.'; 1000]])).expect("the server answers");
        assert_eq!((produced.error_code, produced.base_offset), (0, number));
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for frames that did not come");
    drop(streams);
    // What they held is given back: a frame of the largest batch comes through.
    let produced = other.produce("t", partition, -1, &batch(&[vec![b'.'; 1_000_000]])).expect("the server answers");
    assert_eq!(produced.error_code, 0);
    server.stop().assert_clean();
}

#[test]
fn c199_a_storm_of_connections_leaves_those_that_are_there_alone() {
    let (_folder, server) = start("--set max.connections.per.ip=50 --set max.connections=1000");
    let mut live: Vec<Client> = (0..20).map(|_| server.client(0)).collect();
    live.iter_mut().for_each(|client| client.ping().expect("below the limit"));
    let began = Instant::now();
    let mut open = Vec::new();
    for number in 0..STORM {
        open.push(TcpStream::connect(server.address(0)).expect("the kernel takes it"));
        if number % 500 == 0 {
            live.iter_mut().for_each(|client| client.ping().expect("connections that are there go on"));
        }
        // Keep only so many of our own descriptors.
        if open.len() > 400 {
            open.drain(..200);
        }
    }
    live.iter_mut().for_each(|client| client.ping().expect("connections that are there go on"));
    server.wait_for_log("max.connections.per.ip", 1);
    let lines = server.log_count("connections refused");
    let seconds = began.elapsed().as_secs() as usize;
    assert!(lines <= seconds + 2, "{lines} lines in {seconds} s");
    println!("{STORM} connections in {:.1} s, {lines} lines in the log", began.elapsed().as_secs_f64());
    // Another address is not over the limit.
    let mut elsewhere = connect_from([127, 0, 0, 2], server.address(0));
    elsewhere.ping().expect("another address is served");
    // And when the storm is over, the same one is served again.
    drop(open);
    drop(live);
    wait::until("this address is served again", Duration::from_secs(20), || server.client(0).ping().ok());
    server.stop().assert_clean();
}

#[test]
fn c199_the_limit_of_all_connections_holds_for_all_addresses() {
    // Split among two cores: ten each.
    let (_folder, server) = start("--set max.connections=20");
    let mut live: Vec<Client> =
        (0..10).map(|number| connect_from([127, 0, 0, 10 + number], server.address(0))).collect();
    live.iter_mut().for_each(|client| client.ping().expect("below the limit"));
    assert!(connect_from([127, 0, 0, 99], server.address(0)).ping().is_err(), "the eleventh is refused");
    server.client(1).ping().expect("the other core has its own share");
    live.iter_mut().for_each(|client| client.ping().expect("connections that are there go on"));
    assert_eq!(server.log_count("limit=\"max.connections\""), 1, "{}", server.log());
    server.stop().assert_clean();
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let (_folder, server) = start("--set connections.max.idle.ms=1500");
    let mut busy = server.client(0);
    let mut idle = server.client(0);
    idle.ping().expect("it works");
    let began = Instant::now();
    idle.stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    let after = wait::until("the idle connection is closed", Duration::from_secs(20), || {
        busy.ping().expect("a busy connection stays");
        matches!(idle.stream.read(&mut [0]), Ok(0)).then(|| began.elapsed())
    });
    assert!(after > Duration::from_millis(1400), "closed after {after:?}");
    busy.ping().expect("a busy connection stays");
    server.stop().assert_clean();
}

#[test]
fn a_reader_that_does_not_read_costs_no_memory() {
    let (_folder, server) = start("--durability os --log warn");
    let mut other = server.client(0);
    assert_eq!(other.create_topic("t", 1, &[]).expect("the server answers"), 0);
    assert_eq!(other.create_topic("many", 500, &[]).expect("the server answers"), 0);
    let core = other.partitions("t").expect("the server answers").expect("it is there")[0].core;
    let mut leader = server.client(core);
    let records = batch(&[vec![b'.'; 1_000_000]]);
    for _ in 0..40 {
        assert_eq!(leader.produce("t", 0, 1, &records).expect("the server answers").error_code, 0);
    }
    // Settled before, so that only what the slow readers cost is counted.
    let mut warm = server.client(core);
    warm.read_from("t", 0, 0).expect("the server answers");
    warm.partitions("many").expect("the server answers").expect("it is there").len();
    let before = server.resident_bytes();
    let mut slow = Vec::new();
    for number in 0..READERS_THAT_DO_NOT_READ {
        let mut client = server.client(core);
        client.stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a socket");
        // Ask as long as the server takes requests; half of them for ranges of files, half for answers out of memory.
        let mut asked = 0;
        while asked < 3000 {
            let sent = match number % 2 {
                0 => client.send_fetch("t", 0, 0, 50 << 20).map(|_| ()),
                _ => send_metadata(&mut client),
            };
            if sent.is_err() {
                break;
            }
            asked += 1;
        }
        slow.push(client);
        leader.ping().expect("others are served");
    }
    let grown = server.resident_bytes().saturating_sub(before);
    println!("{READERS_THAT_DO_NOT_READ} readers that do not read: {:.1} MiB", grown as f64 / (1 << 20) as f64);
    assert!(grown < 64 << 20, "{grown} bytes for {READERS_THAT_DO_NOT_READ} connections");
    assert_eq!(leader.produce("t", 0, 1, &records).expect("the server answers").error_code, 0);
    drop(slow);
    leader.ping().expect("others are served");
    server.stop().assert_clean();
}

fn send_metadata(client: &mut Client) -> std::io::Result<()> {
    use alluvium::wire::messages::metadata_request::MetadataRequest;
    let request = MetadataRequest { topics: None, ..MetadataRequest::default() };
    client.send(ApiKey::Metadata, 12, |out| request.encode(out, 12)).map(|_| ())
}

#[test]
fn a_burst_is_answered_in_its_order() {
    let (_folder, server) = start("");
    let mut client = server.client(0);
    assert_eq!(client.create_topic("t", 2, &[]).expect("the server answers"), 0);
    let led = client.partitions("t").expect("the server answers").expect("it is there");
    let partition =
        (0..).zip(&led).find(|(_, led)| led.core == 0).map(|(partition, _)| partition).expect("core 0 leads one");
    // Kinds of answers that take their own time: after a sync, out of a file, at once, from another core's partition.
    let small = batch(&[b"small".to_vec()]);
    let large = batch(&[vec![b'.'; 200_000]]);
    let mut burst = Vec::new();
    let mut asked = Vec::new();
    for number in 0..400 {
        let correlation_id = 10_000 + number;
        let mut encode = |api_key, version: i16, body: &dyn Fn(&mut Vec<u8>, i16)| {
            encode_request(&mut burst, api_key, version, correlation_id, |out| {
                body(out, version);
                Ok(())
            })
            .expect("short");
            asked.push(correlation_id);
        };
        match number % 4 {
            0 => encode(ApiKey::Produce, 9, &|out, version| {
                produce_request("t", partition, -1, &small).encode(out, version).expect("short");
            }),
            1 if number % 40 == 1 => encode(ApiKey::Produce, 9, &|out, version| {
                produce_request("t", partition, -1, &large).encode(out, version).expect("short");
            }),
            2 => encode(ApiKey::Produce, 9, &|out, version| {
                produce_request("t", 1 - partition, -1, &small).encode(out, version).expect("short");
            }),
            _ => encode(ApiKey::ApiVersions, 0, &|out, version| {
                ApiVersionsRequest::default().encode(out, version).expect("short");
            }),
        }
    }
    // Written by a thread of its own: the server stops reading while answers are not taken.
    let mut writer = client.stream.try_clone().expect("a socket");
    let sending = std::thread::spawn(move || writer.write_all(&burst));
    for expected in asked {
        let frame = client.receive().expect("an answer to each");
        let correlation_id = i32::from_be_bytes(frame[..4].try_into().expect("a header"));
        assert_eq!(correlation_id, expected);
    }
    sending.join().expect("the writer").expect("all was sent");
    server.stop().assert_clean();
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answers() {
    let (_folder, server) = start("");
    let mut client = server.client(0);
    assert_eq!(client.create_topic("t", 2, &[]).expect("the server answers"), 0);
    for partition in 0..2 {
        let core = client.partitions("t").expect("the server answers").expect("it is there")[partition].core;
        let mut writer = server.client(core);
        let sent: Vec<i32> = (0..5)
            .map(|number| {
                let records = batch(&[vec![b'.'; 1 + 20_000 * number]]);
                writer.send_produce("t", partition as i32, -1, &records).expect("the server reads")
            })
            .collect();
        writer.stream.shutdown(Shutdown::Write).expect("a socket");
        for (expected, offset) in sent.into_iter().zip(0..) {
            let (answered, produced) = writer.receive_produced().expect("an answer to each");
            assert_eq!((answered, produced.error_code, produced.base_offset), (expected, 0, offset));
        }
        assert!(matches!(writer.stream.read(&mut [0]), Ok(0)), "then the server closes too");
    }
    server.stop().assert_clean();
}

/// A connection from another address of the loopback.
fn connect_from(own: [u8; 4], to: SocketAddr) -> Client {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from((own, 0))).expect("an address of the loopback");
    connect(&socket, &to).expect("the server listens");
    Client::over(TcpStream::from(socket)).expect("connected")
}

/// Connections of the storm.
const STORM: usize = 5000;
const READERS_THAT_DO_NOT_READ: usize = 8;
