//! The command line: flags to options, and what each command does.
//!
//! `args` names every flag; `command` runs what was asked. `serve` resolves the server's options and prints them; `topics`,
//! `groups`, `txns`, `produce`, `consume` and `bench_*` are clients that talk to a server (this one or Apache Kafka) through `connection` and
//! `cluster`; `dump` reads files of a data directory. Here ordinary sockets, files and threads are used: a command is its own process and no core waits for it.

pub mod address;
pub mod args;
pub mod bench_batch;
pub mod bench_fetch;
pub mod bench_meter;
pub mod bench_plan;
pub mod bench_produce;
pub mod bench_report;
pub mod bench_run;
pub mod byte_size;
pub mod client_error;
pub mod cluster;
pub mod command;
pub mod connection;
pub mod consume;
pub mod consume_args;
pub mod consume_report;
pub mod cores;
pub mod dump;
pub mod dump_args;
pub mod dump_catalog;
pub mod dump_error;
pub mod dump_index;
pub mod dump_producers;
pub mod dump_segment;
pub mod dump_sink;
pub mod dump_text;
pub mod dump_tier;
pub mod fetch_answer;
pub mod fetch_loop;
pub mod group_admin;
pub mod group_args;
pub mod groups;
pub mod hdfs_args;
pub mod interrupt;
pub mod offset_place;
pub mod output;
pub mod partition_reader;
pub mod partitioner;
pub mod produce;
pub mod produce_args;
pub mod produce_lane;
pub mod producer;
pub mod progress;
pub mod record_format;
pub mod record_input;
pub mod record_json;
pub mod restore_files;
pub mod restore_source;
pub mod serve;
pub mod serve_options;
pub mod tier;
pub mod tier_args;
pub mod tier_cat;
pub mod tier_restore;
pub mod tier_scrub;
pub mod tier_verify;
pub mod topic_admin;
pub mod topics;
pub mod txn_admin;
pub mod txn_args;
pub mod txns;
