//! Rust files as the rules see them: text, and code with comments and literals blanked.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One file.
pub(crate) struct Source {
    /// From the repository root, with `/`.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// Same length and lines, with comments, strings and character literals as spaces.
    pub(crate) code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, keep: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, keep, found);
        } else if keep(&path) {
            found.push(path);
        }
    }
}

fn read(path: &Path, is_rust: bool) -> Option<Source> {
    let text = fs::read_to_string(path).ok()?;
    let name = path.strip_prefix(root()).unwrap_or(path);
    let code = if is_rust { blank(&text) } else { String::new() };
    Some(Source {
        path: name.to_string_lossy().replace('\\', "/"),
        text,
        code,
    })
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension()
        .is_some_and(|ending| endings.iter().any(|e| ending == *e))
}

/// Every Rust file below a folder, in order of path.
pub(crate) fn read_tree(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    files(
        &root().join(folder),
        &|path| has_ending(path, &["rs"]),
        &mut found,
    );
    found.sort();
    found.iter().filter_map(|path| read(path, true)).collect()
}

/// Scripts, configs and documents.
pub(crate) fn read_other() -> Vec<Source> {
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Cargo.toml"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    for folder in ["scripts", "configs", "docs", ".ci"] {
        files(&root().join(folder), &|_| true, &mut found);
    }
    found.iter().filter_map(|path| read(path, false)).collect()
}

impl Source {
    /// The top-level module it belongs to; none for `lib.rs`, `main.rs` and files outside `src`.
    pub(crate) fn module(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        match inside.split_once('/') {
            Some((module, _)) => Some(module),
            None => inside
                .strip_suffix(".rs")
                .filter(|m| !["lib", "main"].contains(m)),
        }
    }

    /// Top-level modules that it names as `crate::x` or in `crate::{x, y::z}`.
    pub(crate) fn crate_modules(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (at, _) in self.code.match_indices("crate::") {
            let before = self.code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &self.code[at + "crate::".len()..];
            if let Some(group) = rest.strip_prefix('{') {
                found.extend(group_heads(group));
            } else {
                found.insert(first_word(rest));
            }
        }
        // Items of the crate root itself, such as macros, are no modules.
        found.retain(|name| name.chars().next().is_some_and(char::is_lowercase));
        found
    }

    /// Uses of `super::` that leave the top-level module.
    pub(crate) fn supers_beyond_module(&self) -> Vec<String> {
        // `src/x/mod.rs` and `src/x.rs` are at depth 1: no `super` stays inside.
        let parts = self.path.split('/').count() - 1;
        let is_mod = self.path.ends_with("/mod.rs");
        let depth = if is_mod { parts - 1 } else { parts };
        let mut offences = Vec::new();
        let mut nested = 0_usize;
        for (number, line) in self.code.lines().enumerate() {
            // Inline modules (tests) are one deeper.
            if line.trim_start().starts_with("mod ") && line.trim_end().ends_with('{') {
                nested = 1;
            }
            let supers = longest_run_of_supers(line);
            if supers > (depth - 1) + nested {
                offences.push(format!("{}:{}: {}", self.path, number + 1, line.trim()));
            }
        }
        offences
    }

    /// `path:line: text` of every line of code with such a word; a word may hold `::`.
    pub(crate) fn lines_with_word(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let is_separator = |c: char| !c.is_alphanumeric() && c != '_';
        self.code
            .lines()
            .zip(self.text.lines())
            .enumerate()
            .filter(|(_, (code, _))| code.split(is_separator).any(&wanted))
            .map(|(number, (_, text))| format!("{}:{}: {}", self.path, number + 1, text.trim()))
            .collect()
    }

    /// Items that leave their top-level module, or could, and have no doc comment.
    pub(crate) fn undocumented_items(&self) -> Vec<String> {
        let lines: Vec<&str> = self.text.lines().collect();
        let code: Vec<&str> = self.code.lines().collect();
        let mut offences = Vec::new();
        for (number, line) in code.iter().enumerate() {
            if is_visible_item(line) && !is_documented(&lines, number) {
                offences.push(format!("{}:{}: {}", self.path, number + 1, line.trim()));
            }
        }
        offences
    }
}

fn is_visible_item(line: &str) -> bool {
    let mut words = line.split_whitespace().peekable();
    let visible = matches!(words.next(), Some("pub" | "pub(crate)"));
    let items = [
        "fn", "struct", "enum", "trait", "const", "static", "type", "unsafe", "async",
    ];
    visible && words.peek().is_some_and(|word| items.contains(word))
}

