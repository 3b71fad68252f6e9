//! How HDFS is reached and written to, as the operator says.

/// What a client of HDFS is made of, besides its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HdfsOptions {
    /// `--hadoop-conf`: the folder with core-site.xml and hdfs-site.xml; HADOOP_CONF_DIR where it is not given.
    pub config_dir: Option<String>,
    /// `--hdfs-user`
    pub user: Option<String>,
    /// `--hdfs-principal`
    pub principal: Option<String>,
    /// `--hdfs-keytab`
    pub keytab: Option<String>,
    /// `--hdfs-replication`; the cluster's default where it is not given.
    pub replication: Option<u32>,
    /// `--hdfs-conf KEY=VALUE`: over those of the files.
    pub settings: Vec<(String, String)>,
    /// `--tier-deadline`: after that long a call of the store has failed, in milliseconds.
    pub deadline_ms: u64,
    /// `--tier-watchdog`: so has one whose bytes have not moved for that long, in milliseconds.
    pub watchdog_ms: u64,
}

/// How the names of the threads that speak to HDFS begin; a panic there ends a call, anywhere else the process.
pub const TIER_THREADS: &str = "tier-";
