//! Starting, idling and stopping: what the operator of the real binary sees.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at a process from outside")]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alluvium::ring::ring_mask::RingMask;
use rustix::process::Signal;
use support::client::{Client, Led, batch};
use support::process::{Server, ServerPlan, free_ports};
use support::wait;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a scratch folder")
}

/// A data directory that a server has used and left.
fn used_data_dir() -> tempfile::TempDir {
    let folder = scratch();
    ServerPlan::new(folder.path()).start().stop().assert_clean();
    folder
}

fn change_file(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).expect("a file of the server");
    fs::write(path, change(text)).expect("our own scratch folder");
}

/// Writes to and reads from both cores: a byte, and more than is written inline.
fn assert_serves(server: &Server, topic: &str) {
    let mut client = server.client(1);
    assert_eq!(client.create_topic(topic, 2, &[]).expect("the server answers"), 0);
    let led = client.partitions(topic).expect("the server answers").expect("it is there");
    for (partition, led) in (0..).zip(led) {
        let mut leader = server.client(led.core);
        for (offset, len_bytes) in [1, 1000, 70_000, 900_000].into_iter().enumerate() {
            let values = [vec![b'.'; len_bytes]];
            let produced = leader.produce(topic, partition, -1, &batch(&values)).expect("the server answers");
            assert_eq!((produced.error_code, produced.base_offset), (0, offset as i64), "{topic}-{partition}");
        }
        let read = leader.read_from(topic, partition, 0).expect("the server answers");
        let lengths: Vec<usize> = read.iter().map(|record| record.value.len()).collect();
        assert_eq!(lengths, [1, 1000, 70_000, 900_000], "{topic}-{partition}");
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_a_sentence() {
    let folder = scratch();
    fs::write(folder.path().join("thesis.tex"), "years of work").expect("our own scratch folder");
    let ended = ServerPlan::new(folder.path()).start_refused();
    ended.assert_refused("is not empty and has no meta.properties: it is not a data directory");
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "thesis.tex" || name == ".lock"), "nothing else was put there: {left:?}");

    let folder = used_data_dir();
    change_file(&folder.path().join("meta.properties"), |text| text.replace("alluvium.format=1", "alluvium.format=99"));
    ServerPlan::new(folder.path()).start_refused().assert_refused("has format 99, this server knows up to 1");

    let folder = used_data_dir();
    let ended = ServerPlan::new(folder.path()).flags("--node-id 2").start_refused();
    ended.assert_refused(
        "belongs to node.id 1, not 2: it is another server's directory; check --data-dir and --node-id",
    );

    change_file(&folder.path().join("meta.properties"), |_| "nonsense".to_owned());
    ServerPlan::new(folder.path()).start_refused().assert_refused("meta.properties: version is not 1; restore it");

    let folder = used_data_dir();
    let nonsense = "not a catalog at all, but long enough to be one";
    fs::write(folder.path().join("alluvium.catalog"), nonsense).expect("our own scratch folder");
    ServerPlan::new(folder.path()).start_refused().assert_refused("alluvium.catalog");
}

#[test]
fn a_directory_in_use_is_a_sentence_and_the_first_server_lives() {
    let folder = scratch();
    let server = ServerPlan::new(folder.path()).start();
    ServerPlan::new(folder.path()).start_refused().assert_refused("is in use by another server; stop that one");
    assert_serves(&server, "t");
    server.kill();
    // The lock of a server that was killed holds nobody up.
    ServerPlan::new(folder.path()).start().stop().assert_clean();
}

#[test]
fn a_file_in_the_place_of_a_directory_is_a_sentence() {
    let folder = scratch();
    let file = folder.path().join("file");
    drop(File::create(&file).expect("our own scratch folder"));
    for path in [file.clone(), file.join("below")] {
        ServerPlan::new(&path)
            .start_refused()
            .assert_refused("check that it is a directory that this user may write to");
    }
}