/// Whether a doc comment stands above the attributes above a line.
fn is_documented(lines: &[&str], number: usize) -> bool {
    let mut at = number;
    while at > 0 {
        at -= 1;
        let line = lines[at].trim();
        // In a macro the doc comment comes in as an attribute.
        let doc = ["///", "#[doc", "$(#["];
        if doc.iter().any(|start| line.starts_with(start)) {
            return true;
        }
        if line.ends_with(']') && !line.starts_with("#[") {
            // The end of an attribute over several lines: go to its start.
            while at > 0 && !lines[at].trim().starts_with("#[") {
                at -= 1;
            }
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            return false;
        }
    }
    false
}

fn first_word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// First names of the members of a `use` group, given the text after its brace.
fn group_heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let mut depth = 1;
    let mut member = String::new();
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            heads.push(first_word(member.trim()));
            member.clear();
        } else {
            member.push(c);
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn longest_run_of_supers(line: &str) -> usize {
    let mut longest = 0;
    let mut rest = line;
    while let Some(at) = rest.find("super::") {
        let mut run = 0;
        rest = &rest[at..];
        while let Some(after) = rest.strip_prefix("super::") {
            run += 1;
            rest = after;
        }
        longest = longest.max(run);
    }
    longest
}

/// Replaces comments, strings and character literals by spaces; lines and columns stay.
pub(crate) fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out: Vec<char> = Vec::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end > at {
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|&c| if c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out.into_iter().collect()
}

/// End of the comment or literal that starts at `at`; `at` itself when none does.
fn literal_end(chars: &[char], at: usize) -> usize {
    let starts = |pattern: &str| {
        chars[at..]
            .iter()
            .copied()
            .take(pattern.len())
            .eq(pattern.chars())
    };
    let inside_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if starts("//") {
        return find(chars, at, &['\n']);
    }
    if starts("/*") {
        return block_comment_end(chars, at);
    }
    if !inside_word && (starts("r\"") || starts("r#") || starts("br\"") || starts("br#")) {
        return raw_string_end(chars, at);
    }
    if starts("\"") {
        return quoted_end(chars, at, '"');
    }
    // A lifetime has no closing quote two or more characters on.
    let is_char =
        starts("'") && (chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\''));
    if is_char {
        return quoted_end(chars, at, '\'');
    }
    at
}

fn find(chars: &[char], from: usize, pattern: &[char]) -> usize {
    (from..chars.len())
        .find(|&i| chars[i..].starts_with(pattern))
        .unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at < chars.len() {
        if chars[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if chars[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while matches!(chars.get(at), Some('b' | 'r')) {
        at += 1;
    }
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        // A raw identifier.
        return from;
    }
    let close: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    (find(chars, at + hashes + 1, &close) + close.len()).min(chars.len())
}

fn quoted_end(chars: &[char], from: usize, quote: char) -> usize {
    let mut at = from + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

#[test]
fn literals_and_comments_are_blanked() {
    let text = "let a = \"crate::x\"; // crate::y\nlet b = r#\"un\"safe\"#; let c: &'a str = '\\'';\n/* a /* b */ c */ end";
    let code = blank(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(code.lines().count(), 3);
    for gone in ["crate", "safe", "b */"] {
        assert!(!code.contains(gone), "{code}");
    }
    for kept in ["let a", "let b", "&'a str", "end"] {
        assert!(code.contains(kept), "{code}");
    }
}

#[test]
fn imports_are_found_in_every_form() {
    let source = |code: &str| Source {
        path: "src/x/y.rs".to_string(),
        text: code.to_string(),
        code: blank(code),
    };
    let found = source(
        "use crate::{run::{Step, Fault}, config, plan::rng}; fn f() { crate::store::read() }",
    );
    let expected = ["config", "plan", "run", "store"].map(String::from);
    assert_eq!(found.crate_modules(), BTreeSet::from(expected));
    assert!(source("use super::z;").supers_beyond_module().is_empty());
    assert_eq!(
        source("use super::super::z;").supers_beyond_module().len(),
        1
    );
    assert_eq!(source("pub(crate) fn f() {}").undocumented_items().len(), 1);
    assert!(
        source("/// Doc.\n#[must_use]\npub fn f() {}")
            .undocumented_items()
            .is_empty()
    );
}
