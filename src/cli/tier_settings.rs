//! Settings of Kafka's and of its HDFS plugin that say where the tier is and how it is reached.

use thiserror::Error;

use crate::tier::hdfs_options::HdfsOptions;
use crate::tier::tier_url::{TierUrl, TierUrlError};

/// Why these settings make no tier.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TierSettingError {
    /// It is to be on, and is nowhere.
    #[error("remote.log.storage.system.enable=true, and nothing says where the tier is: give --tier URL")]
    NoPlace,
    /// It is to be off, and somewhere.
    #[error("remote.log.storage.system.enable=false, and --tier is given: leave one of them out")]
    Off,
    /// Hadoop's configuration would say which cluster it is.
    #[error(
        "remote.log.storage.hdfs.base.dir={base} names no cluster: set remote.log.storage.hdfs.fs.uri=hdfs://NAMENODE:PORT, \
         or give --tier hdfs://NAMENODE:PORT{base}"
    )]
    NoCluster {
        /// The folder.
        base: String,
    },
    /// It is no place.
    #[error("remote.log.storage.hdfs.base.dir: {0}")]
    Url(#[from] TierUrlError),
}

/// The name of a setting in full. The plugin's came with and without their prefixes over the years.
#[must_use]
pub fn full_name(key: &str) -> String {
    let plain = key.strip_prefix("rsm.config.").unwrap_or(key);
    match plain {
        plain if plain.starts_with("hdfs.") && !plain.starts_with(HADOOPS) => format!("{PREFIX}{plain}"),
        _ => plain.to_owned(),
    }
}

/// The tier that the settings name, where no flag does.
///
/// # Errors
/// They say too little, or the opposite of the flag.
pub fn tier_of(flag: Option<&TierUrl>, settings: &[(String, String)]) -> Result<Option<TierUrl>, TierSettingError> {
    let said = |name: &str| {
        let found = settings.iter().rev().find(|(key, _)| full_name(key).strip_prefix(PREFIX) == Some(name));
        found.map(|(_, value)| value.trim())
    };
    let enabled = said("system.enable").map(|value| value.eq_ignore_ascii_case("true"));
    match (flag, enabled, said("hdfs.base.dir")) {
        (Some(_), Some(false), _) => Err(TierSettingError::Off),
        (Some(_), ..) | (None, Some(false), _) | (None, None, None) => Ok(None),
        (None, Some(true), None) => Err(TierSettingError::NoPlace),
        (None, _, Some(base)) => {
            let url = match said("hdfs.fs.uri") {
                _ if base.contains("://") => base.to_owned(),
                Some(cluster) => format!("{}/{}", cluster.trim_end_matches('/'), base.trim_start_matches('/')),
                None => return Err(TierSettingError::NoCluster { base: base.to_owned() }),
            };
            Ok(Some(url.parse()?))
        }
    }
}

/// Takes a setting that says where the tier is, or how HDFS is reached; Hadoop's own come behind `hdfs.conf.`. False where
/// it is another one. A flag that says the same comes first.
pub fn take_setting(options: &mut HdfsOptions, key: &str, value: &str) -> bool {
    let full = full_name(key);
    if let Some(key) = full.strip_prefix(HADOOPS) {
        if !options.settings.iter().any(|(other, _)| other == key) {
            options.settings.push((key.to_owned(), value.to_owned()));
        }
        return true;
    }
    let place = match full.strip_prefix(PREFIX) {
        Some("hdfs.user") => &mut options.user,
        Some("hdfs.keytab.path") => &mut options.keytab,
        // See `tier_of`.
        Some("system.enable" | "hdfs.base.dir" | "hdfs.fs.uri") => return true,
        _ => return false,
    };
    place.get_or_insert_with(|| value.to_owned());
    true
}

/// The plugin logs in by its keytab as its user: that is the principal, where no flag names one.
pub fn settle(options: &mut HdfsOptions) {
    if options.keytab.is_some() && options.principal.is_none() {
        options.principal = options.user.take();
    }
}

