//! Holds the rules of the layout: layer order, where tensors and `unsafe` may appear, sizes, and
//! documentation. A rule that no test holds decays.

mod function;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use source::{Source, read_tree};

/// The modules, top to bottom; a module imports only from those after it.
const LAYERS: [&str; 16] = [
    "cli",
    "ui",
    "supervisor",
    "worker",
    "bench",
    "train",
    "model",
    "ops",
    "collective",
    "data",
    "device",
    "checkpoint",
    "store",
    "plan",
    "run",
    "config",
];

/// Modules that may name the tensor library.
const TENSOR_MODULES: [&str; 3] = ["ops", "model", "train"];

/// Modules that never reach the tensor library, not even through another module: what survives a
/// crash, and what only looks on, starts no backend.
const TENSOR_FREE: [&str; 10] = [
    "ui",
    "supervisor",
    "collective",
    "data",
    "device",
    "checkpoint",
    "store",
    "plan",
    "run",
    "config",
];

/// Files and folders with `unsafe` code.
const UNSAFE_ALLOWED: [&str; 5] = [
    "src/collective/nccl/cuda.rs",
    "src/collective/shm.rs",
    "src/data/token_file.rs",
    "src/ops/",
    "src/worker/os.rs",
];

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const MAIN_LINES_MAX: usize = 30;

/// Fails with every offence at once.
fn none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

fn position(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == module)
}

/// `module -> (imported module -> a file that does it)`, from every `crate::x` in `src`.
fn imports() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut graph: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for file in read_tree("src") {
        let Some(module) = file.module() else {
            continue;
        };
        for imported in file.crate_modules() {
            graph
                .entry(module.to_string())
                .or_default()
                .insert(imported, file.path.clone());
        }
    }
    graph
}

#[test]
fn every_module_has_its_place() {
    let offences: Vec<String> = read_tree("src")
        .iter()
        .filter_map(|file| Some((file, file.module()?)))
        .filter(|(_, module)| position(module).is_none())
        .map(|(file, module)| format!("{}: module `{module}` is not in LAYERS", file.path))
        .collect();
    none("a new module gets its place in the layer order", &offences);
}

#[test]
fn modules_import_only_from_below() {
    let mut offences = Vec::new();
    for (module, imported) in imports() {
        for (other, file) in imported {
            if other != module && position(&other) <= position(&module) {
                offences.push(format!("{file}: `{module}` imports `{other}`"));
            }
        }
    }
    none("a module imports only from lines below it", &offences);
}

#[test]
fn no_module_reaches_out_through_super() {
    let offences: Vec<String> = read_tree("src")
        .iter()
        .filter(|file| file.module().is_some())
        .flat_map(Source::supers_beyond_module)
        .collect();
    none("write `crate::x`, so that the order is checked", &offences);
}

#[test]
fn supervisor_and_worker_meet_in_run_alone() {
    let graph = imports();
    for (one, other) in [("supervisor", "worker"), ("worker", "supervisor")] {
        let imported = graph.get(one).cloned().unwrap_or_default();
        assert!(!imported.contains_key(other), "{one} imports {other}");
    }
}

#[test]
fn viewers_and_survivors_never_reach_a_tensor() {
    let graph = imports();
    let mut offences = Vec::new();
    for start in TENSOR_FREE {
        let mut seen = BTreeSet::new();
        let mut open = vec![start.to_string()];
        while let Some(module) = open.pop() {
            if TENSOR_MODULES.contains(&module.as_str()) {
                offences.push(format!("{start} reaches {module}"));
            }
            for next in graph.get(&module).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
    }
    none("these modules start no backend", &offences);
}

#[test]
fn the_tensor_library_is_named_in_three_modules() {
    let offences: Vec<String> = read_tree("src")
        .iter()
        .filter(|file| file.module().is_none_or(|m| !TENSOR_MODULES.contains(&m)))
        .flat_map(|file| file.lines_with_word(|word| word == "burn" || word.starts_with("burn_")))
        .collect();
    none("burn only in ops, model, train", &offences);
}

#[test]
fn the_vocabulary_knows_no_machinery() {
    let offences: Vec<String> = read_tree("src")
        .iter()
        .filter(|file| matches!(file.module(), Some("run" | "config" | "plan")))
        .flat_map(|file| {
            file.lines_with_word(|word| {
                ["sled", "tokio", "rustix", "libc", "Command::new"].contains(&word)
            })
        })
        .collect();
    none("run, plan and config are plain data", &offences);
}

#[test]
fn unsafe_stays_where_it_is_argued() {
    let offences: Vec<String> = read_tree("src")
        .iter()
        .filter(|file| !UNSAFE_ALLOWED.iter().any(|at| file.path.starts_with(at)))
        .flat_map(|file| file.lines_with_word(|word| word == "unsafe"))
        .collect();
    none("unsafe only in the listed files", &offences);
}

#[test]
fn files_are_short() {
    let mut offences = Vec::new();
    for file in all_sources() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            offences.push(format!("{}: {lines} lines", file.path));
        }
        if file.path == "src/main.rs" && lines >= MAIN_LINES_MAX {
            offences.push(format!(
                "{}: {lines} lines; main decides nothing",
                file.path
            ));
        }
    }
    none("no file beyond 500 lines", &offences);
}

#[test]
fn functions_are_short() {
    let mut offences = Vec::new();
    for file in all_sources() {
        for function in function::functions(&file) {
            if function.lines > FUNCTION_LINES_MAX && !function.is_flat_match() {
                offences.push(format!(
                    "{}:{}: `{}` has {} lines",
                    file.path, function.line, function.name, function.lines
                ));
            }
        }
    }
    none("no function beyond 70 lines", &offences);
}

#[test]
fn every_file_says_what_it_is() {
    let offences: Vec<String> = all_sources()
        .iter()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.path.clone())
        .collect();
    none("every file opens with its purpose", &offences);
}

#[test]
fn crate_visible_items_are_documented() {
    let offences: Vec<String> = read_tree("src")
        .iter()
        .filter(|file| !file.path.contains("tests"))
        .flat_map(Source::undocumented_items)
        .collect();
    none("every item that leaves its module is documented", &offences);
}

#[test]
fn names_say_something() {
    let empty_names = ["utils", "util", "helpers", "helper", "common", "misc"];
    let offences: Vec<String> = all_sources()
        .iter()
        .filter(|file| {
            file.path
                .split(['/', '.'])
                .any(|part| empty_names.contains(&part))
        })
        .map(|file| file.path.clone())
        .collect();
    none("a file is named for what is in it", &offences);
}

#[test]
fn no_marks_are_left_over() {
    // Put together here, so that this file does not hold them.
    let marks = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["XX", "X"].concat(),
        ["HA", "CK"].concat(),
    ];
    let mut offences = Vec::new();
    let files = all_sources().into_iter().chain(source::read_other());
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            let marked = line
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .any(|word| marks.iter().any(|mark| mark == word));
            if marked {
                offences.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    none("work is finished before it is merged", &offences);
}

/// Every Rust file of ours.
fn all_sources() -> Vec<Source> {
    ["src", "tests", "benches", "vendor"]
        .into_iter()
        .flat_map(read_tree)
        .collect()
}
