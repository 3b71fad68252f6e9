//! The tier: sealed segments on a second store, and what is known of them.
//!
//! Pure, but for the stores and the metadata's file: [`mover`] decides when work may be done, [`remote_segments`] what there
//! is, and `shard` carries it out. Formats are in `FORMAT.md`.

pub mod backlog_watch;
pub mod batch_walk;
#[cfg(any(test, feature = "hdfs"))]
pub mod companion;
pub mod directory_store;
pub mod error;
#[cfg(feature = "hdfs")]
mod hdfs_error;
pub mod hdfs_options;
#[cfg(feature = "hdfs")]
pub mod hdfs_store;
pub mod index_check;
pub mod lineage;
pub mod manifest;
pub mod manifest_folder;
pub mod manifest_view;
pub mod metadata;
pub mod metadata_file;
pub mod metadata_image;
pub mod mover;
pub mod owner;
pub mod remote_expiry;
pub mod remote_segments;
pub mod segment_file;
pub mod segment_state;
#[cfg(any(test, feature = "sim"))]
pub mod sim_store;
pub mod store;
pub mod survey;
pub mod tier_url;
