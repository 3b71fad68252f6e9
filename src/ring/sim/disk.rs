//! A machine's tree of folders and files: what is seen, and what a power cut cannot take.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};
use std::rc::{Rc, Weak};

use crate::ring::io::{DirEntry, DiskSpace, OpenHow};
use crate::ring::sim::events::World;
use crate::ring::sim::file::FileNode;
use crate::ring::sim::folder::{Folder, NameChange, Node, join_renames};
use crate::ring::sim::options::DiskOp;
use crate::ring::sim::random::Random;

/// The disk of one machine.
///
/// Changes of names are in a folder's journal until `sync_dir` of that folder; a power cut keeps a prefix of it, chosen
/// for each folder by itself (a file system may promise more; POSIX does not). A rename across folders is one step.
pub(in crate::ring::sim) struct Disk {
    world: Weak<World>,
    root: Rc<Folder>,
    bytes_max: Cell<Option<u64>>,
    /// Files whose path contains it have no room.
    denied: RefCell<Option<String>>,
    /// How often something that was written could not be synced.
    losses: Cell<u64>,
    scheduled: RefCell<Vec<ScheduledFault>>,
    /// Part of the paths whose syncs take longer, and by how much.
    slow_syncs: RefCell<Option<(String, u64)>>,
}

struct ScheduledFault {
    op: DiskOp,
    path_part: String,
    remaining: u32,
}

impl Disk {
    pub(in crate::ring::sim) fn new(world: &Rc<World>) -> Self {
        Self {
            world: Rc::downgrade(world),
            root: Rc::default(),
            bytes_max: Cell::new(None),
            denied: RefCell::default(),
            losses: Cell::new(0),
            scheduled: RefCell::default(),
            slow_syncs: RefCell::default(),
        }
    }

    pub(in crate::ring::sim) fn open(&self, path: &Path, how: OpenHow) -> io::Result<Rc<FileNode>> {
        let (folder, name) = self.parent(path)?;
        let found = folder.find(&name);
        match (found, how) {
            (Some(Node::Folder(_)), _) => Err(ErrorKind::IsADirectory.into()),
            (Some(Node::File(_)), OpenHow::CreateNew) => Err(ErrorKind::AlreadyExists.into()),
            (Some(Node::File(file)), OpenHow::CreateOrTruncate) => {
                file.set_len(self.sequence(), 0);
                Ok(file)
            }
            (Some(Node::File(file)), _) => Ok(file),
            (None, OpenHow::Read | OpenHow::ReadWrite) => Err(ErrorKind::NotFound.into()),
            (None, _) => {
                let file = Rc::new(FileNode::default());
                folder.change(self.sequence(), NameChange::Link(name, Node::File(file.clone())));
                Ok(file)
            }
        }
    }

    pub(in crate::ring::sim) fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        if folder.find(&name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        folder.change(self.sequence(), NameChange::Link(name, Node::Folder(Rc::default())));
        Ok(())
    }

