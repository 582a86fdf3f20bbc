//! What a person sees: the progress display on a real terminal, plain lines elsewhere.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rexpect::session::{PtySession, spawn_command};

use crate::digits::digits;
use crate::support::Trainer;

const TIMEOUT_MS: u64 = 60_000;

/// A command on a terminal of 100 columns and 30 rows.
fn on_terminal(trainer: &Trainer, arguments: &[&str]) -> PtySession {
    let inner = trainer.prepare(arguments);
    let mut command = Command::new("sh");
    command
        .args(["-c", "stty cols 100 rows 30; exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(inner.get_current_dir().unwrap())
        .env("TERM", "xterm-256color");
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    spawn_command(command, Some(TIMEOUT_MS)).unwrap()
}

#[test]
fn a_terminal_shows_progress_and_ctrl_c_pauses() {
    let trainer = digits().set("train.epochs=1000");
    let config = trainer.config_path().to_str().unwrap().to_string();
    let mut session = on_terminal(&trainer, &["run", &config, "--set", "train.epochs=1000"]);
    session.exp_string("digits-").unwrap();
    session.exp_regex("(?i)loss").unwrap();
    session.exp_regex("valid at step [0-9]+").unwrap();
    session.send_control('c').unwrap();
    let tail = session.exp_eof().unwrap();
    assert!(tail.contains("paused"), "{tail}");
    assert!(tail.contains("trainer resume"), "{tail}");
    // Whatever was hidden while it drew is there again.
    let hidden = tail.rfind("\u{1b}[?25l");
    let shown = tail.rfind("\u{1b}[?25h");
    assert!(hidden <= shown, "the cursor stays hidden");
    assert_eq!(trainer.show("latest")["state"], "paused");
}

#[test]
fn no_colour_is_respected() {
    let colours = |trainer: Trainer| {
        trainer.run_with(&["--quiet"]).succeeds();
        on_terminal(&trainer, &["show", "latest"])
            .exp_eof()
            .unwrap()
            .contains("\u{1b}[")
    };
    assert!(colours(digits().set("train.epochs=1")));
    assert!(!colours(
        digits().set("train.epochs=1").environment("NO_COLOR", "1")
    ));
}

#[test]
fn without_a_terminal_there_are_few_plain_lines() {
    let trainer = digits();
    let answer = trainer.run().succeeds();
    assert!(answer.stdout.lines().count() < 60, "{}", answer.stdout);
    assert!(!answer.stdout.contains('\u{1b}') && !answer.stderr.contains('\u{1b}'));
    for text in [
        "run digits-",
        "training on",
        "valid at step",
        "test at step",
        "completed",
    ] {
        assert!(
            answer.stdout.contains(text),
            "no `{text}` in {}",
            answer.stdout
        );
    }
    let trainer = digits().set("train.epochs=1");
    let quiet = trainer.run_with(&["--quiet"]).succeeds();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

#[test]
fn programs_get_one_event_per_line() {
    let trainer = digits().set("train.epochs=1");
    let lines = trainer.run_with(&["--json"]).succeeds().json_lines();
    let first = &lines[0];
    assert_eq!(first["format"], 1);
    let shown = trainer.show("latest");
    for field in ["id", "name", "directory"] {
        assert_eq!(first[field], shown[field]);
    }
    assert!(
        lines
            .iter()
            .enumerate()
            .all(|(index, line)| line["seq"] == index)
    );
    let last = &lines.last().unwrap()["event"]["state_changed"];
    assert_eq!(last["to"], "completed");
}

#[test]
fn a_run_does_not_need_its_reader() {
    let trainer = digits();
    let config = trainer.config_path().to_str().unwrap();
    let mut child = trainer
        .prepare(&["run", config, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    drop(stdout);
    assert!(child.wait().unwrap().success());
    assert_eq!(trainer.show("latest")["state"], "completed");
}

#[test]
fn removing_asks_at_a_terminal() {
    let trainer = digits().set("train.epochs=1");
    trainer.run_with(&["--quiet"]).succeeds();
    for (answer, left) in [("n", 1), ("y", 0)] {
        let mut session = on_terminal(&trainer, &["rm", "latest"]);
        session.exp_string("[y/N]").unwrap();
        session.send_line(answer).unwrap();
        session.exp_eof().unwrap();
        assert_eq!(trainer.run_dirs().len(), left, "{answer}");
    }
}
