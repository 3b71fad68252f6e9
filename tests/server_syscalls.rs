//! What the threads of the cores ask of the kernel under load: nothing that can block.
//!
//! strace follows both cores from `ready` on, while clients write batches of all sizes under both durabilities, roll
//! segments, read hot and cold, and make and delete topics. Each call has to be on the list below, with its reason.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a tracer's own files and threads")]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::client::batch;
use support::process::{Server, ServerPlan};
use support::wait;

/// A call that cores may make.
struct Allowed {
    name: &'static str,
    /// What its arguments must look like.
    if_args: fn(&str) -> bool,
    why: &'static str,
}

const ALLOWED: &[Allowed] = &[
    Allowed {
        name: "io_uring_enter",
        if_args: any,
        why: "hands operations to the ring, and is where an idle core sleeps",
    },
    Allowed { name: "io_uring_register", if_args: any, why: "gives a receive buffer group up or takes one in" },
    Allowed { name: "sendmsg", if_args: dont_wait, why: "returns EAGAIN where the socket is full" },
    Allowed { name: "sendto", if_args: dont_wait, why: "returns EAGAIN where the socket is full" },
    Allowed { name: "recvfrom", if_args: dont_wait, why: "returns EAGAIN where the socket is empty" },
    Allowed {
        name: "sendfile",
        if_args: to_socket,
        why: "a non-blocking socket, and only pages that were found in memory",
    },
    Allowed { name: "splice", if_args: splice_nonblock, why: "returns EAGAIN where the socket is full" },
    Allowed {
        name: "getrusage",
        why: "whether the thread slept in a slow write; reads counters of the thread itself",
        if_args: |args| args.starts_with("RUSAGE_THREAD"),
    },
    Allowed {
        name: "pwrite64",
        if_args: short_write,
        why: "256 KiB at most into the page cache, some 50 us; by the ring while the kernel throttles",
    },
    Allowed { name: "preadv2", if_args: read_nowait, why: "returns EAGAIN where the page is not in memory" },
    Allowed { name: "cachestat", if_args: any, why: "looks at the page cache's tree only" },
    Allowed { name: "syscall_0x1c3", if_args: any, why: "cachestat, which older straces have no name for" },
    Allowed { name: "write", if_args: to_eventfd, why: "wakes another core's ring; would block at 2^64 - 2 only" },
    Allowed { name: "close", if_args: not_a_file, why: "a socket, a pipe or an event; files are closed by the ring" },
    Allowed { name: "setsockopt", if_args: any, why: "an option of a socket: memory only" },
    Allowed { name: "getpeername", if_args: any, why: "who connected" },
    Allowed { name: "pipe2", if_args: any, why: "a pipe for a cold range: memory only" },
    Allowed { name: "fcntl", if_args: pipe_size, why: "the size of a pipe: memory only" },
    Allowed {
        name: "futex",
        if_args: futex_wake,
        why: "wakes the thread that writes the log or the helper; cores never wait",
    },
    Allowed {
        name: "futex",
        if_args: channel_lock,
        why: "the lock of a channel's sleepers, to the helper or the log's thread, held for a few instructions",
    },
    Allowed {
        name: "futex",
        if_args: arena_lock,
        why: "the lock of an arena of glibc's malloc, held for a few instructions",
    },
    Allowed { name: "clock_gettime", if_args: any, why: "the thread's CPU time is no vDSO clock" },
    Allowed { name: "getrandom", if_args: any, why: "the kernel's generator is up long before a server" },
    Allowed { name: "mmap", if_args: anonymous, why: "the allocator's; never of a file" },
    Allowed { name: "munmap", if_args: any, why: "the allocator's" },
    Allowed { name: "mremap", if_args: any, why: "the allocator's" },
    Allowed { name: "madvise", if_args: any, why: "the allocator's" },
    Allowed { name: "mprotect", if_args: any, why: "the allocator's" },
    Allowed { name: "brk", if_args: any, why: "the allocator's" },
    Allowed { name: "restart_syscall", if_args: any, why: "strace's own doing, when it attaches to a sleeping core" },
];