    pub(in crate::ring::sim) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_folder, from_name) = self.parent(from)?;
        let (to_folder, to_name) = self.parent(to)?;
        let node = from_folder.find(&from_name).ok_or(ErrorKind::NotFound)?;
        let replaced = to_folder.find(&to_name);
        match (&node, &replaced) {
            (Node::File(file), Some(Node::File(other))) if Rc::ptr_eq(file, other) => return Ok(()),
            (Node::Folder(folder), Some(Node::Folder(other))) if Rc::ptr_eq(folder, other) => return Ok(()),
            (Node::File(_), Some(Node::Folder(_))) => return Err(ErrorKind::IsADirectory.into()),
            (Node::Folder(_), Some(Node::File(_))) => return Err(ErrorKind::NotADirectory.into()),
            (Node::Folder(_), Some(Node::Folder(other))) if !other.is_empty() => {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            _ => {}
        }
        if matches!(&node, Node::Folder(folder) if Rc::ptr_eq(folder, &to_folder)) || to.starts_with(from) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let number = self.sequence();
        if Rc::ptr_eq(&from_folder, &to_folder) {
            from_folder.change(number, NameChange::Rename(from_name, to_name, node));
        } else {
            from_folder.change(number, NameChange::MoveOut(from_name));
            to_folder.change(number, NameChange::MoveIn(to_name, node));
        }
        Ok(())
    }

    pub(in crate::ring::sim) fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        let found = folder.find(&name);
        match found {
            None => Err(ErrorKind::NotFound.into()),
            Some(Node::Folder(_)) => Err(ErrorKind::IsADirectory.into()),
            Some(Node::File(_)) => {
                folder.change(self.sequence(), NameChange::Unlink(name));
                Ok(())
            }
        }
    }

    pub(in crate::ring::sim) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        let found = folder.find(&name);
        match found {
            None => Err(ErrorKind::NotFound.into()),
            Some(Node::File(_)) => Err(ErrorKind::NotADirectory.into()),
            Some(Node::Folder(inner)) if !inner.is_empty() => Err(ErrorKind::DirectoryNotEmpty.into()),
            Some(Node::Folder(_)) => {
                folder.change(self.sequence(), NameChange::Unlink(name));
                Ok(())
            }
        }
    }

    pub(in crate::ring::sim) fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let entries = self.folder(path)?.entries().into_iter().map(|(name, node)| {
            let (is_dir, len_bytes) = match node {
                Node::File(file) => (false, file.len_bytes()),
                Node::Folder(_) => (true, 0),
            };
            DirEntry { name, is_dir, len_bytes }
        });
        Ok(entries.collect())
    }

    /// The folder at `path`.
    pub(in crate::ring::sim) fn folder(&self, path: &Path) -> io::Result<Rc<Folder>> {
        let mut folder = self.root.clone();
        for name in names(path)? {
            let next = folder.find(&name);
            folder = match next {
                None => return Err(ErrorKind::NotFound.into()),
                Some(Node::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                Some(Node::Folder(next)) => next,
            };
        }
        Ok(folder)
    }

    fn parent(&self, path: &Path) -> io::Result<(Rc<Folder>, String)> {
        let name = names(path)?.pop().ok_or(ErrorKind::InvalidInput)?;
        let folder = self.folder(path.parent().unwrap_or(Path::new("")))?;
        Ok((folder, name))
    }

    fn file(&self, path: &Path) -> Option<Rc<FileNode>> {
        let (folder, name) = self.parent(path).ok()?;
        match folder.find(&name) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    pub(in crate::ring::sim) fn peek(&self, path: &Path) -> Option<Vec<u8>> {
        self.file(path).map(|file| file.visible_bytes())
    }

    pub(in crate::ring::sim) fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.file(path).map(|file| file.damage(change)).is_some()
    }

    pub(in crate::ring::sim) fn set_bytes_max(&self, bytes_max: Option<u64>) {
        self.bytes_max.set(bytes_max);
    }

    pub(in crate::ring::sim) fn used_bytes(&self) -> u64 {
        self.root.used_bytes()
    }

    /// Bytes that files may still grow by.
    pub(in crate::ring::sim) fn free_bytes(&self) -> u64 {
        self.bytes_max.get().map_or(u64::MAX, |bytes_max| bytes_max.saturating_sub(self.used_bytes()))
    }

    pub(in crate::ring::sim) fn deny_space(&self, path_part: Option<&str>) {
        *self.denied.borrow_mut() = path_part.map(str::to_owned);
    }

    /// Bytes that the file at `path` may still grow by.
    pub(in crate::ring::sim) fn free_bytes_for(&self, path: &Path) -> u64 {
        let is_denied = |part: &String| path.to_string_lossy().contains(part.as_str());
        if self.denied.borrow().as_ref().is_some_and(is_denied) { 0 } else { self.free_bytes() }
    }

    pub(in crate::ring::sim) fn space(&self) -> DiskSpace {
        DiskSpace { total_bytes: self.bytes_max.get().unwrap_or(u64::MAX), usable_bytes: self.free_bytes() }
    }

    pub(in crate::ring::sim) fn fail_nth(&self, op: DiskOp, path_part: &str, nth: u32) {
        let fault = ScheduledFault { op, path_part: path_part.to_owned(), remaining: nth };
        self.scheduled.borrow_mut().push(fault);
    }

    pub(in crate::ring::sim) fn slow_syncs(&self, path_part: &str, more_ns: u64) {
        *self.slow_syncs.borrow_mut() = Some((path_part.to_owned(), more_ns));
    }

    /// How long a sync at `path` takes.
    pub(in crate::ring::sim) fn draw_sync_ns(&self, world: &World, path: &Path) -> u64 {
        let slow = self.slow_syncs.borrow();
        let slow = slow.as_ref().filter(|(part, _)| path.to_string_lossy().contains(part));
        world.draw_delay(world.delays.sync_ns) + slow.map_or(0, |(_, more_ns)| *more_ns)
    }

    /// Whether this operation is one that fails with EIO.
    pub(in crate::ring::sim) fn fails(&self, world: &World, op: DiskOp, path: &Path, per_million: u32) -> bool {
        let mut fails = world.random.chance(per_million);
        self.scheduled.borrow_mut().retain_mut(|fault| {
            if fault.op == op && path.to_string_lossy().contains(&fault.path_part) {
                fault.remaining = fault.remaining.saturating_sub(1);
                fails |= fault.remaining == 0;
            }
            fault.remaining > 0
        });
        fails
    }

    pub(in crate::ring::sim) fn losses(&self) -> u64 {
        self.losses.get()
    }

    /// Makes the bytes of all files durable; where it fails, some are lost, and the next sync of such a file tells so.
    pub(in crate::ring::sim) fn sync_files(&self, random: &Random, until: u64, fails: bool) {
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        Node::Folder(self.root.clone()).collect(&mut folders, &mut files);
        self.losses.set(self.losses.get() + u64::from(fails));
        for file in files {
            if fails && random.coin() {
                file.lose_changes(random, until);
            } else {
                file.make_durable(until);
            }
        }
    }

    /// Makes of the disk what a power cut leaves of it.
    pub(in crate::ring::sim) fn cut_power(&self, random: &Random) {
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        Node::Folder(self.root.clone()).collect(&mut folders, &mut files);
        let mut kept: Vec<usize> = folders.iter().map(|folder| folder.draw_kept_count(random)).collect();
        join_renames(&folders, &mut kept);
        for (folder, kept_count) in folders.iter().zip(kept) {
            folder.cut_power(kept_count);
        }
        for file in files {
            file.lose_power(random);
        }
    }

    fn sequence(&self) -> u64 {
        self.world.upgrade().map_or(0, |world| world.next_sequence())
    }
}