const PREFIX: &str = "remote.log.storage.";
const HADOOPS: &str = "hdfs.conf.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_plugin_are_taken_where_no_flag_says_otherwise() {
        let mut options = HdfsOptions { user: Some("flag".to_owned()), ..HdfsOptions::default() };
        let taken = [
            ("remote.log.storage.hdfs.user", "a", true),
            ("hdfs.user", "b", true),
            ("rsm.config.hdfs.keytab.path", "/k", true),
            ("hdfs.conf.dfs.client.socket-timeout", "3000", true),
            ("rsm.config.hdfs.conf.dfs.client.socket-timeout", "4", true),
            ("remote.log.storage.hdfs.base.dir", "/base", true),
            ("remote.log.storage.system.enable", "true", true),
            ("remote.log.storage.hdfs.remote.read.bytes", "1", false),
            ("log.retention.ms", "1", false),
        ];
        for (key, value, is_taken) in taken {
            assert_eq!(take_setting(&mut options, key, value), is_taken, "{key}");
        }
        assert_eq!((options.user.as_deref(), options.keytab.as_deref()), (Some("flag"), Some("/k")));
        assert_eq!(options.settings, [("dfs.client.socket-timeout".to_owned(), "3000".to_owned())]);
        settle(&mut options);
        assert_eq!((options.user, options.principal.as_deref()), (None, Some("flag")));
        assert_eq!(full_name("rsm.config.hdfs.remote.read.bytes"), "remote.log.storage.hdfs.remote.read.bytes");
        assert_eq!(full_name("log.retention.ms"), "log.retention.ms");
    }

    #[test]
    fn the_plugins_settings_name_a_tier() {
        let flag: TierUrl = "file:///mnt/base".parse().expect("a place");
        let on = ("remote.log.storage.system.enable", "true");
        let off = ("remote.log.storage.system.enable", "false");
        let base = ("remote.log.storage.hdfs.base.dir", "/kafka/tier");
        let cluster = ("remote.log.storage.hdfs.fs.uri", "hdfs://namenode:8020/");
        let named = Ok(Some("hdfs://namenode:8020/kafka/tier"));
        type Settings<'a> = &'a [(&'a str, &'a str)];
        type Wanted<'a> = Result<Option<&'a str>, &'a str>;
        type Case<'a> = (bool, Settings<'a>, Wanted<'a>);
        let cases: &[Case<'_>] = &[
            (false, &[], Ok(None)),
            (false, &[on, base, cluster], named),
            (false, &[("hdfs.base.dir", "/kafka/tier"), ("rsm.config.hdfs.fs.uri", "hdfs://namenode:8020")], named),
            (false, &[on, ("remote.log.storage.hdfs.base.dir", "hdfs://namenode:8020/kafka/tier")], named),
            (false, &[off, base, cluster], Ok(None)),
            (false, &[off, on, base, cluster], named),
            // The flag says where it is.
            (true, &[on], Ok(None)),
            (true, &[on, base], Ok(None)),
            (true, &[off], Err("leave one of them out")),
            (false, &[on], Err("give --tier URL")),
            (
                false,
                &[on, base],
                Err(
                    "set remote.log.storage.hdfs.fs.uri=hdfs://NAMENODE:PORT, or give --tier hdfs://NAMENODE:PORT/kafka/tier",
                ),
            ),
            (false, &[base, ("hdfs.fs.uri", "s3://bucket")], Err("\"s3://bucket/kafka/tier\" is no tier")),
        ];
        for (has_flag, settings, wanted) in cases {
            let pairs: Vec<_> = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            match (tier_of(has_flag.then_some(&flag), &pairs), wanted) {
                (Ok(found), Ok(wanted)) => {
                    assert_eq!(found.map(|url| url.to_string()).as_deref(), *wanted, "{settings:?}")
                }
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{settings:?}: {error}"),
                (found, _) => panic!("{settings:?}: {found:?}"),
            }
        }
    }
}
