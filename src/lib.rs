#![doc = include_str!("../ARCHITECTURE.md")]

pub mod control;
pub mod log;
pub mod record;
pub mod ring;
pub mod wire;
