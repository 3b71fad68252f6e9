//! Disks of a test's own, mounted in a namespace of their own: nothing is left behind however the test ends.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at a process from outside")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A small disk that lives as long as this: its namespace's only process ends when our end of its standard input closes.
/// With the last process of the namespace goes the mount, and with that its loop device.
pub(crate) struct SmallDisk {
    holder: Child,
    mount_point: PathBuf,
}

impl SmallDisk {
    /// A tmpfs of 48 MiB. `None` where this user may not mount.
    pub(crate) fn tmpfs(mount_point: &Path) -> Option<Self> {
        Self::mount(mount_point, "mount -t tmpfs -o size=48m none \"$0\"", Path::new(""))
    }

    /// An ext4 of 64 MiB in the file `image`, over a loop device. `None` where this user, or the kernel, cannot.
    pub(crate) fn ext4(mount_point: &Path, image: &Path) -> Option<Self> {
        File::create(image).and_then(|file| file.set_len(64 << 20)).expect("a scratch file");
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image).stderr(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            return None;
        }
        Self::mount(mount_point, "mount -t ext4 -o loop \"$1\" \"$0\"", image)
    }

    fn mount(mount_point: &Path, mount: &str, image: &Path) -> Option<Self> {
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &format!("{mount} && echo mounted && exec cat")])
            .args([mount_point, image])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is there");
        let mut line = String::new();
        let said = BufReader::new(holder.stdout.take().expect("it is piped")).read_line(&mut line);
        if said.is_ok() && line.trim() == "mounted" {
            return Some(Self { holder, mount_point: mount_point.to_path_buf() });
        }
        let _ = holder.kill();
        let _ = holder.wait();
        None
    }

    /// A path of the disk, as this process can reach it.
    pub(crate) fn reach(&self, name: &str) -> PathBuf {
        let inside = self.mount_point.join(name);
        Path::new(&format!("/proc/{}/root", self.holder.id())).join(inside.strip_prefix("/").expect("absolute"))
    }

    /// What a command is put behind to see the disk.
    pub(crate) fn wrapper(&self) -> Vec<String> {
        let holder = self.holder.id().to_string();
        ["nsenter", "--target", &holder, "--mount", "--"].map(str::to_owned).to_vec()
    }

    /// From now on the file system refuses each write with EIO and each sync with EROFS, as after an error of its device.
    /// False where the kernel does not do that.
    pub(crate) fn fail(&self) -> bool {
        self.run("mount -o remount,abort \"$0\"", Path::new(""))
    }

    /// Takes the failed file system away, has it checked, and mounts it again. Nobody uses it.
    pub(crate) fn repair(&self, image: &Path) {
        // e2fsck says 1 where it has repaired something.
        let script = "umount \"$0\" && { e2fsck -fy \"$1\" >/dev/null 2>&1; [ $? -le 1 ]; } && mount -t ext4 -o loop \"$1\" \"$0\"";
        assert!(self.run(script, image), "{} cannot be repaired", image.display());
    }

    fn run(&self, script: &str, image: &Path) -> bool {
        let words = self.wrapper();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["sh", "-c", script]).args([&self.mount_point, image]);
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
