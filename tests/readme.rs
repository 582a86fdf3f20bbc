//! What README.md says about the config is what the program takes.

use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- config reference: begin (scripts/update_readme.sh writes it) -->\n";
const END: &str = "<!-- config reference: end -->\n";

/// Set to write the table into README.md instead of comparing.
const UPDATE: &str = "TRAINER_UPDATE_README";

#[test]
fn the_config_table_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("a place for the table");
    let (found, after) = rest.split_once(END).expect("an end of the table");
    let reference = trainer::config::reference();
    let expected = format!("\n{}\n\n", reference.trim());
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, [before, BEGIN, &expected, END, after].concat()).unwrap();
    } else {
        assert!(found == expected, "run scripts/update_readme.sh");
    }
}
