//! What HDFS's client says, in words for the operator.

use std::io;

use hdfs_native::HdfsError;

/// An error as the store's callers know errors. `NotFound` is said of names in HDFS alone: whoever deletes believes it.
pub(in crate::tier) fn into_io(cluster: &str, error: HdfsError) -> io::Error {
    let text = format!("{cluster}: {error}");
    match error {
        HdfsError::FileNotFound(_) => io::Error::new(io::ErrorKind::NotFound, text),
        HdfsError::RPCError(class, _) | HdfsError::FatalRPCError(class, _)
            if class.ends_with(".FileNotFoundException") =>
        {
            io::Error::new(io::ErrorKind::NotFound, text)
        }
        // Of this machine, a keytab or a library say.
        HdfsError::IOError(error) if error.kind() == io::ErrorKind::NotFound => io::Error::other(text),
        HdfsError::IOError(error) => io::Error::new(error.kind(), text),
        HdfsError::GSSAPIError(..) => io::Error::other(format!("{text}; {KERBEROS_HINT}")),
        HdfsError::NoSASLMechanism => io::Error::other(format!("{text}; {NO_KERBEROS_HINT}")),
        HdfsError::RPCError(_, message) | HdfsError::FatalRPCError(_, message)
            if message.contains("SIMPLE authentication is not enabled") =>
        {
            io::Error::other(format!("{text}; {NO_KERBEROS_HINT}"))
        }
        _ => io::Error::other(text),
    }
}

const KERBEROS_HINT: &str = "look at --hdfs-principal, --hdfs-keytab, and krb5.conf (KRB5_CONFIG)";
const NO_KERBEROS_HINT: &str = "this HDFS wants Kerberos: give --hdfs-principal, --hdfs-keytab, and --hadoop-conf with a \
     core-site.xml that says hadoop.security.authentication=kerberos";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_in_hdfs_are_not_found() {
        let rpc = |class: &str, message: &str| HdfsError::RPCError(class.to_owned(), message.to_owned());
        let cases = [
            (HdfsError::FileNotFound("/a".to_owned()), io::ErrorKind::NotFound, "/a"),
            (rpc("java.io.FileNotFoundException", "no /a"), io::ErrorKind::NotFound, "no /a"),
            (HdfsError::IOError(io::ErrorKind::NotFound.into()), io::ErrorKind::Other, "hdfs://n:1"),
            (
                HdfsError::IOError(io::ErrorKind::ConnectionRefused.into()),
                io::ErrorKind::ConnectionRefused,
                "hdfs://n:1",
            ),
            (HdfsError::NoSASLMechanism, io::ErrorKind::Other, "--hdfs-keytab"),
            (
                rpc("o.a.h.s.AccessControlException", "SIMPLE authentication is not enabled."),
                io::ErrorKind::Other,
                "Kerberos",
            ),
            (rpc("o.a.h.h.s.namenode.SafeModeException", "safe"), io::ErrorKind::Other, "SafeModeException"),
        ];
        for (error, kind, word) in cases {
            let said = format!("{error:?}");
            let converted = into_io("hdfs://n:1", error);
            assert_eq!(converted.kind(), kind, "{said}");
            assert!(converted.to_string().contains(word), "{converted}");
        }
    }
}
