//! The real server, looked at from outside: directories, full disks, deletion, the tier, commands. One binary, so that it links
//! once; what needs the machine for itself has one of its own (`server_*.rs`).

mod commands;
mod directories;
mod disk_full;
mod retention;
mod small_disk;
#[path = "../support/mod.rs"]
mod support;
mod tier;
mod tier_changes;
mod tier_restore;