fn any(_: &str) -> bool {
    true
}

fn dont_wait(args: &str) -> bool {
    args.contains("MSG_DONTWAIT")
}

fn to_socket(args: &str) -> bool {
    args.split(',').next().is_some_and(|target| target.contains("<TCP:") || target.contains("<socket:"))
}

fn splice_nonblock(args: &str) -> bool {
    args.contains("SPLICE_F_NONBLOCK")
}

fn short_write(args: &str) -> bool {
    // fd, bytes, count, position: from the back, since paths and bytes may have commas in them.
    let count = args.rsplit(',').nth(1).and_then(|word| word.trim().parse::<u64>().ok());
    count.is_some_and(|count| count <= 256 * 1024)
}

fn read_nowait(args: &str) -> bool {
    args.contains("RWF_NOWAIT")
}

fn to_eventfd(args: &str) -> bool {
    args.split(',').next().is_some_and(|target| target.contains("eventfd"))
}

fn not_a_file(args: &str) -> bool {
    !args.contains("</")
}

fn pipe_size(args: &str) -> bool {
    args.contains("PIPE_SZ")
}

fn futex_wake(args: &str) -> bool {
    args.contains("FUTEX_WAKE")
}

/// glibc puts an arena's lock 0x30 into a heap, and aligns heaps at 64 MiB. Any other wait would be for another thread.
fn arena_lock(args: &str) -> bool {
    args.contains("FUTEX_WAIT_PRIVATE, 2, NULL") && address(args).is_some_and(|address| address % (64 << 20) == 0x30)
}

/// The first argument.
fn address(args: &str) -> Option<u64> {
    let hex = args.split(',').next()?.strip_prefix("0x")?;
    u64::from_str_radix(hex, 16).ok()
}

/// A lock of std's that another thread holds: only channels have them. How often is bounded below.
fn channel_lock(args: &str) -> bool {
    args.contains("FUTEX_WAIT_BITSET_PRIVATE, 2, NULL")
}

fn anonymous(args: &str) -> bool {
    args.contains("MAP_ANONYMOUS")
}

/// One call of a trace.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    name: String,
    args: String,
}

/// The calls in strace's output; a call that another thread's interrupts comes in two lines.
fn calls(trace: &str) -> Vec<Call> {
    let mut unfinished: BTreeMap<&str, String> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.insert(thread, begun.to_owned());
            continue;
        }
        let whole = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, end)) => unfinished.remove(thread).unwrap_or_default() + end,
            None => rest.to_owned(),
        };
        calls.extend(call(&whole));
    }
    calls.extend(unfinished.values().filter_map(|begun| call(begun)));
    calls
}

fn call(text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    // Signals and exits are printed without a call's brackets.
    if !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return None;
    }
    let args = rest.rsplit_once(") =").map_or(rest, |(args, _)| args.trim_end().trim_end_matches(')'));
    Some(Call { name: name.to_owned(), args: args.to_owned() })
}

fn is_allowed(call: &Call) -> bool {
    ALLOWED.iter().any(|allowed| allowed.name == call.name && (allowed.if_args)(&call.args))
}

/// Where the C library and its loader keep their own variables: the lock of malloc's first arena, and that of the loader, which
/// a thread takes when it makes a thread-local variable that is dropped with it (tracing's buffer, at a core's first line of
/// the log). They are held for a few instructions. How often is bounded below.
struct LibraryData(Vec<Range<u64>>);

