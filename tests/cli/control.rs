//! Asking a live run for something from another process.

use crate::digits::digits;

#[test]
fn a_live_run_answers() {
    let trainer = digits().set("train.epochs=1000");
    let mut run = trainer.start();
    let header = run.wait_for_header();
    let name = header["name"].as_str().unwrap().to_string();
    run.wait_for_step(3);
    let shown = trainer.show(&name);
    assert_eq!(
        (&shown["state"], &shown["alive"]),
        (&"running".into(), &true.into())
    );
    let written = trainer.command(&["checkpoint", &name]).succeeds();
    assert!(
        std::path::Path::new(written.stdout.trim()).is_dir(),
        "{written:?}"
    );
    trainer
        .command(&["pause", &name])
        .succeeds()
        .prints("paused");
    run.wait().succeeds();
    assert_eq!(trainer.show(&name)["state"], "paused");

    let mut run = trainer.start_resume();
    run.wait_for("training_began", |_| true);
    trainer
        .command(&["stop", "latest"])
        .succeeds()
        .prints("cancelled");
    run.wait().succeeds();
    let shown = trainer.show(&name);
    assert_eq!(
        (&shown["state"], &shown["attempts"]),
        (&"cancelled".into(), &2.into())
    );

    for command in ["pause", "stop", "checkpoint"] {
        trainer
            .command(&[command, &name])
            .fails_with(2, &["not running", "cancelled", "trainer resume"]);
    }
}

#[test]
fn followers_see_the_end() {
    let trainer = digits();
    let run = trainer.start();
    let mut follower = None;
    for _ in 0..600 {
        if !trainer.run_dirs().is_empty() {
            follower = Some(
                trainer
                    .command(&["logs", "latest", "--follow", "--json"])
                    .succeeds(),
            );
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let entries = follower.expect("a run").json_lines();
    run.wait().succeeds();
    assert_eq!(
        entries.last().unwrap()["event"]["state_changed"]["to"],
        "completed"
    );
    assert!(
        entries
            .iter()
            .enumerate()
            .all(|(index, entry)| entry["seq"] == index)
    );
}

#[test]
fn runs_are_removed_on_request_only() {
    let trainer = digits().set("train.epochs=1");
    trainer.run_with(&["--quiet"]).succeeds();
    trainer.command(&["rm", "latest"]).fails_with(2, &["--yes"]);
    assert_eq!(trainer.run_dirs().len(), 1);
    trainer
        .command(&["rm", "latest", "absent", "--yes"])
        .fails_with(2, &["absent"]);
    assert_eq!(trainer.run_dirs().len(), 1);
    trainer
        .command(&["rm", "latest", "--yes"])
        .succeeds()
        .prints("removed");
    assert_eq!(std::fs::read_dir(trainer.runs_dir()).unwrap().count(), 0);
}
