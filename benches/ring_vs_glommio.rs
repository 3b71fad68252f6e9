//! File and socket round trips on our ring and on glommio's: CPU and wall an operation.
//!
//! `cargo bench --bench ring_vs_glommio [-- ROUNDS]`. The two alternate in each round, on CPU 0; the clients are plain
//! threads on the other CPUs. CPU is that of the measured thread (`/proc/thread-self/schedstat`), so what kernel workers
//! do for it is left out; the page cache and the loopback need none. Wrong where CPU 0 has other work: then look at the
//! CPU columns and at the best round.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // measures from outside of the ring

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use alluvium::ring::buffer::Buffer;
use alluvium::ring::core::{CoreOptions, run};
use alluvium::ring::io::{Io, OpenHow, Stream};
use alluvium::ring::mesh::CoreMesh;
use alluvium::ring::send_queue::{Part, SendQueue};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::io::{BufferedFile, OpenOptions};
use glommio::{LocalExecutorBuilder, Placement};

/// What one run of one case cost.
struct Cost {
    wall_us: f64,
    cpu_us: f64,
}

/// One line of the table.
enum Case {
    Read,
    Write,
    Echo { connections: usize, bytes: usize, depth: usize },
}

const FILE_OPS: usize = 20_000;
const BLOCK_BYTES: usize = 4096;
const FILE_BLOCKS: usize = 4096;

fn main() {
    // `cargo bench` passes `--bench`.
    let rounds = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(5_usize);
    let folder = tempfile::tempdir_in(".").expect("a folder here can be made");
    let path = folder.path().join("blocks");
    std::fs::write(&path, vec![7; BLOCK_BYTES * FILE_BLOCKS]).expect("the folder can be written");
    println!("{:<34} {:>10} {:>10} {:>7} {:>10} {:>10}", "", "ours", "glommio", "", "ours", "glommio");
    println!("{:<34} {:>10} {:>10} {:>7} {:>10} {:>10}", "median", "cpu us", "cpu us", "ratio", "wall us", "wall us");
    for (name, case) in [
        ("file read, 4 KiB, page cache", Case::Read),
        ("file write, 4 KiB, page cache", Case::Write),
        ("echo 100 B, 1 connection, depth 1", Case::Echo { connections: 1, bytes: 100, depth: 1 }),
        ("echo 100 B, 16 connections, depth 1", Case::Echo { connections: 16, bytes: 100, depth: 1 }),
        ("echo 100 B, 16 connections, depth 16", Case::Echo { connections: 16, bytes: 100, depth: 16 }),
        ("echo 64 KiB, 1 connection, depth 1", Case::Echo { connections: 1, bytes: 65536, depth: 1 }),
        ("echo 64 KiB, 16 connections, depth 1", Case::Echo { connections: 16, bytes: 65536, depth: 1 }),
    ] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(run_ours(&case, &path));
            theirs.push(run_glommio(&case, &path));
        }
        let median = |costs: &[Cost], of: fn(&Cost) -> f64| {
            let mut values: Vec<f64> = costs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (cpu, their_cpu) = (median(&ours, |cost| cost.cpu_us), median(&theirs, |cost| cost.cpu_us));
        let (wall, their_wall) = (median(&ours, |cost| cost.wall_us), median(&theirs, |cost| cost.wall_us));
        println!("{name:<34} {cpu:>10.2} {their_cpu:>10.2} {:>7.2} {wall:>10.2} {their_wall:>10.2}", their_cpu / cpu);
    }
}

/// Nanoseconds for which this thread has run.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel keeps schedstat");
    stat.split(' ').next().and_then(|word| word.parse().ok()).expect("schedstat begins with a number")
}

struct Meter {
    began: Instant,
    cpu_ns: u64,
}

impl Meter {
    fn start() -> Self {
        Self { began: Instant::now(), cpu_ns: cpu_ns() }
    }

    fn cost(&self, operations: usize) -> Cost {
        let cpu_us = (cpu_ns() - self.cpu_ns) as f64 / 1e3;
        let wall_us = self.began.elapsed().as_secs_f64() * 1e6;
        Cost { wall_us: wall_us / operations as f64, cpu_us: cpu_us / operations as f64 }
    }
}

/// Blocks in an order that no read-ahead follows.
fn positions() -> impl Iterator<Item = u64> {
    (0..FILE_OPS).map(|at| ((at * 1_597) % FILE_BLOCKS * BLOCK_BYTES) as u64)
}

fn echo_total(case: &Case) -> usize {
    match case {
        Case::Echo { connections, bytes, depth } => {
            let requests = if *bytes > 10_000 { 2_000 } else { 10_000 };
            let a_connection = requests / connections / depth;
            connections * depth * a_connection
        }
        _ => FILE_OPS,
    }
}

/// Plain clients: each sends `depth` requests, reads as many answers, and again.
fn start_clients(address: SocketAddr, case: &Case) -> Vec<std::thread::JoinHandle<()>> {
    let Case::Echo { connections, bytes, depth } = *case else { return Vec::new() };
    let bursts = echo_total(case) / connections / depth;
    let client = move || {
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket option");
        let request = vec![5; bytes * depth];
        let mut answer = vec![0; bytes * depth];
        for _ in 0..bursts {
            stream.write_all(&request).expect("the server reads");
            stream.read_exact(&mut answer).expect("the server answers");
        }
    };
    (0..connections).map(|_| std::thread::spawn(client)).collect()
}

