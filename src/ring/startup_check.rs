//! What this kernel and these limits offer, before the first core starts.
//!
//! Each lack comes with the command that mends it; nothing here panics.

use std::io;

use io_uring::opcode;

use crate::ring::core::CoreOptions;
use crate::ring::receive_ring::ReceiveRing;
use crate::ring::ring_mask::RingMask;
use crate::ring::syscall;
use crate::ring::uring::build;

/// What there is to run on.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The kernel's version, such as `(6, 18)`.
    pub kernel: (u32, u32),
    /// Optional features in use; `RingMask::ALL.without(features)` have their fallbacks.
    pub features: RingMask,
    /// Files that may be open at once.
    pub open_files_max: u64,
}

/// Why no core can run, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Lack {
    /// Older than 6.1.
    #[error("this kernel is {release}, and 6.1 is the least: boot a newer one")]
    OldKernel {
        /// As uname(2) says.
        release: String,
    },
    /// Built without io_uring.
    #[error("this kernel has no io_uring: boot one built with CONFIG_IO_URING")]
    NoRings,
    /// By the operator.
    #[error("io_uring is switched off (kernel.io_uring_disabled = {level}): sysctl -w kernel.io_uring_disabled=0")]
    SwitchedOff {
        /// The setting: 1 for all but a group, 2 for everybody.
        level: String,
    },
    /// By a filter of system calls, as containers have.
    #[error(
        "io_uring_setup is forbidden to this process, most likely by a seccomp filter: allow io_uring_setup, \
         io_uring_enter and io_uring_register in it (docker: --security-opt seccomp=PROFILE; \
         systemd: SystemCallFilter=io_uring_setup io_uring_enter io_uring_register)"
    )]
    Forbidden,
    /// Memory that may be locked.
    #[error(
        "the rings need {needed_bytes} bytes of locked memory and the limit is {limit_bytes}: \
         ulimit -l {} (systemd: LimitMEMLOCK={needed_bytes})",
        needed_bytes.div_ceil(1024)
    )]
    LockedMemory {
        /// For all cores.
        needed_bytes: u64,
        /// RLIMIT_MEMLOCK.
        limit_bytes: u64,
    },
    /// Descriptors.
    #[error(
        "{needed} open files are needed and the limit is {limit}: ulimit -n {needed} (systemd: LimitNOFILE={needed})"
    )]
    OpenFiles {
        /// For all cores.
        needed: u64,
        /// RLIMIT_NOFILE, the hard one.
        limit: u64,
    },
    /// Kernels are sometimes built or patched to leave some out.
    #[error("this kernel's io_uring has no {name}: boot a mainline 6.1 or newer")]
    Operation {
        /// Its name in io_uring_enter(2).
        name: &'static str,
    },
    /// Anything else, in the kernel's words.
    #[error("io_uring_setup failed: {0}")]
    Setup(io::Error),
}

/// Looks at kernel, rings and limits. Raises the soft limit of open files where the hard one allows.
///
/// # Errors
/// All that is lacking, each with what to do.
pub fn check(options: &CoreOptions, core_count: usize, open_files_needed: u64) -> Result<Offered, Vec<Lack>> {
    let mut lacks = Vec::new();
    let release = syscall::kernel_release();
    let kernel = parse_release(&release);
    if kernel.is_some_and(|kernel| kernel < KERNEL_MIN) {
        lacks.push(Lack::OldKernel { release });
    }
    let mut features = RingMask::NONE;
    match try_ring(options) {
        Ok((found, missing)) => {
            features = found;
            lacks.extend(missing.into_iter().map(|name| Lack::Operation { name }));
        }
        Err(error) => lacks.push(explain(error, options, core_count)),
    }
    let open_files_max = raise_open_files(open_files_needed);
    if open_files_max < open_files_needed {
        lacks.push(Lack::OpenFiles { needed: open_files_needed, limit: open_files_max });
    }
    if lacks.is_empty() {
        Ok(Offered { kernel: kernel.unwrap_or(KERNEL_MIN), features, open_files_max })
    } else {
        Err(lacks)
    }
}

/// Makes a ring as a core would, and gives it up again.
fn try_ring(options: &CoreOptions) -> io::Result<(RingMask, Vec<&'static str>)> {
    let (uring, features) = build(options)?;
    let mut probe = io_uring::Probe::new();
    uring.submitter().register_probe(&mut probe)?;
    let missing = NEEDED.into_iter().filter(|(_, code)| !probe.is_supported(*code)).map(|(name, _)| name).collect();
    if features.contains(RingMask::BUFFER_RING) {
        // Two small buffers: whether it works at all.
        let buffers = ReceiveRing::register(&uring, 2, 4096);
        drop(uring);
        buffers?;
    }
    Ok((features, missing))
}

