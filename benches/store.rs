//! What recording costs: an entry of the journal, folding a journal, listing runs.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::collections::BTreeMap;
use std::path::Path;

use divan::Bencher;
use trainer::run::{
    Attempt, Epoch, Event, Phases, RunDir, RunId, RunIdentity, RunState, StateCause, Step,
    StepReport,
};
use trainer::store::{
    DIRECTORY_FORMAT, JOURNAL_FORMAT, Journal, MetricQuery, Runs, metrics, summary, write_summary,
};

const ATTEMPT: Attempt = Attempt::new(1);

fn main() {
    divan::main();
}

fn step(step: u64) -> Event {
    Event::StepFinished(StepReport {
        step: Step::new(step),
        epoch: Epoch::new(0),
        samples: 512,
        tokens: 0,
        loss: 0.123_456_789,
        learning_rate: 0.001,
        gradient_norm: 1.234_567,
        seconds: 0.005_123,
        phases: Phases {
            data: 0.000_01,
            forward: 0.002,
            backward: 0.002_5,
            reduce: 0.000_1,
            optimizer: 0.000_3,
            checkpoint: 0.0,
        },
        metrics: BTreeMap::from([("accuracy".to_string(), 0.876_5)]),
    })
}

fn run(folder: &Path, name: &str, steps: u64) -> RunDir {
    let dir = RunDir::new(folder.join(name));
    std::fs::create_dir_all(dir.root()).unwrap();
    let identity = RunIdentity {
        format: DIRECTORY_FORMAT,
        id: RunId::new(),
        name: name.to_string(),
        created_ms: 0,
    };
    std::fs::write(dir.identity(), serde_json::to_vec(&identity).unwrap()).unwrap();
    let mut journal = Journal::create(&dir).unwrap();
    journal.append(
        Event::RunCreated {
            format: JOURNAL_FORMAT,
            id: identity.id,
            name: name.to_string(),
            config_sha256: "0".repeat(64),
        },
        ATTEMPT,
    );
    for at in 1..=steps {
        journal.append(step(at), ATTEMPT);
    }
    journal.append(
        Event::StateChanged {
            from: RunState::Running,
            to: RunState::Completed,
            cause: StateCause::LengthReached,
            reason: "the configured length is reached".to_string(),
        },
        ATTEMPT,
    );
    journal.flush();
    let bytes = journal.bytes();
    write_summary(&dir, &summary(&dir).unwrap(), bytes).unwrap();
    dir
}

/// One step as the supervisor records it: append, hand to the kernel, sync once a second.
#[divan::bench]
fn record_a_step(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::new(folder.path());
    let mut journal = Journal::create(&dir).unwrap();
    let mut at = 0;
    bencher.bench_local(|| {
        at += 1;
        journal.append(step(at), ATTEMPT);
        journal.flush();
        journal.sync_if_due()
    });
}

/// The whole journal of 10,000 steps, without a cache.
#[divan::bench(sample_count = 10)]
fn fold_ten_thousand_steps(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let dir = run(folder.path(), "run-00000001", 10_000);
    std::fs::remove_file(dir.summary()).unwrap();
    bencher.bench(|| summary(&dir).unwrap());
}

/// One metric of 10,000 steps.
#[divan::bench(sample_count = 10)]
fn query_a_metric_of_ten_thousand_steps(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let dir = run(folder.path(), "run-00000001", 10_000);
    let query = MetricQuery {
        split: Some("train".to_string()),
        name: Some("loss".to_string()),
        from: None,
    };
    bencher.bench(|| metrics(&dir, &query).unwrap());
}

/// What `trainer ls` does with 1,000 finished runs.
#[divan::bench(sample_count = 10)]
fn list_a_thousand_runs(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..1_000 {
        run(folder.path(), &format!("run-{number:08x}"), 10);
    }
    let runs = Runs::open(folder.path());
    bencher.bench(|| runs.list().unwrap());
}
