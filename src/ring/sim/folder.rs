//! A simulated folder: the names that are seen, those that are durable, and the journal in between.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ring::sim::file::FileNode;
use crate::ring::sim::random::Random;

/// A folder.
#[derive(Default)]
pub(in crate::ring::sim) struct Folder {
    state: RefCell<FolderState>,
}

#[derive(Default)]
struct FolderState {
    visible: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    /// Numbered; the halves of one rename have one number.
    pending: Vec<(u64, NameChange)>,
}

/// What a name stands for.
#[derive(Clone)]
pub(in crate::ring::sim) enum Node {
    File(Rc<FileNode>),
    Folder(Rc<Folder>),
}

/// One step in the journal of a folder.
pub(in crate::ring::sim) enum NameChange {
    Link(String, Node),
    Unlink(String),
    Rename(String, String, Node),
    /// Half of a rename from another folder.
    MoveIn(String, Node),
    /// Half of a rename to another folder.
    MoveOut(String),
}

impl Folder {
    /// What is seen under `name`.
    pub(in crate::ring::sim) fn find(&self, name: &str) -> Option<Node> {
        self.state.borrow().visible.get(name).cloned()
    }

    /// All that is seen, in order of name.
    pub(in crate::ring::sim) fn entries(&self) -> Vec<(String, Node)> {
        self.state.borrow().visible.iter().map(|(name, node)| (name.clone(), node.clone())).collect()
    }

    pub(in crate::ring::sim) fn is_empty(&self) -> bool {
        self.state.borrow().visible.is_empty()
    }

    /// Changes what is seen, and notes it under `number`.
    pub(in crate::ring::sim) fn change(&self, number: u64, change: NameChange) {
        let mut state = self.state.borrow_mut();
        change.apply(&mut state.visible);
        state.pending.push((number, change));
    }

    /// Makes the changes up to `until` durable.
    pub(in crate::ring::sim) fn make_durable(&self, until: u64) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let count = state.pending.partition_point(|(number, _)| *number <= until);
        for (_, change) in state.pending.drain(..count) {
            change.apply(&mut state.durable);
        }
    }

    pub(in crate::ring::sim) fn used_bytes(&self) -> u64 {
        let state = self.state.borrow();
        let bytes = state.visible.values().map(|node| match node {
            Node::File(file) => file.len_bytes(),
            Node::Folder(folder) => folder.used_bytes(),
        });
        bytes.sum()
    }

    pub(in crate::ring::sim) fn draw_kept_count(&self, random: &Random) -> usize {
        let pending_count = self.state.borrow().pending.len();
        match random.below(3) {
            0 => pending_count,
            1 => 0,
            _ => random.index(pending_count + 1),
        }
    }

    fn position_of(&self, number: u64) -> Option<usize> {
        self.state.borrow().pending.iter().position(|(pending, _)| *pending == number)
    }

    pub(in crate::ring::sim) fn cut_power(&self, kept_count: usize) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        for (_, change) in state.pending.drain(..).take(kept_count) {
            change.apply(&mut state.durable);
        }
        state.visible = state.durable.clone();
    }
}

impl Node {
    /// All folders and files that are to be found now or might be after a power cut, each once.
    pub(in crate::ring::sim) fn collect(&self, folders: &mut Vec<Rc<Folder>>, files: &mut Vec<Rc<FileNode>>) {
        match self {
            Self::File(file) if !files.iter().any(|known| Rc::ptr_eq(known, file)) => files.push(file.clone()),
            Self::Folder(folder) if !folders.iter().any(|known| Rc::ptr_eq(known, folder)) => {
                folders.push(folder.clone());
                let state = folder.state.borrow();
                let pending = state.pending.iter().filter_map(|(_, change)| match change {
                    NameChange::Link(_, node) | NameChange::MoveIn(_, node) | NameChange::Rename(_, _, node) => {
                        Some(node)
                    }
                    NameChange::Unlink(_) | NameChange::MoveOut(_) => None,
                });
                for node in state.durable.values().chain(pending).chain(state.visible.values()) {
                    node.collect(folders, files);
                }
            }
            _ => {}
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Link(name, node) | Self::MoveIn(name, node) => {
                names.insert(name.clone(), node.clone());
            }
            Self::Unlink(name) | Self::MoveOut(name) => {
                names.remove(name);
            }
            Self::Rename(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), node.clone());
            }
        }
    }
}

/// Where one half of a rename is kept, keeps the other half, and so all before it in that folder.
pub(in crate::ring::sim) fn join_renames(folders: &[Rc<Folder>], kept: &mut [usize]) {
    loop {
        let mut changed = false;
        for index in 0..folders.len() {
            let numbers: Vec<u64> =
                folders[index].state.borrow().pending.iter().take(kept[index]).map(|(number, _)| *number).collect();
            for number in numbers {
                for (other, folder) in folders.iter().enumerate() {
                    if let Some(position) = folder.position_of(number)
                        && kept[other] <= position
                    {
                        kept[other] = position + 1;
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            return;
        }
    }
}
