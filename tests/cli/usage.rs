//! What can be typed, and what happens when it is wrong.

use crate::support::Trainer;

#[test]
fn help_and_version_go_to_standard_output() {
    let trainer = Trainer::new();
    for command in [
        "run",
        "resume",
        "ls",
        "show",
        "metrics",
        "logs",
        "checkpoints",
        "pause",
        "bench",
    ] {
        trainer.command(&["--help"]).succeeds().prints(command);
        trainer
            .command(&[command, "--help"])
            .succeeds()
            .prints("Usage: trainer");
    }
    trainer
        .command(&["--version"])
        .succeeds()
        .prints(env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    let trainer = Trainer::new();
    let cases: [(&[&str], &str); 7] = [
        (&["runn"], "'run'"),
        (&["run"], "CONFIG"),
        (&["run", "a.toml", "--jsn"], "--json"),
        (&["show"], "RUN"),
        (&["metrics", "x", "--from", "soon"], "soon"),
        (&["completions", "tcsh"], "bash"),
        (&["logs", "x", "--rank", "0", "--json"], "--json"),
    ];
    for (arguments, text) in cases {
        trainer.command(arguments).fails_with(2, &[text]);
    }
    assert!(!trainer.runs_dir().exists(), "nothing is written");
}

#[test]
fn every_shell_gets_a_completion_script() {
    let trainer = Trainer::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        trainer
            .command(&["completions", shell])
            .succeeds()
            .prints("TRAINER_COMPLETE");
    }
}

/// What a shell's script asks: candidates for the last word.
fn candidates(trainer: &Trainer, words: &[&str]) -> String {
    let mut command = trainer.prepare(&["--"]);
    command.args(words).env("TRAINER_COMPLETE", "fish");
    let output = command.output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_and_run_names_complete() {
    let trainer = Trainer::new();
    trainer.write("runs/digits-0a1b2c3d/run.json", b"{}");
    trainer.write("runs/no-run/notes.txt", b"");
    let found = candidates(&trainer, &["trainer", "check"]);
    assert!(found.contains("checkpoints"), "{found}");
    for command in ["show", "resume", "metrics", "checkpoints", "rm", "pause"] {
        let found = candidates(&trainer, &["trainer", command, ""]);
        assert!(found.contains("digits-0a1b2c3d"), "{command}: {found}");
        assert!(found.contains("latest"), "{command}: {found}");
        assert!(!found.contains("no-run"), "{command}: {found}");
    }
}

#[test]
fn there_is_a_manual_page_per_command() {
    let trainer = Trainer::new();
    trainer.command(&["man"]).succeeds().prints(".TH trainer 1");
    let folder = trainer.path("man");
    trainer
        .command(&["man", "--out", folder.to_str().unwrap()])
        .succeeds();
    for page in ["trainer.1", "trainer-run.1", "trainer-config-show.1"] {
        assert!(folder.join(page).is_file(), "{page}");
    }
}

#[test]
fn a_missing_run_is_named_with_the_nearest() {
    let trainer = Trainer::new();
    trainer
        .command(&["show", "latest"])
        .fails_with(2, &["latest", "trainer ls"]);
    trainer.write("runs/digits-0a1b2c3d/run.json", b"{}");
    trainer
        .command(&["show", "digitz-0a1b2c3d"])
        .fails_with(2, &["digits-0a1b2c3d"]);
}
