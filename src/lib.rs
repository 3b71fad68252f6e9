#![doc = include_str!("../ARCHITECTURE.md")]

pub mod cli;
pub mod log;
pub mod record;
pub mod ring;
pub mod wire;
