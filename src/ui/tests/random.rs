//! Events in any order, with any values, at any width: no display panics, none writes beyond the
//! terminal.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::{Json, Plain, Progress, RunView, Style, panel};
use super::sample::{Sink, existing_origin, new_origin};
use super::terminal::Terminal;
use crate::run::{
    Attempt, CheckpointInfo, DataSummary, Entry, Epoch, Event, Fault, LayerSummary, PartSummary,
    Phases, Rank, Reader, RunId, RunState, StateCause, Step, StepReport,
};

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..100, any::<u64>(), Just(0), Just(u64::MAX)]
}

fn values() -> impl Strategy<Value = f64> {
    prop_oneof![
        -10.0..10.0,
        any::<f64>(),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(0.0)
    ]
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,12}",
        any::<String>(),
        ".{100,200}",
        "\u{1b}\\[[0-9]{1,3}[A-Z]"
    ]
}

fn metrics() -> impl Strategy<Value = BTreeMap<String, f64>> {
    prop::collection::btree_map(texts(), values(), 0..4)
}

fn states() -> impl Strategy<Value = RunState> {
    prop::sample::select(vec![
        RunState::Queued,
        RunState::Starting,
        RunState::Running,
        RunState::Pausing,
        RunState::Paused,
        RunState::Completed,
        RunState::EarlyStopped,
        RunState::Failed,
        RunState::Cancelled,
    ])
}

fn step_reports() -> impl Strategy<Value = Event> {
    (
        (numbers(), numbers(), numbers(), numbers()),
        (values(), values(), values(), values()),
        metrics(),
    )
        .prop_map(
            |((step, epoch, samples, tokens), (loss, rate, norm, seconds), metrics)| {
                Event::StepFinished(StepReport {
                    step: Step::new(step),
                    epoch: Epoch::new(epoch),
                    samples,
                    tokens,
                    loss,
                    learning_rate: rate,
                    gradient_norm: norm,
                    seconds,
                    phases: Phases::default(),
                    metrics,
                })
            },
        )
}

fn about_checkpoints() -> impl Strategy<Value = Event> {
    (numbers(), texts(), numbers(), values(), 0..4).prop_map(|(step, text, bytes, value, which)| {
        match which {
            0 => Event::CheckpointCommitted(CheckpointInfo {
                step: Step::new(step),
                directory: text.clone(),
                bytes,
                model_sha256: text,
                metric: Some(value),
                blocked_seconds: value,
                write_seconds: value,
            }),
            1 => Event::CheckpointFailed {
                step: Step::new(step),
                reason: text,
            },
            2 => Event::CheckpointRejected {
                checkpoint: text.clone(),
                reason: text,
            },
            _ => Event::CheckpointRemoved {
                step: Step::new(step),
            },
        }
    })
}

fn about_the_run() -> impl Strategy<Value = Event> {
    (texts(), states(), states(), numbers(), values(), 0..9).prop_map(
        |(text, from, to, number, value, which)| match which {
            0 => Event::RunCreated {
                format: 1,
                id: RunId::default(),
                name: text.clone(),
                config_sha256: text,
            },
            1 | 2 => Event::StateChanged {
                from,
                to,
                cause: StateCause::Started,
                reason: text,
            },
            3 => Event::ConfigChanged {
                config_sha256: text.clone(),
                changes: vec![text; 20],
            },
            4 => Event::DataPrepared {
                summary: Box::new(DataSummary {
                    kind: text.clone(),
                    parts: vec![
                        PartSummary {
                            split: text.clone(),
                            samples: number,
                            classes: vec![],
                        };
                        3
                    ],
                    warnings: vec![text; 20],
                    seconds: value,
                    ..DataSummary::default()
                }),
            },
            5 => Event::ModelBuilt {
                layers: vec![
                    LayerSummary {
                        name: text.clone(),
                        kind: text,
                        output: vec![],
                        parameters: number,
                    };
                    2
                ],
                parameters: number,
            },
            6 => Event::Warned { message: text },
            7 => Event::WorkerExited {
                rank: Rank::new(0),
                pid: 1,
                status: text,
                restarts: true,
            },
            _ => Event::FaultRaised {
                fault: Fault::training(text.clone()).in_layer(text),
            },
        },
    )
}

fn about_training() -> impl Strategy<Value = Event> {
    (
        numbers(),
        numbers(),
        numbers(),
        texts(),
        metrics(),
        values(),
        0..3,
    )
        .prop_map(
            |(step, total, per_epoch, text, metrics, value, which)| match which {
                0 => Event::TrainingBegan {
                    step: Step::new(step),
                    steps_total: total,
                    steps_per_epoch: per_epoch,
                    checkpoint: Some(text.clone()),
                    device: text,
                },
                1 => Event::Evaluated {
                    step: Step::new(step),
                    epoch: Epoch::new(total),
                    split: text,
                    samples: per_epoch,
                    seconds: value,
                    metrics,
                },
                _ => Event::Improved {
                    step: Step::new(step),
                    metric: text,
                    value,
                },
            },
        )
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let event = prop_oneof![
        3 => step_reports(),
        2 => about_training(),
        1 => about_checkpoints(),
        2 => about_the_run(),
    ];
    let entry = (event, numbers(), 0u32..4).prop_map(|(event, time_ms, attempt)| Entry {
        seq: 0,
        time_ms,
        attempt: Attempt::new(attempt),
        event,
    });
    prop::collection::vec(entry, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_display_minds_what_comes(
        entries in entries(), size in (0u16..130, 0u16..30), existing in any::<bool>(), now_ms in numbers()
    ) {
        let origin = || if existing { existing_origin() } else { new_origin() };
        let (plain, json, screen) = (Sink::default(), Sink::default(), Sink::default());
        let mut readers: Vec<Box<dyn Reader>> = vec![
            Box::new(Plain::new(Box::new(plain.clone()), origin())),
            Box::new(Json::new(Box::new(json.clone()), origin())),
            Box::new(
                Progress::new(Box::new(screen.clone()), move || size, Style::PLAIN, origin())
                    .at(move || now_ms),
            ),
        ];
        for entry in &entries {
            for reader in &mut readers {
                reader.take(entry);
                reader.tick();
            }
        }
        drop(readers);
        prop_assert!(plain.text().chars().all(|c| c == '\n' || !c.is_control()));
        prop_assert_eq!(json.text().lines().count(), entries.len());
        for line in json.text().lines() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(line).unwrap().is_object());
        }
        // Panics on a control character that a text of an event smuggled in.
        Terminal::showing(usize::from(size.0).max(2), &screen.text());
    }

    #[test]
    fn a_panel_is_never_wider_than_its_terminal(
        entries in entries(), columns in 0usize..130, now_ms in numbers()
    ) {
        let mut view = RunView::default();
        for entry in &entries {
            view.take(entry);
        }
        for line in panel::lines(&view, columns, now_ms, Style::PLAIN) {
            prop_assert!(super::super::human::width(&line) <= columns, "{line:?}");
            prop_assert!(!line.contains('\n'));
        }
    }
}
