//! Where the tier is, as an operator writes it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(any(test, feature = "sim"))]
use crate::tier::sim_store::StoreFaults;

/// A store's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierUrl {
    /// `file:///mnt/hdd/base`: a folder of this machine.
    Directory(PathBuf),
    /// `hdfs://namenode:8020/base`, or a name service of the configuration in the place of the NameNode.
    Hdfs {
        /// Scheme and authority.
        cluster: String,
        /// The folder.
        base: String,
    },
    /// A simulated store in a folder of the simulated machine.
    #[cfg(any(test, feature = "sim"))]
    Simulated {
        /// The folder.
        base: PathBuf,
        /// What it does wrong.
        faults: StoreFaults,
    },
}

/// A place that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no tier: write file:///an/absolute/folder or hdfs://namenode:8020/folder")]
pub struct TierUrlError {
    /// As it was given.
    pub text: String,
}

impl FromStr for TierUrl {
    type Err = TierUrlError;

    fn from_str(text: &str) -> Result<Self, TierUrlError> {
        let refused = || TierUrlError { text: text.to_owned() };
        if let Some(rest) = text.strip_prefix("hdfs://") {
            let (authority, base) = rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).ok_or_else(refused)?;
            let base = base.trim_end_matches('/');
            if authority.is_empty() || base.is_empty() {
                return Err(refused());
            }
            return Ok(Self::Hdfs { cluster: format!("hdfs://{authority}"), base: base.to_owned() });
        }
        let path = text.strip_prefix("file://").ok_or_else(refused)?;
        let path = path.trim_end_matches('/');
        // `file://host/path` is not of this machine; `/` alone is nobody's.
        if !path.starts_with('/') {
            return Err(refused());
        }
        Ok(Self::Directory(PathBuf::from(path)))
    }
}

impl fmt::Display for TierUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "file://{}", path.display()),
            Self::Hdfs { cluster, base } => write!(f, "{cluster}{base}"),
            #[cfg(any(test, feature = "sim"))]
            Self::Simulated { base, .. } => write!(f, "sim://{}", base.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_and_printed() {
        for (text, printed) in [
            ("file:///mnt/hdd", "file:///mnt/hdd"),
            ("file:///mnt/hdd/", "file:///mnt/hdd"),
            ("hdfs://nn:8020/a/b/", "hdfs://nn:8020/a/b"),
        ] {
            assert_eq!(text.parse::<TierUrl>().expect(text).to_string(), printed);
        }
        for text in [
            "",
            "/mnt/hdd",
            "file://",
            "file:///",
            "file://host/x",
            "s3://bucket",
            "file://./x",
            "hdfs://nn",
            "hdfs:///a",
            "hdfs://nn/",
        ] {
            assert!(text.parse::<TierUrl>().is_err(), "{text}");
        }
    }
}
