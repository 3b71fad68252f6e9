//! Why a dump ends with exit code 1.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What went wrong with a dump.
#[derive(Debug, Error)]
pub enum DumpError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Its name.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Standard output refused a line.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// A name that says nothing.
    #[error(
        "{}: not a file that is known by its name; `alluvium dump --help` lists those that are (a copy keeps its name: 00000000000000000000.log)",
        path.display()
    )]
    UnknownName {
        /// Its name.
        path: PathBuf,
    },
    /// A folder without a known file.
    #[error("{}: no file in it is known by its name", path.display())]
    NothingIn {
        /// The folder.
        path: PathBuf,
    },
    /// Some files are not whole.
    #[error("{damaged} of {files} files not whole; the first: {first}")]
    NotWhole {
        /// How many are not.
        damaged: usize,
        /// How many were looked at.
        files: usize,
        /// Which, where, what.
        first: String,
    },
}

impl DumpError {
    /// An error of a file.
    pub fn of_file(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self::File { path: path.to_path_buf(), source }
    }

    /// The reader of standard output has gone (`| head`): no error.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
