//! Placeholder of the real ring, until it is merged.
#![allow(missing_docs, clippy::unused_async)]

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::task::Poll;

use crate::ring::buffer::Buffer;
use crate::ring::io::{DirEntry, Io, OpenHow, SendQueue};
use crate::ring::task::TaskId;
use crate::ring::timer::Nanos;

pub struct Uring(Infallible);
#[derive(Clone)]
pub struct UringFile(Infallible);
pub struct UringListener(Infallible);
pub struct UringStream(Infallible);
pub(in crate::ring) struct LoadedPipe(#[allow(dead_code)] Infallible);

#[allow(unused_variables)]
impl Uring {
    pub(in crate::ring) fn now(&self) -> Nanos {
        match self.0 {}
    }
    pub(in crate::ring) fn wall_ms(&self) -> i64 {
        match self.0 {}
    }
    pub(in crate::ring) fn random_u64(&self) -> u64 {
        match self.0 {}
    }
    pub(in crate::ring) async fn open(&self, io: &Io, path: &Path, how: OpenHow) -> io::Result<UringFile> {
        match self.0 {}
    }
    pub(in crate::ring) async fn create_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        match self.0 {}
    }
    pub(in crate::ring) async fn rename(&self, io: &Io, from: &Path, to: &Path) -> io::Result<()> {
        match self.0 {}
    }
    pub(in crate::ring) async fn remove_file(&self, io: &Io, path: &Path) -> io::Result<()> {
        match self.0 {}
    }
    pub(in crate::ring) async fn remove_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        match self.0 {}
    }
    pub(in crate::ring) async fn sync_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        match self.0 {}
    }
    pub(in crate::ring) async fn read_dir(&self, io: &Io, path: &Path) -> io::Result<Vec<DirEntry>> {
        match self.0 {}
    }
    pub(in crate::ring) fn listen(&self, io: &Io, address: SocketAddr) -> io::Result<UringListener> {
        match self.0 {}
    }
    #[allow(clippy::disallowed_types)]
    pub(in crate::ring) fn adopt_listener(&self, io: &Io, socket: std::net::TcpListener) -> io::Result<UringListener> {
        match self.0 {}
    }
    pub(in crate::ring) async fn connect(&self, io: &Io, address: SocketAddr) -> io::Result<UringStream> {
        match self.0 {}
    }
    pub(in crate::ring) fn notify(&self, io: &Io, core: usize) {
        match self.0 {}
    }
    pub(in crate::ring) fn note_notified(&self, task: TaskId) {
        match self.0 {}
    }
}

#[allow(unused_variables)]
impl UringFile {
    pub(in crate::ring) async fn read_at(&self, buffer: Buffer, position_bytes: u64) -> (io::Result<usize>, Buffer) {
        match self.0 {}
    }
    pub(in crate::ring) async fn write_at(&self, buffer: Buffer, position_bytes: u64) -> (io::Result<()>, Buffer) {
        match self.0 {}
    }
    pub(in crate::ring) async fn sync_data(&self) -> io::Result<()> {
        match self.0 {}
    }
    pub(in crate::ring) async fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        match self.0 {}
    }
    pub(in crate::ring) async fn len(&self) -> io::Result<u64> {
        match self.0 {}
    }
}

#[allow(unused_variables)]
impl UringListener {
    pub(in crate::ring) fn poll_accept(&self) -> Poll<io::Result<UringStream>> {
        match self.0 {}
    }
    pub(in crate::ring) fn local_address(&self) -> SocketAddr {
        match self.0 {}
    }
}

#[allow(unused_variables)]
impl UringStream {
    pub(in crate::ring) fn poll_receive(&self) -> Poll<io::Result<Buffer>> {
        match self.0 {}
    }
    pub(in crate::ring) fn poll_receive_into(&self, buffer: &mut Buffer, filled: &mut usize) -> Poll<io::Result<()>> {
        match self.0 {}
    }
    pub(in crate::ring) fn poll_send(&self, queue: &mut SendQueue) -> Poll<io::Result<()>> {
        match self.0 {}
    }
    pub(in crate::ring) fn peer_address(&self) -> SocketAddr {
        match self.0 {}
    }
}
