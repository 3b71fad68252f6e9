//! Flags that say how HDFS is reached.

use clap::Args;

use crate::tier::hdfs_options::HdfsOptions;

/// How HDFS is reached.
#[derive(Clone, Debug, Default, Args, PartialEq, Eq)]
pub struct HdfsArgs {
    /// The folder with core-site.xml and hdfs-site.xml [default: HADOOP_CONF_DIR]
    #[arg(long, value_name = "DIR", help_heading = "HDFS")]
    pub hadoop_conf: Option<String>,
    /// The user to be in HDFS [default: HADOOP_USER_NAME, or the system's]
    #[arg(long, value_name = "NAME", help_heading = "HDFS")]
    pub hdfs_user: Option<String>,
    /// The Kerberos principal to be
    #[arg(long, value_name = "NAME", help_heading = "HDFS", requires = "hdfs_keytab")]
    pub hdfs_principal: Option<String>,
    /// The file with that principal's key
    #[arg(long, value_name = "FILE", help_heading = "HDFS", requires = "hdfs_principal")]
    pub hdfs_keytab: Option<String>,
    /// How often each block is kept [default: the cluster's]
    #[arg(long, value_name = "N", help_heading = "HDFS", value_parser = clap::value_parser!(u32).range(1..))]
    pub hdfs_replication: Option<u32>,
    /// A setting of Hadoop's, over those of the files; may be given several times
    #[arg(long = "hdfs-conf", value_name = "KEY=VALUE", help_heading = "HDFS", value_parser = parse_setting)]
    pub hdfs_settings: Vec<(String, String)>,
    /// After that long a call of the store has failed, in milliseconds [default: 60000]
    #[arg(long, value_name = "MS", help_heading = "HDFS", value_parser = clap::value_parser!(u64).range(1..))]
    pub tier_deadline: Option<u64>,
    /// So has one that reads or writes and whose bytes have not moved for that long, in milliseconds [default: 30000]
    #[arg(long, value_name = "MS", help_heading = "HDFS", value_parser = clap::value_parser!(u64).range(1..))]
    pub tier_watchdog: Option<u64>,
}

impl HdfsArgs {
    /// Resolved.
    #[must_use]
    pub fn options(&self) -> HdfsOptions {
        HdfsOptions {
            config_dir: self.hadoop_conf.clone(),
            user: self.hdfs_user.clone(),
            principal: self.hdfs_principal.clone(),
            keytab: self.hdfs_keytab.clone(),
            replication: self.hdfs_replication,
            settings: self.hdfs_settings.clone(),
            deadline_ms: self.tier_deadline.unwrap_or(DEADLINE_MS),
            watchdog_ms: self.tier_watchdog.unwrap_or(WATCHDOG_MS),
        }
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// A close may wait for DataNodes that are slow to report.
const DEADLINE_MS: u64 = 60_000;
const WATCHDOG_MS: u64 = 30_000;
