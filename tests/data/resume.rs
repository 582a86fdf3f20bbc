//! `prepared.json`: an attempt that goes on sees the same data, or says what changed.

use trainer::data::{Dataset, Part};
use trainer::run::{FaultClass, SampleId};

use crate::support::{Scratch, png, table};

/// What is done to the files, and the one that must be named.
type Change = (fn(&Scratch), &'static str);

const DATA: &str = "kind = \"table\"\ntrain = \"@/t.csv\"\ntest = \"@/u.csv\"\nvalidation = 0.2\nlabel = \"class\"";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("t.csv", table(50));
    scratch.write("u.csv", table(20));
    scratch
}

fn first(dataset: &Dataset) -> trainer::data::Batch {
    let ids: Vec<SampleId> = (0..10).map(SampleId::new).collect();
    dataset.batch(Part::Train, &ids, None).unwrap()
}

#[test]
fn a_second_attempt_reads_what_the_first_one_wrote() {
    let scratch = scratch();
    let one = scratch.open_prepared(DATA, 3).unwrap();
    let written = std::fs::read(scratch.path("prepared.json")).unwrap();
    let two = scratch.open_prepared(DATA, 3).unwrap();
    assert_eq!(first(&one), first(&two));
    assert_eq!(one.summary().fingerprint, two.summary().fingerprint);
    assert_eq!(one.summary().warnings, two.summary().warnings);
    assert_eq!(one.summary().facts, two.summary().facts);
    assert_eq!((one.input(), one.target()), (two.input(), two.target()));
    assert_eq!(
        std::fs::read(scratch.path("prepared.json")).unwrap(),
        written
    );
    // Nothing but the data and the record is left behind.
    let names = std::fs::read_dir(scratch.path(".")).unwrap().count();
    assert_eq!(names, 3);
    // The same data elsewhere are the same data.
    let moved = scratch.path("moved.csv");
    std::fs::rename(scratch.path("t.csv"), moved).unwrap();
    let three = scratch
        .open_prepared(&DATA.replace("t.csv", "moved.csv"), 3)
        .unwrap();
    assert_eq!(first(&one), first(&three));
}

#[test]
fn a_changed_file_is_named() {
    for (name, other) in [("t.csv", "u.csv"), ("u.csv", "t.csv")] {
        let scratch = scratch();
        scratch.open_prepared(DATA, 3).unwrap();
        scratch.write(name, table(49));
        let fault = scratch.open_prepared(DATA, 3).unwrap_err();
        assert_eq!(fault.class, FaultClass::Damaged);
        assert!(fault.message.contains(name), "{fault}");
        assert!(!fault.message.contains(other), "{fault}");
    }
}

#[test]
fn pictures_that_change_appear_or_vanish_are_named() {
    let data = "kind = \"images\"\nformat = \"folder\"\ntrain = \"@/f\"";
    let changes: [Change; 3] = [
        (|s| s.write("f/cat/2.png", png(4, 77)), "2.png"),
        (|s| s.write("f/cat/9.png", png(4, 9)), "9.png"),
        (
            |s| std::fs::remove_file(s.path("f/cat/3.png")).unwrap(),
            "3.png",
        ),
    ];
    for (change, name) in changes {
        let scratch = Scratch::new();
        for shade in 0..4 {
            scratch.write(&format!("f/cat/{shade}.png"), png(4, shade));
        }
        scratch.open_prepared(data, 3).unwrap();
        scratch.open_prepared(data, 3).unwrap();
        change(&scratch);
        let fault = scratch.open_prepared(data, 3).unwrap_err();
        assert_eq!(fault.class, FaultClass::Damaged);
        assert!(fault.message.contains(name), "{fault}");
    }
}

#[test]
fn changed_settings_are_named() {
    let scratch = scratch();
    scratch.open_prepared(DATA, 3).unwrap();
    for (data, seed, key) in [
        (DATA.replace("0.2", "0.3"), 3, "data.validation"),
        (
            DATA.replace("0.2", "0.2\nignore = [\"age\"]"),
            3,
            "data.ignore",
        ),
        (DATA.to_string(), 4, "seed"),
    ] {
        let fault = scratch.open_prepared(&data, seed).unwrap_err();
        assert_eq!(fault.class, FaultClass::Usage);
        assert!(fault.message.contains(key), "{fault}");
    }
}

#[test]
fn a_damaged_record_is_refused() {
    let scratch = scratch();
    scratch.open_prepared(DATA, 3).unwrap();
    let good = std::fs::read_to_string(scratch.path("prepared.json")).unwrap();
    for (bad, expected) in [
        ("junk".to_string(), "no record of prepared data"),
        (
            good[..good.len() / 2].to_string(),
            "no record of prepared data",
        ),
        (
            good.replacen("\"version\":1", "\"version\":99", 1),
            "version 99",
        ),
        (good.replacen("\"red\"", "\"rot\"", 1), "fingerprint"),
    ] {
        assert_ne!(bad, good);
        scratch.write("prepared.json", &bad);
        let fault = scratch.open_prepared(DATA, 3).unwrap_err();
        assert_eq!(fault.class, FaultClass::Damaged);
        assert!(fault.message.contains(expected), "{fault}");
    }
}