fn run_ours(case: &Case, path: &Path) -> Cost {
    let mesh = CoreMesh::new(1).expect("a descriptor is left");
    let options = CoreOptions { cpu: Some(0), ..CoreOptions::default() };
    let path = path.to_owned();
    let total = echo_total(case);
    let answer = match case {
        Case::Read => run(options, mesh.seat(0), move |io| ours_read(io, path)),
        Case::Write => run(options, mesh.seat(0), move |io| ours_write(io, path)),
        Case::Echo { connections, .. } => {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let clients = start_clients(listener.local_addr().expect("it is bound"), case);
            let connections = *connections;
            let answer = run(options, mesh.seat(0), move |io| ours_echo(io, listener, connections, total));
            clients.into_iter().for_each(|client| client.join().expect("the client got all answers"));
            answer
        }
    };
    answer.expect("the ring runs")
}

async fn ours_read(io: Io, path: PathBuf) -> Cost {
    let file = io.open(&path, OpenHow::ReadWrite).await.expect("the file is there");
    let mut buffer = io.buffer(BLOCK_BYTES);
    let meter = Meter::start();
    for position in positions() {
        let (count, back) = file.read_at(buffer, position).await;
        assert_eq!(count.ok(), Some(BLOCK_BYTES));
        buffer = back;
    }
    meter.cost(FILE_OPS)
}

async fn ours_write(io: Io, path: PathBuf) -> Cost {
    let file = io.open(&path, OpenHow::ReadWrite).await.expect("the file is there");
    let mut buffer = Buffer::zeroed(BLOCK_BYTES);
    let meter = Meter::start();
    for position in positions() {
        let (written, back) = file.write_at(buffer, position).await;
        written.expect("there is room");
        buffer = back;
    }
    meter.cost(FILE_OPS)
}

async fn ours_echo(io: Io, listener: TcpListener, connections: usize, total: usize) -> Cost {
    let listener = io.adopt_listener(listener).expect("a listener");
    let ended = Rc::new(std::cell::Cell::new(0));
    let meter = Meter::start();
    for _ in 0..connections {
        let stream = poll_fn(|_| listener.poll_accept()).await.expect("a client came");
        let ended = ended.clone();
        io.spawn(async move {
            echo(stream).await;
            ended.set(ended.get() + 1);
        });
    }
    while ended.get() < connections {
        io.sleep_ms(1).await;
    }
    meter.cost(total)
}

async fn echo(stream: Stream) {
    let mut queue = SendQueue::default();
    loop {
        let buffer = poll_fn(|_| stream.poll_receive()).await.expect("the client sends");
        if buffer.is_empty() {
            return;
        }
        queue.push(Part::Bytes(buffer.to_vec()));
        drop(buffer);
        poll_fn(|_| stream.poll_send(&mut queue)).await.expect("the client reads");
    }
}

fn run_glommio(case: &Case, path: &Path) -> Cost {
    let builder = LocalExecutorBuilder::new(Placement::Fixed(0));
    let path = path.to_owned();
    let total = echo_total(case);
    let running = match case {
        Case::Read => builder.spawn(move || glommio_read(path)),
        Case::Write => builder.spawn(move || glommio_write(path)),
        Case::Echo { connections, .. } => {
            let (sender, receiver) = std::sync::mpsc::channel();
            let connections = *connections;
            let running = builder.spawn(move || glommio_echo(sender, connections, total));
            let address = receiver.recv().expect("glommio listens");
            let clients = start_clients(address, case);
            clients.into_iter().for_each(|client| client.join().expect("the client got all answers"));
            running
        }
    };
    running.expect("glommio starts").join().expect("glommio runs")
}

async fn glommio_read(path: PathBuf) -> Cost {
    let file = BufferedFile::open(&path).await.expect("the file is there");
    let meter = Meter::start();
    for position in positions() {
        assert_eq!(file.read_at(position, BLOCK_BYTES).await.expect("it reads").len(), BLOCK_BYTES);
    }
    let cost = meter.cost(FILE_OPS);
    file.close().await.expect("it closes");
    cost
}

async fn glommio_write(path: PathBuf) -> Cost {
    let file = OpenOptions::new().read(true).write(true).buffered_open(&path).await.expect("the file is there");
    let meter = Meter::start();
    for position in positions() {
        assert_eq!(file.write_at(vec![0; BLOCK_BYTES], position).await.expect("there is room"), BLOCK_BYTES);
    }
    let cost = meter.cost(FILE_OPS);
    file.close().await.expect("it closes");
    cost
}

async fn glommio_echo(address: std::sync::mpsc::Sender<SocketAddr>, connections: usize, total: usize) -> Cost {
    let listener = glommio::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    address.send(listener.local_addr().expect("it is bound")).expect("main waits");
    let meter = Meter::start();
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let mut stream = listener.accept().await.expect("a client came");
        stream.set_nodelay(true).expect("a socket option");
        tasks.push(glommio::spawn_local(async move {
            let mut buffer = vec![0; 65536];
            loop {
                let count = stream.read(&mut buffer).await.expect("the client sends");
                if count == 0 {
                    return;
                }
                stream.write_all(&buffer[..count]).await.expect("the client reads");
            }
        }));
    }
    for task in tasks {
        task.await;
    }
    meter.cost(total)
}
