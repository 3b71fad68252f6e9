#![doc = include_str!("../ARCHITECTURE.md")]

pub mod api;
pub mod cli;
pub mod control;
pub mod group;
pub mod log;
pub mod record;
pub mod ring;
pub mod server;
pub mod shard;
pub mod tier;
pub mod txn;
pub mod wire;
