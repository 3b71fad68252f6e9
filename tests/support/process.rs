//! The server as a process of its own: start, `ready`, signals, its log.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at a process from outside")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use alluvium::cli::address::Address;
use alluvium::cli::cluster::Cluster;
use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::wait;

/// How a server is to be started.
#[derive(Clone, Debug)]
pub(crate) struct ServerPlan {
    /// Its data directory.
    pub(crate) data_dir: PathBuf,
    /// `--cores`; not given where empty.
    pub(crate) cores: String,
    /// Flags besides `--listen`, `--data-dir`, `--cores` and `--memory`.
    pub(crate) flags: Vec<String>,
    /// The first port; a free one where absent.
    pub(crate) port: Option<u16>,
    /// A command that the server's own is put behind: `prlimit --memlock=...`.
    pub(crate) wrapper: Vec<String>,
}

/// A server that runs; killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Of the server itself, which is not the child where that is a wrapper.
    pub(crate) pid: u32,
    /// The first core's port.
    pub(crate) port: u16,
    /// From its start to its `ready` line.
    pub(crate) ready_after: Duration,
    /// The whole `ready` line.
    pub(crate) ready_line: String,
    log_path: PathBuf,
}

/// A server that ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How.
    pub(crate) status: ExitStatus,
    /// Its standard error, and what came before `ready` on its standard output.
    pub(crate) log: String,
}

impl ServerPlan {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_path_buf(),
            cores: "2".to_owned(),
            flags: Vec::new(),
            port: None,
            wrapper: Vec::new(),
        }
    }

    /// Adds flags, cut at spaces.
    #[must_use]
    pub(crate) fn flags(mut self, flags: &str) -> Self {
        self.flags.extend(flags.split_whitespace().map(str::to_owned));
        self
    }

    /// Starts the server; panics with its log where it does not get ready.
    pub(crate) fn start(&self) -> Server {
        for _ in 0..PORT_TRIES {
            match self.try_start() {
                Ok(server) => return server,
                // Somebody took the port between our look and the server's.
                Err(ended) if self.port.is_none() && ended.log.contains("cannot listen on") => {}
                Err(ended) => panic!("the server did not start ({}):\n{}", ended.status, ended.log),
            }
        }
        panic!("no free ports for the server in {PORT_TRIES} tries");
    }

    /// Starts a server that is to refuse: its exit code and its words.
    pub(crate) fn start_refused(&self) -> Ended {
        match self.try_start() {
            Ok(server) => panic!("the server started, and should not have: {}", server.ready_line),
            Err(ended) => ended,
        }
    }

    /// Starts the server and kills it at this moment, ready or not.
    pub(crate) fn start_and_kill(&self, after: Duration) {
        let mut child = self.command(free_ports()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.as_mut().expect("the server's binary starts");
        thread::sleep(after);
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    }

    fn command(&self, port: u16) -> Command {
        let mut words = self.wrapper.clone();
        words.push(binary());
        words.extend(["serve", "--memory", "512M"].map(str::to_owned));
        if !self.cores.is_empty() {
            words.extend(["--cores".to_owned(), self.cores.clone()]);
        }
        words.push("--listen".to_owned());
        words.push(format!("127.0.0.1:{port}"));
        words.extend(["--data-dir".to_owned(), self.data_dir.display().to_string()]);
        words.extend(self.flags.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command
    }

    /// Starts the server; how it ended where it did not get ready.
    pub(crate) fn try_start(&self) -> Result<Server, Ended> {
        let port = self.port.unwrap_or_else(free_ports);
        let log_path = log_path();
        let log = File::create(&log_path).expect("a scratch file");
        let began = Instant::now();
        let mut child =
            self.command(port).stdout(Stdio::piped()).stderr(log).spawn().expect("the server's binary starts");
        let stdout = child.stdout.take().expect("it is piped");
        let (lines, arrived) = mpsc::channel();
        // Reads to the end, so that the server never finds its standard output closed.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = lines.send((line, Instant::now()));
            }
        });
        let deadline = began + READY_LIMIT;
        loop {
            match arrived.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((line, at)) if line.starts_with("ready ") => {
                    let pid = server_pid(child.id(), !self.wrapper.is_empty());
                    return Ok(Server { child, pid, port, ready_after: at - began, ready_line: line, log_path });
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = wait_for(&mut child, END_LIMIT);
                    return Err(Ended { status, log: fs::read_to_string(&log_path).unwrap_or_default() });
                }
                Err(RecvTimeoutError::Timeout) => {
                    let _ = child.kill();
                    let log = fs::read_to_string(&log_path).unwrap_or_default();
                    panic!("the server was not ready within {READY_LIMIT:?}:\n{log}");
                }
            }
        }
    }
}

