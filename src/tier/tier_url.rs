//! Where the tier is, as an operator writes it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A store's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierUrl {
    /// `file:///mnt/hdd/base`: a folder of this machine.
    Directory(PathBuf),
}

/// A place that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no tier: write file:///an/absolute/folder")]
pub struct TierUrlError {
    /// As it was given.
    pub text: String,
}

impl FromStr for TierUrl {
    type Err = TierUrlError;

    fn from_str(text: &str) -> Result<Self, TierUrlError> {
        let refused = || TierUrlError { text: text.to_owned() };
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_and_printed() {
        for (text, printed) in [("file:///mnt/hdd", "file:///mnt/hdd"), ("file:///mnt/hdd/", "file:///mnt/hdd")] {
            assert_eq!(text.parse::<TierUrl>().expect(text).to_string(), printed);
        }
        for text in ["", "/mnt/hdd", "file://", "file:///", "file://host/x", "s3://bucket", "file://./x"] {
            assert!(text.parse::<TierUrl>().is_err(), "{text}");
        }
    }
}