#[test]
fn a_taken_port_names_its_core_and_changes_nothing() {
    for core in 0..2 {
        let folder = scratch();
        let mut plan = ServerPlan::new(&folder.path().join("data"));
        let port = free_ports();
        plan.port = Some(port);
        let taken = SocketAddr::from(([127, 0, 0, 1], port + core));
        let _held = TcpListener::bind(taken).expect("a free port");
        plan.start_refused().assert_refused(&format!("core {core} cannot listen on {taken}"));
        assert!(!plan.data_dir.exists(), "nothing was made on the disk");
    }
}

#[test]
fn settings_that_make_no_sense_are_sentences() {
    // (flags, words, exit code: 2 is the command line's own)
    let cases = [
        ("--set num.partitons=3", "num.partitions", 1),
        ("--set num.partitions=many", "num.partitions", 1),
        ("--set num.partitions=0", "num.partitions", 1),
        ("--set listeners=PLAINTEXT://:9092", "--listen", 1),
        ("--set socket.request.max.bytes=2000000000", "--memory is too small", 1),
        ("--cores 0", "--cores", 2),
        ("--cores 0,0", "--cores", 2),
        ("--cores 9999,3", "--cores", 1),
        ("--ring-mask nonsense", "nonsense", 2),
        ("--durability hope", "hope", 2),
        ("--node-id=-1", "node-id", 2),
        ("--log alluvium=loud", "--log", 2),
        ("--set novalue", "KEY=VALUE", 2),
        ("--advertise 0.0.0.0", "clients cannot connect to it", 2),
    ];
    for (flags, words, code) in cases {
        let folder = scratch();
        let data_dir = folder.path().join("data");
        let mut plan = ServerPlan::new(&data_dir);
        if flags.starts_with("--cores") {
            plan.cores = String::new();
        }
        let ended = plan.flags(flags).start_refused();
        assert!(ended.log.contains(words), "{flags}: {}", ended.log);
        assert!(!ended.log.contains("panicked"), "{flags}: {}", ended.log);
        assert_eq!(ended.status.code(), Some(code), "{flags}: {}", ended.log);
        assert!(!data_dir.exists(), "{flags}: nothing was made on the disk");
    }
}

#[test]
fn each_fallback_of_the_ring_serves() {
    let mut masks: Vec<String> = RingMask::NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    masks.push(masks.join(","));
    for mask in masks {
        let folder = scratch();
        let server = ServerPlan::new(folder.path()).flags(&format!("--ring-mask {mask}")).start();
        assert_serves(&server, "masked");
        drop_from_cache(folder.path(), "masked-");
        for partition in 0..2 {
            let led = server.client(0).partitions("masked").expect("the server answers").expect("it is there");
            let read = server.client(led[partition].core).read_from("masked", partition as i32, 0);
            assert_eq!(read.expect("cold reads").len(), 4, "--ring-mask {mask}");
        }
        let ended = server.stop();
        assert!(ended.status.success(), "--ring-mask {mask}: {}", ended.log);
        ended.assert_clean();
    }
}

#[test]
fn c206_small_limits_are_served_within_or_named() {
    for (limit, words) in
        [("--memlock=65536:65536", "ulimit -l"), ("--nofile=100:100", "ulimit -n"), ("--nofile=1024:1024", "-")]
    {
        let folder = scratch();
        let mut plan = ServerPlan::new(folder.path());
        plan.wrapper = vec!["prlimit".to_owned(), limit.to_owned()];
        match plan.try_start() {
            Ok(server) => {
                assert!(!limit.contains("=100:"), "100 open files are too few for two cores");
                assert_serves(&server, "t");
                server.stop().assert_clean();
                println!("{limit}: served");
            }
            Err(ended) => {
                ended.assert_refused(words);
                println!("{limit}: {}", ended.log.trim().lines().last().unwrap_or_default());
            }
        }
    }
}

/// As in a container whose filter does not know io_uring.
#[test]
fn c206_a_forbidden_ring_is_a_sentence() {
    let folder = scratch();
    let mut plan = ServerPlan::new(folder.path());
    plan.wrapper = ["python3", "-c", FORBIDS_THE_RING].map(str::to_owned).to_vec();
    plan.start_refused().assert_refused("seccomp");
}