impl Server {
    /// Where a core listens.
    pub(crate) fn address(&self, core: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + core))
    }

    /// A connection to a core.
    pub(crate) fn client(&self, core: u16) -> Client {
        Client::connect(self.address(core)).expect("the server listens")
    }

    /// The view that commands have of it.
    pub(crate) fn cluster(&self) -> Cluster {
        let bootstrap = [Address::new("127.0.0.1", self.port)];
        Cluster::connect(&bootstrap, Duration::from_secs(30)).expect("the server answers")
    }

    /// Its standard error so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log_path).unwrap_or_default()
    }

    /// Waits until its log has so many lines that contain `text`.
    pub(crate) fn wait_for_log(&self, text: &str, count: usize) {
        let what = format!("{count} lines with {text:?} in the log of the server");
        wait::until(&what, Duration::from_secs(20), || (self.log_count(text) >= count).then_some(()));
    }

    /// Lines of its log that contain `text`.
    pub(crate) fn log_count(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    /// A file of its folder in /proc.
    pub(crate) fn proc_file(&self, name: &str) -> String {
        let path = format!("/proc/{}/{name}", self.pid);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}; log:\n{}", self.log()))
    }

    /// Resident memory now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = self.proc_file("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has it");
        let kib: u64 = line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
        kib * 1024
    }

    /// The threads of its cores: id and name.
    pub(crate) fn core_threads(&self) -> Vec<(u32, String)> {
        let mut threads = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.pid)).expect("it runs").flatten() {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let id = entry.file_name().to_string_lossy().parse().expect("threads have numbers");
            if name.starts_with("core-") {
                threads.push((id, name.trim().to_owned()));
            }
        }
        assert_eq!(threads.len(), 2, "two cores run: {threads:?}");
        threads
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid.cast_signed()).expect("a process has a number");
        kill_process(pid, signal).expect("the server runs");
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        let status = wait_for(&mut self.child, END_LIMIT);
        assert!(status.signal() == Some(9) || status.code() == Some(137), "{status}; log:\n{}", self.log());
    }

    /// SIGTERM, and the end.
    pub(crate) fn stop(self) -> Ended {
        self.stop_by(Signal::TERM)
    }

    /// This signal, and the end.
    pub(crate) fn stop_by(mut self, signal: Signal) -> Ended {
        self.signal(signal);
        let status = wait_for(&mut self.child, END_LIMIT);
        Ended { status, log: self.log() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            if let Some(pid) = Pid::from_raw(self.pid.cast_signed()) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if thread::panicking() {
            eprintln!("--- log of the server on port {}:\n{}---", self.port, self.log());
        }
        let _ = fs::remove_file(&self.log_path);
    }
}

impl Ended {
    /// Asserts that it refused with exit code 1, in one sentence that contains this, and no panic.
    pub(crate) fn assert_refused(&self, sentence: &str) {
        assert!(self.log.contains(sentence), "expected {sentence:?} in:\n{}", self.log);
        assert!(!self.log.contains("panicked"), "{}", self.log);
        assert_eq!(self.status.code(), Some(1), "{sentence}: {}", self.log);
    }

    /// Asserts that it stopped cleanly.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.status.code(), Some(0), "{}: {}", self.status, self.log);
        assert!(!self.log.contains("panicked"), "{}", self.log);
    }
}

/// The server's binary: of this build, or another one (a release) where `ALLUVIUM_BINARY` names it.
pub(crate) fn binary() -> String {
    std::env::var("ALLUVIUM_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_alluvium").to_owned())
}

/// Two ports in a row that nobody listens on now.
pub(crate) fn free_ports() -> u16 {
    for _ in 0..PORT_TRIES {
        let step = NEXT_PORT.fetch_add(2, Ordering::Relaxed);
        // Tests of other processes begin elsewhere.
        let start = (std::process::id() as u16).wrapping_mul(34).wrapping_add(step) % PORTS_COUNT;
        let port = PORTS_FIRST + start / 2 * 2;
        let both: Vec<_> = (port..port + 2).map(|port| TcpListener::bind(("127.0.0.1", port))).collect();
        if both.iter().all(Result::is_ok) {
            return port;
        }
    }
    panic!("no two free ports in {PORT_TRIES} tries");
}

fn wait_for(child: &mut Child, limit: Duration) -> ExitStatus {
    wait::until("the end of the server", limit, || child.try_wait().expect("our own child"))
}

/// Behind a wrapper that does not exec, the server is the wrapper's child.
fn server_pid(child: u32, wrapped: bool) -> u32 {
    if !wrapped {
        return child;
    }
    let comm = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
    if comm.starts_with("alluvium") {
        return child;
    }
    let children = fs::read_to_string(format!("/proc/{child}/task/{child}/children")).unwrap_or_default();
    children.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(child)
}

fn log_path() -> PathBuf {
    let number = NEXT_LOG.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("alluvium-test-{}-{number}.log", std::process::id()))
}

static NEXT_PORT: AtomicU16 = AtomicU16::new(0);
static NEXT_LOG: AtomicU16 = AtomicU16::new(0);
/// Below the ports that the kernel gives to outgoing connections.
const PORTS_FIRST: u16 = 23000;
const PORTS_COUNT: u16 = 1000;
const PORT_TRIES: usize = 200;
const READY_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(30);