fn explain(error: io::Error, options: &CoreOptions, core_count: usize) -> Lack {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => Lack::NoRings,
        Some(libc::EPERM | libc::EACCES) => match disabled_level() {
            Some(level) if level != "0" => Lack::SwitchedOff { level },
            _ => Lack::Forbidden,
        },
        Some(libc::ENOMEM) => {
            let ring_bytes = u64::from(options.submission_entries) * 64 + u64::from(options.completion_entries) * 16;
            let needed_bytes = (ring_bytes + RING_BYTES_EXTRA) * core_count as u64;
            let limit_bytes = syscall::limit(libc::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
            Lack::LockedMemory { needed_bytes, limit_bytes }
        }
        _ => Lack::Setup(error),
    }
}

/// The soft limit after raising it as far as is useful.
fn raise_open_files(needed: u64) -> u64 {
    let Ok((soft, hard)) = syscall::limit(libc::RLIMIT_NOFILE) else { return u64::MAX };
    if soft >= needed || syscall::set_soft_limit(libc::RLIMIT_NOFILE, needed).is_err() {
        return soft;
    }
    needed.min(hard)
}

#[allow(clippy::disallowed_methods)] // at start, from a file system in memory
fn disabled_level() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok().map(|text| text.trim().to_owned())
}

/// `6.18.44-fc` is `(6, 18)`.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

const KERNEL_MIN: (u32, u32) = (6, 1);
/// Room for page rounding and the ring's own header.
const RING_BYTES_EXTRA: u64 = 64 * 1024;
const NEEDED: [(&str, u8); 15] = [
    ("IORING_OP_READ", opcode::Read::CODE),
    ("IORING_OP_WRITE", opcode::Write::CODE),
    ("IORING_OP_FSYNC", opcode::Fsync::CODE),
    ("IORING_OP_FALLOCATE", opcode::Fallocate::CODE),
    ("IORING_OP_OPENAT", opcode::OpenAt::CODE),
    ("IORING_OP_CLOSE", opcode::Close::CODE),
    ("IORING_OP_STATX", opcode::Statx::CODE),
    ("IORING_OP_MKDIRAT", opcode::MkDirAt::CODE),
    ("IORING_OP_RENAMEAT", opcode::RenameAt::CODE),
    ("IORING_OP_UNLINKAT", opcode::UnlinkAt::CODE),
    ("IORING_OP_ACCEPT", opcode::Accept::CODE),
    ("IORING_OP_CONNECT", opcode::Connect::CODE),
    ("IORING_OP_RECV", opcode::Recv::CODE),
    ("IORING_OP_POLL_ADD", opcode::PollAdd::CODE),
    ("IORING_OP_ASYNC_CANCEL", opcode::AsyncCancel::CODE),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::core::tests::masks;

    #[test]
    fn this_machine_passes_with_each_feature_hidden() {
        for ring_mask in masks() {
            let options = CoreOptions { ring_mask, ..CoreOptions::default() };
            let offered = check(&options, 2, 100).unwrap();
            assert!(offered.kernel >= KERNEL_MIN);
            assert!(ring_mask == RingMask::NONE || !offered.features.contains(ring_mask), "{ring_mask} is hidden");
        }
    }

    #[test]
    fn lacks_name_what_mends_them() {
        let options = CoreOptions::default();
        let says = |error: i32| explain(io::Error::from_raw_os_error(error), &options, 2).to_string();
        assert!(says(libc::ENOSYS).contains("CONFIG_IO_URING"));
        assert!(says(libc::ENOMEM).contains("ulimit -l 512"), "{}", says(libc::ENOMEM));
        assert!(says(libc::EPERM).contains("seccomp") || says(libc::EPERM).contains("sysctl -w"));
        assert!(says(libc::EIO).contains("io_uring_setup failed"));
        let lacks = check(&options, 2, u64::MAX).unwrap_err();
        assert!(lacks.iter().any(|lack| lack.to_string().contains("ulimit -n")), "{lacks:?}");
    }

    #[test]
    fn releases_parse() {
        assert_eq!(parse_release("6.18.44-fc-v782"), Some((6, 18)));
        assert_eq!(parse_release("5.14.0-503.el9"), Some((5, 14)));
        assert_eq!(parse_release("plan9"), None);
    }
}
