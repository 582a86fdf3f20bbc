//! Finds functions and their lengths.

use crate::source::Source;

/// Most lines of a function around its `match`, and of one arm, for the match to count as flat.
const AROUND_MAX: usize = 20;
const ARM_LINES_MAX: usize = 15;

/// One function.
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line of its `fn`, from 1.
    pub(crate) line: usize,
    /// From `fn` to the closing brace.
    pub(crate) lines: usize,
    /// The body, braces included.
    body: String,
}

impl Function {
    /// A long list of short arms is read like a table; splitting it helps nobody.
    pub(crate) fn is_flat_match(&self) -> bool {
        let Some(at) = self.body.find("match ") else {
            return false;
        };
        let Some(open) = self.body[at..].find('{').map(|i| at + i) else {
            return false;
        };
        let inner = block(&self.body, open);
        let around = self.lines.saturating_sub(inner.lines().count());
        around <= AROUND_MAX && longest_block(&inner[1..]) <= ARM_LINES_MAX
    }
}

/// The text from the brace at `open` to its partner.
fn block(code: &str, open: usize) -> &str {
    let mut depth = 0;
    for (i, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[open..=open + i];
        }
    }
    &code[open..]
}

/// Lines of the longest outermost block.
fn longest_block(code: &str) -> usize {
    let mut longest = 0;
    let mut at = 0;
    while let Some(open) = code[at..].find('{').map(|i| at + i) {
        let inner = block(code, open);
        longest = longest.max(inner.lines().count());
        at = open + inner.len();
    }
    longest
}

/// Every function with a body; those inside others too.
pub(crate) fn functions(source: &Source) -> Vec<Function> {
    let code = &source.code;
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let starts_word = code[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let name: String = code[at + 3..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        // Pointer types (`fn (u32)`) have no name; declarations in traits have no body.
        if !starts_word || name.is_empty() {
            continue;
        }
        let Some(open) = code[at..].find(['{', ';']).map(|i| at + i) else {
            continue;
        };
        if code[open..].starts_with(';') && !array_semicolon(&code[at..open]) {
            continue;
        }
        let Some(open) = code[open..].find('{').map(|i| open + i) else {
            continue;
        };
        let body = block(code, open);
        found.push(Function {
            name,
            line: code[..at].matches('\n').count() + 1,
            lines: code[at..open + body.len()].lines().count(),
            body: body.to_string(),
        });
    }
    found
}

/// Whether a signature was cut inside an array type (`[f32; 2]`).
fn array_semicolon(signature: &str) -> bool {
    signature.matches('[').count() > signature.matches(']').count()
}

#[test]
fn lengths_are_counted_from_fn_to_brace() {
    let code = "fn a(x: [u8; 2]) -> u8 {\n    1\n}\ntrait T { fn b(); }\nfn c() {}\n";
    let source = Source {
        path: String::new(),
        text: code.to_string(),
        code: code.to_string(),
    };
    let found: Vec<(String, usize, usize)> = functions(&source)
        .into_iter()
        .map(|f| (f.name, f.line, f.lines))
        .collect();
    let expected = [("a", 1, 3), ("c", 5, 1)].map(|(n, l, s)| (n.to_string(), l, s));
    assert_eq!(found, expected);
}

#[test]
fn only_short_arms_are_flat() {
    let arm = "        A => 1,\n";
    let flat = format!("fn f() {{\n    match x {{\n{}    }}\n}}\n", arm.repeat(90));
    let deep = format!(
        "fn f() {{\n    match x {{\n        A => {{\n{}        }}\n    }}\n}}\n",
        "            y();\n".repeat(90)
    );
    for (code, expected) in [(flat, true), (deep, false)] {
        let source = Source {
            path: String::new(),
            text: code.clone(),
            code,
        };
        let function = functions(&source).remove(0);
        assert_eq!(function.is_flat_match(), expected);
    }
}
