//! Whole config files: what is taken, and what is said of each that is not.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it does not expect"
)]

use std::path::{Path, PathBuf};

use trainer::config::{self, Config, Diagnostics, Source};

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/config")
        .join(kind);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// What the environment of the fixtures holds.
fn environment(name: &str) -> Option<String> {
    match name {
        "DATA" => Some("assets/data".to_string()),
        "EPOCHS" => Some("3".to_string()),
        "WORD" => Some("many".to_string()),
        "HF_TOKEN" => Some("very secret".to_string()),
        _ => None,
    }
}

/// Parses a fixture. A first line `# set: a.b=c | d=e` gives overrides.
fn parse(path: &Path) -> Result<Config, Diagnostics> {
    let text = std::fs::read_to_string(path).unwrap();
    let first = text.lines().next().unwrap_or("");
    let overrides: Vec<String> = match first.strip_prefix("# set: ") {
        Some(list) => list.split(" | ").map(str::to_string).collect(),
        None => Vec::new(),
    };
    let name = path.file_name().unwrap().to_str().unwrap().to_string();
    config::parse(&Source { name, text }, &overrides, &environment)
}

#[test]
fn valid_files_print_as_configs_that_are_equal() {
    for path in fixtures("valid") {
        let config = parse(&path).unwrap_or_else(|faults| panic!("{faults}"));
        let printed = Source {
            name: "printed".to_string(),
            text: config.to_toml(),
        };
        let again = config::parse(&printed, &[], &|_| None)
            .unwrap_or_else(|faults| panic!("{}\n{faults}", printed.text));
        assert_eq!(again, config, "{}", path.display());
        assert_eq!(again.sha256(), config.sha256());
        assert_eq!(again.to_toml(), printed.text);
    }
}

/// The configs that come with the project.
#[test]
fn shipped_configs_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "toml") {
            parse(&path).unwrap_or_else(|faults| panic!("{faults}"));
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn invalid_files_say_what_is_wrong() {
    for path in fixtures("invalid") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let Err(faults) = parse(&path) else {
            panic!("{name} was taken")
        };
        // What the environment holds in secret is shown nowhere.
        assert!(!faults.render(true).contains("very secret"), "{name}");
        insta::with_settings!({ snapshot_path => "fixtures/config/invalid", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, faults.render(false));
        });
    }
}

fn text(name: &str) -> String {
    let path = fixtures("valid")
        .into_iter()
        .find(|path| path.file_stem().is_some_and(|stem| stem == name));
    std::fs::read_to_string(path.unwrap()).unwrap()
}

fn with(name: &str, overrides: &[&str]) -> Config {
    let source = Source {
        name: name.to_string(),
        text: text(name),
    };
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    config::parse(&source, &overrides, &environment).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn a_difference_names_every_key_that_changed() {
    let old = with("design", &[]);
    assert_eq!(config::difference(&old, &old), Vec::<String>::new());
    let new = with(
        "design",
        &[
            "train.steps=5",
            "seed=8",
            "optimizer={ kind = \"sgd\", learning_rate = 1e-3, weight_decay = 0.01 }",
            "checkpoint.keep.latest=3",
        ],
    );
    assert_eq!(
        config::difference(&old, &new),
        [
            "seed: 7 -> 8",
            "train.epochs: 10 -> (none)",
            "train.steps: (none) -> 5",
            "optimizer.kind: \"adamw\" -> \"sgd\"",
            "optimizer.betas: [0.9, 0.999] -> (none)",
            "optimizer.epsilon: 1e-8 -> (none)",
            "optimizer.momentum: (none) -> 0.9",
            "optimizer.nesterov: (none) -> false",
            "checkpoint.keep.latest: 2 -> 3",
        ]
    );
    assert_ne!(old.sha256(), new.sha256());
}

#[test]
fn layout_and_spelt_out_defaults_do_not_change_the_hash() {
    let plain = with("smallest_table", &[]);
    let spelt = with(
        "smallest_table",
        &[
            "train.shards=1",
            "optimizer.kind=adamw",
            "optimizer.learning_rate=0.1e-2",
            "data.validation=false",
            "checkpoint.every=1epochs",
            "checkpoint.keep.best=0",
        ],
    );
    assert_eq!(plain.sha256(), spelt.sha256());
    assert_eq!(plain.sha256().len(), 64);
}

#[test]
fn defaults_follow_from_other_keys() {
    use trainer::config::{Goal, Model};
    let config = with(
        "table_with_all",
        &["train.early_stopping.metric=validation/loss"],
    );
    let early_stopping = config.train.early_stopping.unwrap();
    assert_eq!(early_stopping.goal, Goal::Max, "given");
    assert_eq!(config.checkpoint.goal, Goal::Max, "accuracy");
    assert_eq!(with("design", &[]).checkpoint.keep.best, 1);
    assert_eq!(with("smallest_table", &[]).checkpoint.keep.best, 0);
    let Model::Gpt(gpt) = with("smallest_text", &["model.heads=8"]).model else {
        panic!()
    };
    assert_eq!(gpt.kv_heads, 8);
}

#[test]
fn variables_and_overrides_are_what_they_say() {
    use trainer::config::{Data, Length, Optimizer, Split};
    let config = with("variables", &["seed=${EPOCHS}"]);
    assert_eq!(config.seed, 3);
    assert_eq!(config.train.length, Length::Epochs(3));
    assert!(matches!(
        config.optimizer,
        Optimizer::Sgd {
            learning_rate: 0.01,
            ..
        }
    ));
    let Data::Table(data) = config.data else {
        panic!()
    };
    assert_eq!(data.train, Path::new("assets/data/adult/train.csv"));
    assert_eq!(data.label, "${price}");
    assert_eq!(data.validation, Split::Fraction(0.25));
    assert!(!data.standardize);
}

#[test]
fn reports_give_places_in_numbers() {
    let source = Source {
        name: "file.toml".to_string(),
        text: "name = \"x\"\n[data]\nkind = \"table\"\ntrain = \"ä\"; label\n".to_string(),
    };
    let faults = config::parse(&source, &["train.epochs=x".to_string()], &environment).unwrap_err();
    let report = &faults.reports()[0];
    assert_eq!((report.file.as_str(), report.line), ("file.toml", 4));
    assert_eq!(report.column, 12, "columns are characters");
    assert!(faults.render(true).contains('\u{1b}'));
    assert!(!faults.render(false).contains('\u{1b}'));
    assert_eq!(faults.headline(), "file.toml has a fault");
}
