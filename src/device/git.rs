//! Commit and cleanliness of a folder, by asking the `git` program.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Bytes of git's answer that are read: the commit stands in the first lines, and one changed file is
/// enough to know.
const ANSWER_BYTES_MAX: u64 = 1 << 16;

/// Commit (empty outside a repository) and whether tracked files differ from it. Gives up after
/// `timeout`.
pub(super) fn state(folder: &Path, timeout: Duration) -> (String, bool) {
    let child = Command::new("git")
        .args([
            "status",
            "--porcelain=v2",
            "--branch",
            "--untracked-files=no",
        ])
        .current_dir(folder)
        // Looking must not write to the repository, nor ask anybody anything.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    match child {
        Ok(child) => answer(child, timeout),
        Err(_) => (String::new(), false),
    }
}

fn answer(mut child: Child, timeout: Duration) -> (String, bool) {
    let (sender, receiver) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        // The pipe closes when git ends or is killed, and with it this thread.
        let _ = thread::Builder::new()
            .name("git".to_string())
            .spawn(move || {
                let _ = sender.send(parse(BufReader::new(output.take(ANSWER_BYTES_MAX))));
            });
    }
    let found = receiver.recv_timeout(timeout).unwrap_or_default();
    let _ = child.kill();
    let _ = child.wait();
    found
}

fn parse(answer: impl BufRead) -> (String, bool) {
    let mut commit = String::new();
    for line in answer.lines().map_while(Result::ok) {
        match line.strip_prefix("# ") {
            // `(initial)` before the first commit.
            Some(header) => {
                if let Some(oid) = header.strip_prefix("branch.oid ")
                    && oid.bytes().all(|byte| byte.is_ascii_hexdigit())
                {
                    commit = oid.to_string();
                }
            }
            None => return (commit, true),
        }
    }
    (commit, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_understood() {
        let clean = "# branch.oid 0123abcd\n# branch.head main\n";
        assert_eq!(parse(clean.as_bytes()), ("0123abcd".to_string(), false));
        let dirty = format!("{clean}1 .M N... 100644 100644 100644 a b file\n");
        assert_eq!(parse(dirty.as_bytes()), ("0123abcd".to_string(), true));
        assert_eq!(
            parse("# branch.oid (initial)\n".as_bytes()),
            (String::new(), false)
        );
        assert_eq!(parse("".as_bytes()), (String::new(), false));
    }

    #[test]
    fn a_folder_outside_a_repository_has_no_commit() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            state(folder.path(), Duration::from_secs(10)),
            (String::new(), false)
        );
    }

    #[test]
    fn a_git_that_does_not_answer_is_given_up() {
        let child = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(
            answer(child, Duration::from_millis(20)),
            (String::new(), false)
        );
    }
}
