//! Whole config files: what is taken, and what is said of each that is not.

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

#[test]
fn invalid_files_say_what_is_wrong() {
    for path in fixtures("invalid") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let faults = match parse(&path) {
            Ok(_) => panic!("{name} was taken"),
            Err(faults) => faults,
        };
        insta::with_settings!({ snapshot_path => "fixtures/config/invalid", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, faults.render(false));
        });
    }
}