impl LibraryData {
    fn of(maps: &str) -> Self {
        let mut found: Vec<Range<u64>> = Vec::new();
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let addresses = words.next().and_then(|word| word.split_once('-'));
            let number = |word: &str| u64::from_str_radix(word, 16).ok();
            let Some((Some(from), Some(to))) = addresses.map(|(from, to)| (number(from), number(to))) else { continue };
            let is_writable = words.next().is_some_and(|flags| flags.starts_with("rw"));
            let path = words.nth(3).unwrap_or_default();
            let is_library = ["libc.so", "libc-2", "ld-linux", "ld-2"].iter().any(|name| path.contains(name));
            // What is not in the file comes right behind what is.
            let goes_on = path.is_empty() && found.last().is_some_and(|last| last.end == from);
            if is_writable && (is_library || goes_on) {
                found.push(from..to);
            }
        }
        Self(found)
    }

    fn has_lock_of(&self, call: &Call) -> bool {
        let is_wait = call.name == "futex" && call.args.contains("FUTEX_WAIT_PRIVATE, 2, NULL");
        is_wait && address(&call.args).is_some_and(|address| self.0.iter().any(|range| range.contains(&address)))
    }
}

#[test]
fn the_checker_tells_calls_that_block() {
    let trace = r#"
17 pwrite64(9</d/t-0/0.log>, "abc"..., 262144, 0) = 262144
17 pwrite64(9</d/t-0/0.log>, "abc"..., 262145, 0) = 262145
17 openat(AT_FDCWD, "/d/x", O_RDONLY) = 5
18 preadv2(9</d/t-0/0.log>,  <unfinished ...>
17 fsync(9</d/t-0/0.log>)                = 0
18 <... preadv2 resumed>[{iov_base="a", iov_len=1}], 1, 4095, RWF_NOWAIT) = 1
18 preadv2(9</d/t-0/0.log>, [{iov_base="a", iov_len=1}], 1, 4095, 0) = 1
18 pread64(9</d/t-0/0.log>, "a", 1, 4095) = 1
17 recvfrom(7<TCP:[1->2]>, "x", 64, MSG_DONTWAIT, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)
17 recvfrom(7<TCP:[1->2]>, "x", 64, 0, NULL, NULL) = 1
18 futex(0x7f01, FUTEX_WAKE_PRIVATE, 1) = 1
18 futex(0x7f4d3c000030, FUTEX_WAIT_PRIVATE, 2, NULL) = 0
18 futex(0x7f01, FUTEX_WAIT_PRIVATE, 2, NULL <unfinished ...>
17 close(9</d/t-0/0.log>) = 0
17 close(7<TCP:[1->2]>) = 0
17 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 9</d/t-0/0.log>, 0) = 0x7f0000000000
17 write(2</dev/null>, "line", 4) = 4
17 write(8<anon_inode:[eventfd]>, "\1\0\0\0\0\0\0\0", 8) = 8
17 --- SIGCONT {si_signo=SIGCONT} ---
17 clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=0, tv_nsec=1000000}, NULL) = 0
"#;
    let flagged: Vec<String> =
        calls(trace).iter().filter(|call| !is_allowed(call)).map(|call| call.name.clone()).collect();
    let expected = [
        "pwrite64",
        "openat",
        "fsync",
        "preadv2",
        "pread64",
        "recvfrom",
        "close",
        "mmap",
        "write",
        "clock_nanosleep",
        "futex",
    ];
    assert_eq!(flagged, expected);
}