/// Runs a command under a seccomp filter that answers EPERM to io_uring_setup, call 425 everywhere.
const FORBIDS_THE_RING: &str = "
import ctypes, os, struct, sys
filter = b''.join(struct.pack('=HBBI', *one) for one in [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)])
memory = ctypes.create_string_buffer(filter)
program = ctypes.create_string_buffer(struct.pack('@HP', 4, ctypes.addressof(memory)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(f'no filter: {os.strerror(ctypes.get_errno())}')
os.execvp(sys.argv[1], sys.argv[1:])
";

#[test]
fn a_start_is_quick_and_an_idle_server_rests() {
    let mut starts: Vec<Duration> = (0..STARTS)
        .map(|_| {
            let folder = scratch();
            let server = ServerPlan::new(folder.path()).start();
            let after = server.ready_after;
            server.stop().assert_clean();
            after
        })
        .collect();
    starts.sort();
    let median = starts[STARTS / 2];
    println!("start to ready on an empty directory: median of {STARTS} {} ms, {starts:.0?}", median.as_millis());
    assert!(median < Duration::from_secs(1), "{starts:?}");

    let folder = scratch();
    let server = ServerPlan::new(folder.path()).start();
    let switches =
        || -> u64 { server.core_threads().iter().map(|(thread, _)| voluntary_switches(&server, *thread)).sum() };
    // What the start has left to do is over when nothing moves for a while.
    let mut last = (switches(), Instant::now());
    wait::until("the server comes to rest after its start", Duration::from_secs(30), || {
        let now = switches();
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > Duration::from_millis(500)).then_some(())
    });
    let pressure = io_pressure();
    let (switches_before, cpu_before) = (switches(), cpu_ns(&server));
    // A measured interval, not a wait for something.
    thread::sleep(IDLE);
    let woken = switches() - switches_before;
    let cpu = cpu_ns(&server) - cpu_before;
    let share = cpu as f64 / IDLE.as_nanos() as f64 * 100.0;
    let resident_mib = server.resident_bytes() as f64 / (1 << 20) as f64;
    println!(
        "idle for {IDLE:?}: {share:.4} % of a core, {woken} wake-ups of the cores, {resident_mib:.1} MiB resident, \
         PSI io some avg10 {pressure} before and {} after",
        io_pressure()
    );
    assert_eq!(woken, 0, "cores of an idle server sleep");
    assert!(share < 0.5, "{share} % of a core");
    assert!(resident_mib < 64.0, "{resident_mib} MiB");
    server.stop().assert_clean();
}

fn voluntary_switches(server: &Server, thread: u32) -> u64 {
    let status = server.proc_file(&format!("task/{thread}/status"));
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("threads have it");
    line.trim().parse().expect("a number")
}

/// Nanoseconds of CPU that all threads of the server have had.
fn cpu_ns(server: &Server) -> u64 {
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid)).expect("it runs").flatten();
    let ran = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    threads.map(ran).sum()
}

/// The share of the last ten seconds in which somebody on this machine waited for I/O, as the kernel prints it.
fn io_pressure() -> String {
    let text = fs::read_to_string("/proc/pressure/io").unwrap_or_default();
    let average = text.split_whitespace().find_map(|word| word.strip_prefix("avg10="));
    average.unwrap_or("unknown").to_owned()
}

