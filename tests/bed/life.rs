//! Looking at a bed's processes from outside, and killing one.

use std::path::Path;

/// The command lines of the processes that name a bed's folder.
pub(super) fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap();
    let lines =
        processes.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&dir)).collect()
}

/// SIGKILL, as the end that nobody can prepare for.
pub(super) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
