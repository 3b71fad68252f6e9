//! The server: boot, listeners, connections, and a clean stop.

pub mod boot;
pub mod connection;
pub mod core_main;
pub mod data_dir;
pub mod frame_reader;
pub mod listener;
