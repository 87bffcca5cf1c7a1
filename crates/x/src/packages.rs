//! The system packages that tests need: which, why, and how they come to the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Package {
    program: &'static str,
    debian: &'static str,
    why: &'static str,
}

/// All of them. A linker (gcc) is not among them: without one, nothing here could have been built.
const PACKAGES: &[Package] = &[
    Package { program: "tshark", debian: "tshark", why: "reads back the captures that we export" },
    Package { program: "ip", debian: "iproute2", why: "makes the network namespaces that tests capture in" },
    Package { program: "python3", debian: "python3", why: "reads a ring back by the description of its bytes alone" },
    Package { program: "mkfs.ext4", debian: "e2fsprogs", why: "makes a file system that must not be formatted over" },
    Package {
        program: "prlimit",
        debian: "util-linux",
        why: "lets the disk of a recording fail, and takes files and memory from servers",
    },
    Package { program: "setpriv", debian: "util-linux", why: "asks as another user for what belongs to root" },
    Package { program: "qemu-io", debian: "qemu-utils", why: "uses an object as a disk, as virtual machines do" },
    Package { program: "nbdcopy", debian: "libnbd-bin", why: "copies to and from an object that is served as a disk" },
    Package { program: "fio", debian: "fio", why: "measures what the disk can do beside what we reach on it" },
];

/// How to get what is missing.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// The words before `apt-get`, and the packages.
    Install(&'static [&'static str], Vec<&'static str>),
    /// Why not, and what to do by hand.
    Impossible(String),
}

/// What this machine allows.
#[derive(Clone, Copy)]
struct Machine {
    apt: bool,
    root: bool,
    sudo: bool,
}

fn plan(missing: &[Package], machine: Machine) -> Plan {
    let names: Vec<&str> = missing.iter().map(|package| package.debian).collect();
    let by_hand = format!("sudo apt-get install {}", names.join(" "));
    match machine {
        _ if missing.is_empty() => Plan::Nothing,
        Machine { apt: false, .. } => Plan::Impossible(format!(
            "there is no apt-get here: install {} the way this system does it, or run `cargo x test --quick`",
            names.join(", ")
        )),
        Machine { root: true, .. } => Plan::Install(&[], names),
        Machine { sudo: true, .. } => Plan::Install(&["sudo"], names),
        _ => Plan::Impossible(format!(
            "this takes root and there is no sudo without a password here: run `{by_hand}`, or `cargo x test --quick`"
        )),
    }
}

/// Installs what tests need and this machine lacks, and says what and why.
pub fn ensure() -> Result<(), String> {
    let missing = missing();
    for package in &missing {
        println!("{} is missing: it {}; it comes with the package {}", package.program, package.why, package.debian);
    }
    let machine = Machine { apt: find("apt-get").is_some(), root: is_root(), sudo: sudo_works() };
    match plan(&missing, machine) {
        Plan::Nothing => return Ok(()),
        Plan::Impossible(reason) => return Err(reason),
        Plan::Install(prefix, names) => {
            println!("installing with apt-get: {}", names.join(" "));
            let wait = ["-o", "DPkg::Lock::Timeout=300"];
            apt(prefix, &[&["update", "--quiet"], &wait[..]].concat())?;
            let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
            apt(prefix, &[&install[..], &wait, &names].concat())?;
        }
    }
    match self::missing().as_slice() {
        [] => Ok(()),
        [package, ..] => Err(format!("{} was installed and {} is still not found", package.debian, package.program)),
    }
}

fn missing() -> Vec<Package> {
    PACKAGES.iter().copied().filter(|package| find(package.program).is_none()).collect()
}

/// Where a program is. Ordinary users do not have the places of the administrator's programs in their path.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    directories.map(|directory| directory.join(program)).find(|file| Path::is_file(file))
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn sudo_works() -> bool {
    let mut command = Command::new("sudo");
    command.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn apt(prefix: &[&str], arguments: &[&str]) -> Result<(), String> {
    // `env` carries the setting through sudo, which drops the environment.
    let words = [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], arguments].concat();
    let mut command = Command::new(words[0]);
    let status = command.args(&words[1..]).stdin(Stdio::null()).status();
    let status = status.map_err(|e| format!("`{}` cannot be run: {e}", words.join(" ")))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status}): see above", words.join(" "))) }
}

#[cfg(test)]
mod tests;