/// The names along a path; the simulated machine's working directory is its root.
fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str().ok_or(ErrorKind::InvalidFilename)?.to_owned()),
            Component::ParentDir | Component::Prefix(_) => return Err(ErrorKind::InvalidInput.into()),
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::pin::Pin;

    use crate::ring::buffer::Buffer;
    use crate::ring::io::{File, Io, replace_file};
    use crate::ring::sim::machine::Machine;
    use crate::ring::sim::options::{Crash, SimOptions};
    use crate::ring::sim::world::Sim;

    const SECOND_NS: u64 = 1_000_000_000;

    type Step = Pin<Box<dyn Future<Output = ()>>>;

    async fn create(io: &Io, path: &str, contents: &[u8]) -> File {
        let file = io.open(Path::new(path), OpenHow::CreateNew).await.expect("opens");
        file.write_at(Buffer::from_vec(contents.to_vec()), 0).await.0.expect("writes");
        file
    }

    async fn create_synced(io: &Io, path: &str, contents: &[u8]) {
        create(io, path, contents).await.sync_data().await.expect("syncs");
    }

    async fn sync_dir(io: &Io, path: &str) {
        io.sync_dir(Path::new(path)).await.expect("syncs");
    }

    async fn rename(io: &Io, from: &str, to: &str) {
        io.rename(Path::new(from), Path::new(to)).await.expect("renames");
    }

    /// Folders /a and /b, with the durable file /a/old.
    async fn prepare(io: &Io) {
        for folder in ["/a", "/b"] {
            io.create_dir(Path::new(folder)).await.expect("makes");
        }
        sync_dir(io, "/").await;
        create_synced(io, "/a/old", b"old").await;
        sync_dir(io, "/a").await;
    }

    /// All files as `path=contents`, zeros as `0`.
    fn show(machine: &Machine) -> String {
        let paths = ["/a/old", "/a/new", "/b/old", "/a/inner/new"];
        let found = paths.iter().filter_map(|path| {
            let text: String =
                machine.peek(path)?.iter().map(|byte| if *byte == 0 { '0' } else { *byte as char }).collect();
            Some(format!("{path}={text}"))
        });
        found.collect::<Vec<_>>().join(" ")
    }

    /// What a crash right after the steps may leave: exactly these, and each of them is seen.
    struct Case {
        name: &'static str,
        crash: Crash,
        steps: fn(Io) -> Step,
        legal: &'static [&'static str],
    }

    #[test]
    fn a_crash_leaves_every_legal_state_and_no_other() {
        let cases = [
            Case {
                name: "written, not synced; folder synced",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        create(&io, "/a/new", b"new").await;
                        sync_dir(&io, "/a").await;
                    })
                },
                legal: &["/a/old=old /a/new=new", "/a/old=old /a/new=", "/a/old=old /a/new=000"],
            },
            Case {
                name: "synced; folder not synced",
                crash: Crash::PowerCut,
                steps: |io| Box::pin(async move { create_synced(&io, "/a/new", b"new").await }),
                legal: &["/a/old=old /a/new=new", "/a/old=old"],
            },
            Case {
                name: "synced; folder synced",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        create_synced(&io, "/a/new", b"new").await;
                        sync_dir(&io, "/a").await;
                    })
                },
                legal: &["/a/old=old /a/new=new"],
            },
            Case {
                name: "another folder synced",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        create_synced(&io, "/a/new", b"new").await;
                        sync_dir(&io, "/b").await;
                    })
                },
                legal: &["/a/old=old /a/new=new", "/a/old=old"],
            },
            Case {
                name: "renamed over the old one; folder not synced",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        create_synced(&io, "/a/new", b"new").await;
                        sync_dir(&io, "/a").await;
                        rename(&io, "/a/new", "/a/old").await;
                    })
                },
                legal: &["/a/old=old /a/new=new", "/a/old=new"],
            },
            Case {
                name: "renamed over the old one without a sync of the data",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        create(&io, "/a/new", b"new").await;
                        rename(&io, "/a/new", "/a/old").await;
                        sync_dir(&io, "/a").await;
                    })
                },
                legal: &["/a/old=new", "/a/old=", "/a/old=000"],
            },
            Case {
                name: "replaced as it should be",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        replace_file(&io, Path::new("/a/old"), b"new".to_vec()).await.expect("replaces");
                    })
                },
                legal: &["/a/old=new"],
            },
            Case {
                name: "renamed to another folder",
                crash: Crash::PowerCut,
                steps: |io| Box::pin(async move { rename(&io, "/a/old", "/b/old").await }),
                legal: &["/a/old=old", "/b/old=old"],
            },
            Case {
                name: "removed",
                crash: Crash::PowerCut,
                steps: |io| Box::pin(async move { io.remove_file(Path::new("/a/old")).await.expect("removes") }),
                legal: &["/a/old=old", ""],
            },
            Case {
                name: "removed, folder synced",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        io.remove_file(Path::new("/a/old")).await.expect("removes");
                        sync_dir(&io, "/a").await;
                    })
                },
                legal: &[""],
            },
            Case {
                name: "a synced file in a synced folder whose own entry is not synced",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        io.create_dir(Path::new("/a/inner")).await.expect("makes");
                        create_synced(&io, "/a/inner/new", b"new").await;
                        sync_dir(&io, "/a/inner").await;
                    })
                },
                legal: &["/a/old=old /a/inner/new=new", "/a/old=old"],
            },
            Case {
                name: "two creations keep their order",
                crash: Crash::PowerCut,
                steps: |io| {
                    Box::pin(async move {
                        create_synced(&io, "/a/new", b"new").await;
                        io.remove_file(Path::new("/a/old")).await.expect("removes");
                    })
                },
                legal: &["/a/old=old", "/a/old=old /a/new=new", "/a/new=new"],
            },
            Case {
                name: "killed: the page cache survives",
                crash: Crash::Kill,
                steps: |io| {
                    Box::pin(async move {
                        create(&io, "/a/new", b"new").await;
                        rename(&io, "/a/new", "/a/old").await;
                    })
                },
                legal: &["/a/old=new"],
            },
            Case {
                name: "stopped: what was begun is done",
                crash: Crash::Stop,
                steps: |io| {
                    Box::pin(async move {
                        let task = io.clone();
                        io.spawn(async move { rename(&task, "/a/old", "/b/old").await });
                        io.yield_now().await;
                    })
                },
                legal: &["/b/old=old"],
            },
            Case {
                name: "killed in the middle of a rename",
                crash: Crash::Kill,
                steps: |io| {
                    Box::pin(async move {
                        let task = io.clone();
                        io.spawn(async move { rename(&task, "/a/old", "/b/old").await });
                        io.yield_now().await;
                    })
                },
                legal: &["/a/old=old", "/b/old=old"],
            },
        ];
        for case in cases {
            let mut seen = BTreeSet::new();
            for seed in 0..300 {
                let sim = Sim::new(SimOptions::calm(seed));
                let machine = sim.machine();
                let io = machine.core(0);
                let task = io.clone();
                let steps = case.steps;
                let ran = sim.run(&io, SECOND_NS, async move {
                    prepare(&task).await;
                    steps(task.clone()).await;
                });
                ran.unwrap_or_else(|error| panic!("{}, seed {seed}: {error}", case.name));
                machine.crash(case.crash);
                let found = show(&machine);
                assert!(case.legal.contains(&found.as_str()), "{}, seed {seed}: {found:?}", case.name);
                // What is found after a power cut stays: another one takes nothing more.
                machine.crash(Crash::PowerCut);
                if case.crash == Crash::PowerCut {
                    assert_eq!(found, show(&machine), "{}, seed {seed}", case.name);
                }
                seen.insert(found);
            }
            assert_eq!(seen.len(), case.legal.len(), "{}: only {seen:?} were seen", case.name);
        }
    }

    #[test]
    fn names_behave_as_on_linux() {
        let sim = Sim::new(SimOptions::calm(1));
        let io = sim.machine().core(0);
        let task = io.clone();
        let ran = sim.run(&io, SECOND_NS, async move {
            let io = &task;
            prepare(io).await;
            let kind = |result: io::Result<()>| result.map_err(|error| error.kind());
            let path = Path::new;
            assert_eq!(kind(io.create_dir(path("/a")).await), Err(ErrorKind::AlreadyExists));
            assert_eq!(kind(io.create_dir(path("/none/inner")).await), Err(ErrorKind::NotFound));
            assert_eq!(kind(io.remove_dir(path("/a")).await), Err(ErrorKind::DirectoryNotEmpty));
            assert_eq!(kind(io.remove_file(path("/a")).await), Err(ErrorKind::IsADirectory));
            assert_eq!(kind(io.rename(path("/a"), path("/a/inner")).await), Err(ErrorKind::InvalidInput));
            assert_eq!(kind(io.rename(path("/b"), path("/a")).await), Err(ErrorKind::DirectoryNotEmpty));
            assert_eq!(kind(io.sync_dir(path("/none")).await), Err(ErrorKind::NotFound));
            for (how, wanted) in [
                (OpenHow::CreateNew, Err(ErrorKind::AlreadyExists)),
                (OpenHow::Read, Ok(3)),
                (OpenHow::ReadWriteOrCreate, Ok(3)),
                (OpenHow::CreateOrTruncate, Ok(0)),
            ] {
                let found = match io.open(path("/a/old"), how).await {
                    Ok(file) => file.len().await.map_err(|error| error.kind()),
                    Err(error) => Err(error.kind()),
                };
                assert_eq!(found, wanted, "{how:?}");
            }
            io.rename(path("/a"), path("/b")).await.expect("an empty folder is replaced");
            let entries = io.read_dir(path("/b")).await.expect("reads");
            assert_eq!(entries, [DirEntry { name: "old".to_owned(), is_dir: false, len_bytes: 0 }]);
        });
        ran.expect("ends");
    }
}