#[test]
fn the_checker_tells_locks_of_the_c_library_from_others() {
    let maps = "
7f0000000000-7f0000001000 rw-p 00000000 fe:00 1                          /usr/bin/alluvium
7f79c8b00000-7f79c8b02000 r--p 001d0000 fe:00 2                          /usr/lib/x86_64-linux-gnu/libc.so.6
7f79c8b02000-7f79c8b04000 rw-p 001d2000 fe:00 2                          /usr/lib/x86_64-linux-gnu/libc.so.6
7f79c8b04000-7f79c8b05000 rw-p 00000000 00:00 0
7f79c8c00000-7f79c8c01000 rw-p 00000000 00:00 0
7f79c8d30000-7f79c8d32000 rw-p 00033000 fe:00 3                          /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
";
    let data = LibraryData::of(maps);
    let wait =
        |address: u64, how: &str| Call { name: "futex".to_owned(), args: format!("{address:#x}, {how}, 2, NULL") };
    let cases = [
        (0x7f79_c8d3_0a28, "FUTEX_WAIT_PRIVATE", true),
        (0x7f79_c8d3_0a28, "FUTEX_WAIT_BITSET_PRIVATE", false),
        (0x7f79_c8b0_2c60, "FUTEX_WAIT_PRIVATE", true),
        (0x7f79_c8b0_4010, "FUTEX_WAIT_PRIVATE", true),
        (0x7f79_c8b0_1010, "FUTEX_WAIT_PRIVATE", false),
        (0x7f79_c8c0_0010, "FUTEX_WAIT_PRIVATE", false),
        (0x7f00_0000_0010, "FUTEX_WAIT_PRIVATE", false),
    ];
    for (address, how, is_library) in cases {
        assert_eq!(data.has_lock_of(&wait(address, how)), is_library, "{address:#x} {how}");
    }
}

#[test]
fn cores_under_load_make_no_call_that_blocks() {
    for durability in ["segment", "os"] {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let server = ServerPlan::new(folder.path()).flags(&format!("--durability {durability} --log warn")).start();
        let trace = Trace::attach(&server, folder.path());
        load(&server, folder.path());
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.pid)).expect("it runs");
        let library = LibraryData::of(&maps);
        assert!(library.0.len() >= 2, "the C library and its loader have their data somewhere:\n{maps}");
        let text = trace.end();
        let calls = calls(&text);
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for call in &calls {
            *counts.entry(&call.name).or_default() += 1;
        }
        let waits = calls.iter().filter(|call| call.name == "futex" && call.args.contains("FUTEX_WAIT")).count();
        println!("{durability}: {} calls: {counts:?}, {waits} waits for a lock", calls.len());
        // strace makes each call of the holder take long, so some waits are its own doing.
        assert!(waits * 200 <= calls.len(), "{durability}: {waits} waits for locks among {} calls", calls.len());
        let refused: Vec<String> = calls
            .iter()
            .filter(|call| !is_allowed(call) && !library.has_lock_of(call))
            .map(|call| format!("{}({})", call.name, call.args.chars().take(200).collect::<String>()))
            .collect();
        let shown = refused.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(
            refused.is_empty(),
            "{durability}: {} calls are not on the list of those that never block:\n{shown}",
            refused.len()
        );
        // The load was there to be seen.
        for name in ["io_uring_enter", "pwrite64", "sendmsg", "sendfile"] {
            assert!(counts.contains_key(name), "{durability}: no {name} among {counts:?}");
        }
        server.stop().assert_clean();
    }
    assert!(ALLOWED.iter().all(|allowed| allowed.why.len() > 10), "each has its reason");
}

/// strace on the threads of the cores.
struct Trace {
    strace: Child,
    output: std::path::PathBuf,
}

impl Trace {
    fn attach(server: &Server, folder: &Path) -> Self {
        let output = folder.with_extension("trace");
        let said = folder.with_extension("strace");
        let mut command = Command::new("strace");
        command.args(["-yy", "-s", "4", "-o"]).arg(&output);
        for (thread, _) in server.core_threads() {
            command.arg("-p").arg(thread.to_string());
        }
        let stderr = File::create(&said).expect("a scratch file");
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn();
        let mut strace = spawned.expect("strace starts; scripts/install-test-tools installs it");
        wait::until("strace follows both cores", Duration::from_secs(30), || {
            let text = fs::read_to_string(&said).unwrap_or_default();
            if let Ok(Some(status)) = strace.try_wait() {
                panic!("strace ended ({status}): {text}; may this user trace its own processes (ptrace)?");
            }
            (text.matches("attached").count() >= 2).then_some(())
        });
        let _ = fs::remove_file(&said);
        Self { strace, output }
    }

