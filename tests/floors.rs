//! The house rules that a machine can check: floors, file sizes, first lines, words, where `unsafe` may stand.
#![allow(clippy::disallowed_methods, reason = "reads the source tree")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders from the ground up. A file imports from floors below its own; never from its own floor's other folders.
const FLOORS: &[&[&str]] = &[
    &["ring"],
    &["record", "wire"],
    &["log", "group", "txn", "control"],
    &["tier"],
    &["shard"],
    &["api"],
    &["server"],
    &["cli"],
    &["main"],
];

/// `record` and `wire` stand on the ring's floor in the design: they know neither it nor each other.
const STAND_ALONE: &[&str] = &["record", "wire"];

/// Words that say nothing of what a thing is.
const BANNED_NAMES: &[&str] = &["util", "utils", "common", "types", "helpers", "manager", "base", "misc"];

/// Longest file that needs no reason.
const LINES_MAX: usize = 600;

/// Longer files, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

struct Source {
    path: PathBuf,
    folder: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("src is readable") {
            let path = entry.expect("src is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&root).expect("found under src");
                let first = inside.components().next().expect("a file has a name").as_os_str().to_string_lossy();
                let folder = first.trim_end_matches(".rs").to_string();
                found.push(Source {
                    text: fs::read_to_string(&path).expect("UTF-8"),
                    path: inside.to_path_buf(),
                    folder,
                });
            }
        }
    }
    found.sort_by(|one, next| one.path.cmp(&next.path));
    assert!(found.len() > 20, "only {} files found: the test looks in the wrong place", found.len());
    found
}

fn floor_of(folder: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&folder))
}

/// The folders that a file imports from, with the line.
fn imports(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        for (at, _) in code.match_indices("crate::") {
            let rest = &code[at + "crate::".len()..];
            let folder: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !folder.is_empty() {
                found.push((folder, number + 1));
            }
        }
    }
    found
}

#[test]
fn no_arrow_goes_back_up() {
    let mut wrong = Vec::new();
    for source in sources() {
        if source.folder == "lib" {
            continue;
        }
        let Some(own) = floor_of(&source.folder) else {
            wrong.push(format!("{}: folder `{}` has no floor", source.path.display(), source.folder));
            continue;
        };
        for (folder, line) in imports(&source.text) {
            if folder == source.folder {
                continue;
            }
            let below =
                floor_of(&folder).is_some_and(|floor| floor < own) && !STAND_ALONE.contains(&source.folder.as_str());
            if !below {
                wrong.push(format!("{}:{line} imports from `{folder}`", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "imports that do not go down:\n{}", wrong.join("\n"));
}

#[test]
fn the_arrow_check_can_fail() {
    let found = imports("use crate::server::boot;\n// crate::cli in a comment\nlet x = crate::ring::io::Io;");
    assert_eq!(found, [("server".to_string(), 1), ("ring".to_string(), 3)]);
    assert!(floor_of("server") > floor_of("shard"));
}

#[test]
fn files_stay_readable() {
    let mut wrong = Vec::new();
    let mut lines_of: Vec<(usize, String)> = Vec::new();
    for source in sources() {
        let name = source.path.display().to_string();
        let lines = source.text.lines().count();
        lines_of.push((lines, name.clone()));
        if lines > LINES_MAX && !LONG_FILES.iter().any(|(file, _)| *file == name) {
            wrong.push(format!("{name}: {lines} lines, {LINES_MAX} at most"));
        }
        let first = source.text.lines().next().unwrap_or("");
        let is_root = name == "lib.rs";
        if !is_root && !first.starts_with("//! ") {
            wrong.push(format!("{name}: the first line says nothing (`//! ...`)"));
        }
        if first.len() > 140 {
            wrong.push(format!("{name}: the first line has {} characters", first.len()));
        }
        let stem = source.path.file_stem().expect("a file has a name").to_string_lossy().to_string();
        if BANNED_NAMES.contains(&stem.as_str()) {
            wrong.push(format!("{name}: `{stem}` names nothing"));
        }
    }
    lines_of.sort();
    let (median, largest) = (lines_of[lines_of.len() / 2].0, lines_of.last().expect("there are files"));
    println!("{} files, median {median} lines, largest {} ({})", lines_of.len(), largest.0, largest.1);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_in_ring_alone() {
    let mut wrong = Vec::new();
    for source in sources().into_iter().filter(|source| source.folder != "ring") {
        for (number, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if code.contains("unsafe ") || code.contains("allow(unsafe_code") {
                wrong.push(format!("{}:{}", source.path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe outside ring:\n{}", wrong.join("\n"));
}

#[test]
fn no_folder_outgrows_the_house() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    for source in sources() {
        // Generated from Kafka's descriptors: not written, not read.
        if source.path.starts_with("wire/messages") {
            continue;
        }
        let count = source.text.lines().count();
        *lines.entry(source.folder).or_default() += count;
        total += count;
    }
    for (folder, count) in &lines {
        println!("{folder}: {count} lines, {} %", count * 100 / total);
        assert!(count * 3 < total, "`{folder}` has {count} of {total} lines: over a third of the house");
    }
}