#[test]
fn signals_under_load_stop_cleanly_and_the_next_start_scans_nothing() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = scratch();
        let server = ServerPlan::new(folder.path()).start();
        assert_eq!(server.client(0).create_topic("t", 4, &[]).expect("the server answers"), 0);
        let led = server.client(0).partitions("t").expect("the server answers").expect("it is there");
        let (ended, promised) = load_until(server, &led, folder.path(), DATA_BYTES, |server| server.stop_by(signal));
        ended.assert_clean();
        assert!(folder.path().join(".kafka_cleanshutdown").exists(), "{signal:?}: {}", ended.log);
        assert!(!ended.log.contains("connections are cut"), "{signal:?}: {}", ended.log);

        drop_from_cache(folder.path(), "t-");
        let server = ServerPlan::new(folder.path()).start();
        let read_after_clean = read_bytes(&server);
        assert!(!folder.path().join(".kafka_cleanshutdown").exists(), "a running server is not stopped");
        for (partition, led) in (0..).zip(&led) {
            let read = server.client(led.core).read_from("t", partition, 0).expect("the server answers");
            let count = promised.get(&partition).copied().unwrap_or(0);
            assert!(
                read.len() as i64 >= count,
                "{signal:?}: {} of {count} records in partition {partition}",
                read.len()
            );
        }
        // After a kill a start does scan: what is measured can tell.
        load_until(server, &led, folder.path(), 2 * DATA_BYTES, Server::kill);
        drop_from_cache(folder.path(), "t-");
        let server = ServerPlan::new(folder.path()).start();
        let read_after_kill = read_bytes(&server);
        println!(
            "{signal:?}: read from disk in the start after a clean stop {read_after_clean}, after kill -9 {read_after_kill} bytes"
        );
        assert!(read_after_clean < DATA_BYTES / 4, "{signal:?}: {read_after_clean} bytes were read: a scan");
        // Nothing is read from a disk where the scratch folder is in memory.
        assert!(
            read_after_kill == 0 || read_after_kill > DATA_BYTES / 2,
            "{read_after_kill} bytes: the measure is blind"
        );
        server.stop().assert_clean();
    }
}

/// Writes to each partition until there is so much data, then ends the server under that load; what had been
/// acknowledged to each partition's writer.
fn load_until<T>(
    server: Server,
    led: &[Led],
    folder: &Path,
    bytes: u64,
    end: impl FnOnce(Server) -> T,
) -> (T, BTreeMap<i32, i64>) {
    let stopping = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (partition, led) in (0..).zip(led) {
            let (address, stopping) = (server.address(led.core), &stopping);
            threads.push(scope.spawn(move || (partition, write_until_stopped(address, partition, stopping))));
        }
        wait::until("the load has written enough", Duration::from_secs(120), || {
            (data_bytes(folder) > bytes).then_some(())
        });
        stopping.store(true, Ordering::Release);
        let ended = end(server);
        (ended, threads.into_iter().map(|thread| thread.join().expect("a client")).collect())
    })
}

/// Writes one after the other; how many were acknowledged when the server stopped.
fn write_until_stopped(address: SocketAddr, partition: i32, stopping: &AtomicBool) -> i64 {
    let mut client = Client::connect(address).expect("the server listens");
    let records = batch(&[vec![b'.'; 100_000]]);
    let mut acknowledged = 0;
    loop {
        match client.produce("t", partition, -1, &records) {
            Ok(produced) if produced.error_code == 0 => acknowledged += 1,
            other => {
                assert!(stopping.load(Ordering::Acquire), "a write failed before the stop: {other:?}");
                return acknowledged;
            }
        }
    }
}

/// What lies in the segments of a data directory.
fn data_bytes(folder: &Path) -> u64 {
    let partitions = fs::read_dir(folder).expect("it is there").flatten().filter(|entry| entry.path().is_dir());
    let files = partitions.filter_map(|partition| fs::read_dir(partition.path()).ok()).flatten().flatten();
    files
        .filter(|file| file.path().extension().is_some_and(|end| end == "log"))
        .filter_map(|file| file.metadata().ok())
        .map(|of| of.len())
        .sum()
}

/// Bytes that the server has read from a disk.
fn read_bytes(server: &Server) -> u64 {
    let text = server.proc_file("io");
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes:")).expect("the kernel counts it");
    line.trim().parse().expect("a number")
}

/// dd asks the kernel to forget clean pages of the files in folders whose name begins with `prefix`.
fn drop_from_cache(data_dir: &Path, prefix: &str) {
    let folders = fs::read_dir(data_dir).expect("it is there").flatten();
    for folder in folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(prefix)) {
        for file in fs::read_dir(folder.path()).expect("it is there").flatten() {
            File::open(file.path()).and_then(|file| file.sync_all()).expect("a file of the partition");
            let source = format!("if={}", file.path().display());
            let dropped = Command::new("dd").args([&source, "iflag=nocache", "count=0", "status=none"]).status();
            assert!(dropped.expect("dd runs").success(), "{source}");
        }
    }
}

/// Enough for a scan to be seen.
const DATA_BYTES: u64 = 32_000_000;
const STARTS: usize = 10;
const IDLE: Duration = Duration::from_secs(5);