    /// Lets go of the server; what was seen.
    fn end(mut self) -> String {
        let pid = Pid::from_raw(self.strace.id().cast_signed()).expect("a process has a number");
        kill_process(pid, Signal::INT).expect("strace runs");
        self.strace.wait().expect("our own child");
        let text = fs::read(&self.output).expect("strace wrote its output");
        let _ = fs::remove_file(&self.output);
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if matches!(self.strace.try_wait(), Ok(None)) {
            let _ = self.strace.kill();
            let _ = self.strace.wait();
        }
    }
}

/// All that a server does, on both cores at once.
fn load(server: &Server, folder: &Path) {
    let mut admin = server.client(0);
    let configs = [("segment.bytes", "1048576"), ("file.delete.delay.ms", "1")];
    for topic in ["one", "two"] {
        assert_eq!(admin.create_topic(topic, 4, &configs).expect("the server answers"), 0);
    }
    let led = admin.partitions("one").expect("the server answers").expect("it is there");
    let led_too = admin.partitions("two").expect("the server answers").expect("it is there");
    thread::scope(|scope| {
        for (topic, led) in [("one", led), ("two", led_too)] {
            for (partition, led) in (0..).zip(led) {
                let mut client = server.client(led.core);
                scope.spawn(move || {
                    for (round, len_bytes) in SIZES.iter().cycle().take(ROUNDS * SIZES.len()).enumerate() {
                        let records = batch(&[vec![b'.'; *len_bytes]]);
                        let acks = [1, -1][round % 2];
                        let produced = client.produce(topic, partition, acks, &records).expect("the server answers");
                        assert_eq!(produced.error_code, 0, "{len_bytes} bytes to {topic}-{partition}");
                        let fetched = client.fetch(topic, partition, produced.base_offset, 4 << 20);
                        assert!(!fetched.expect("the server answers").records.is_empty(), "what was written is read");
                    }
                    client.read_from(topic, partition, 0).expect("hot reads");
                });
            }
        }
        scope.spawn(move || {
            for number in 0..3 {
                let name = format!("made-{number}");
                assert_eq!(admin.create_topic(&name, 2, &configs).expect("the server answers"), 0);
                assert_eq!(admin.delete_topic(&name).expect("the server answers"), 0);
            }
        });
    });
    // What is no longer in the page cache.
    let led = server.client(1).partitions("one").expect("the server answers").expect("it is there");
    for (partition, led) in (0..).zip(led) {
        for entry in fs::read_dir(folder.join(format!("one-{partition}"))).expect("its folder").flatten() {
            drop_from_cache(&entry.path());
        }
        server.client(led.core).read_from("one", partition, 0).expect("cold reads");
    }
    for topic in ["one", "two"] {
        assert_eq!(server.client(1).delete_topic(topic).expect("the server answers"), 0);
    }
    wait::until("the deleted partitions' files are gone", Duration::from_secs(60), || {
        let left = fs::read_dir(folder).expect("the data directory").flatten();
        (!left.into_iter().any(|entry| entry.path().is_dir())).then_some(())
    });
}

/// dd asks the kernel to forget a file's clean pages, after a sync has made them clean.
fn drop_from_cache(path: &Path) {
    File::open(path).and_then(|file| file.sync_all()).expect("a file of the partition");
    let dropped = Command::new("dd")
        .arg(format!("if={}", path.display()))
        .args(["iflag=nocache", "count=0", "status=none"])
        .status();
    assert!(dropped.expect("dd runs").success(), "{}", path.display());
}

/// From one byte to one that only just fits into a batch, by both ways of writing.
const SIZES: [usize; 7] = [1, 1000, 16_000, 60_000, 70_000, 300_000, 1_000_000];
/// Enough to roll segments.
const ROUNDS: usize = 2;
