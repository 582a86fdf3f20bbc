//! `${NAME}` and `${NAME:-default}` inside texts; `$${` stands for `${`.
//!
//! What is filled in becomes part of the resolved config: it is printed, stored with the run and
//! hashed, because it decides what the run does. So it must not be a secret. No key of this version
//! takes one, and a variable whose name says that it holds one (`…_TOKEN`, `…_PASSWORD`, `…_KEY` and
//! so on) is refused in every key. A later key that takes a credential will keep the reference
//! instead of the value.

/// Looks up an environment variable.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Longest value that a variable may fill in.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Words in a variable's name that say that it holds a secret.
const SECRET_WORDS: [&str; 9] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
    "KEY",
];

/// A reference that cannot be filled in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReferenceFault {
    /// `${` without `}`, or without a proper name.
    Malformed(String),
    /// The variable is not set and there is no default.
    Missing(String),
    /// Its name says that it holds a secret.
    Secret(String),
    /// Its value is too long.
    Long(String),
}

impl ReferenceFault {
    /// The reference as written, from `${` on, as far as it is certain.
    pub(super) fn reference(&self) -> &str {
        let (Self::Malformed(text) | Self::Missing(text) | Self::Secret(text) | Self::Long(text)) =
            self;
        text
    }

    /// What is wrong.
    pub(super) fn message(&self) -> String {
        let reference = super::tree::quoted(self.reference());
        match self {
            Self::Malformed(_) => format!("{reference} is not a reference to a variable"),
            Self::Missing(_) => format!("the environment variable of {reference} is not set"),
            Self::Secret(_) => format!("{reference} looks like a secret, and this would be stored"),
            Self::Long(_) => {
                format!("the value of {reference} is longer than {VALUE_BYTES_MAX} bytes")
            }
        }
    }

    /// What to do.
    pub(super) fn help(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "write ${NAME} or ${NAME:-default}; `$${` stands for `${`",
            Self::Missing(_) => "set it, or give a default: ${NAME:-default}",
            Self::Secret(_) => {
                "no key of this version takes a secret; if it is none, use a variable of another name"
            }
            Self::Long(_) => "set it to something shorter",
        }
    }
}

/// The text with its references filled in, and whether all of it was one reference.
pub(super) fn fill(
    text: &str,
    environment: &Environment<'_>,
) -> Result<(String, bool), ReferenceFault> {
    let mut out = String::new();
    let mut rest = text;
    let mut whole = false;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$${") {
            out.push_str("${");
            rest = after;
        } else if rest.starts_with("${") {
            let (value, after) = reference(rest, environment)?;
            whole = rest.len() == text.len() && after.is_empty();
            out.push_str(&value);
            rest = after;
        } else {
            out.push('$');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Ok((out, whole))
}

/// Fills in the reference that `text` starts with; gives the value and what follows.
fn reference<'t>(
    text: &'t str,
    environment: &Environment<'_>,
) -> Result<(String, &'t str), ReferenceFault> {
    let inside = &text[2..];
    let Some(end) = inside.find('}') else {
        return Err(ReferenceFault::Malformed(text.to_string()));
    };
    let whole = &text[..end + 3];
    let (name, default) = match inside[..end].split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (&inside[..end], None),
    };
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(ReferenceFault::Malformed(whole.to_string()));
    }
    if is_secret(name) {
        return Err(ReferenceFault::Secret(whole.to_string()));
    }
    // As in a shell, an empty variable takes the default too.
    let value = environment(name).filter(|value| !value.is_empty() || default.is_none());
    match value.or_else(|| default.map(str::to_string)) {
        Some(value) if value.len() > VALUE_BYTES_MAX => {
            Err(ReferenceFault::Long(whole.to_string()))
        }
        Some(value) => Ok((value, &inside[end + 1..])),
        None => Err(ReferenceFault::Missing(whole.to_string())),
    }
}

/// Whether a variable of this name holds a secret.
fn is_secret(name: &str) -> bool {
    name.to_ascii_uppercase()
        .split('_')
        .any(|word| SECRET_WORDS.contains(&word))
}

/// The text as it must be written so that [`fill`] gives it back.
pub(super) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "A" => Some("x".to_string()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${A}".to_string()),
            _ => None,
        }
    }

    #[test]
    fn references_are_filled_in() {
        let cases = [
            ("", "", false),
            ("$", "$", false),
            ("${A}", "x", true),
            ("${A}${A}", "xx", false),
            ("a/${A}/b", "a/x/b", false),
            ("${B:-y}", "y", true),
            ("${B:-}", "", true),
            ("${EMPTY}", "", true),
            ("${EMPTY:-y}", "y", true),
            ("$${A}", "${A}", false),
            ("$$${A}", "$${A}", false),
            ("$A", "$A", false),
            ("${NESTED}", "${A}", true),
        ];
        for (text, filled, whole) in cases {
            assert_eq!(
                fill(text, &environment),
                Ok((filled.to_string(), whole)),
                "{text}"
            );
        }
    }

    #[test]
    fn wrong_references_are_refused() {
        let missing = fill("a${B}b", &environment);
        assert_eq!(missing, Err(ReferenceFault::Missing("${B}".to_string())));
        for text in ["${", "${}", "${1}", "${A B}", "${A:y}", "x${A"] {
            let fault = fill(text, &environment).unwrap_err();
            assert!(matches!(fault, ReferenceFault::Malformed(_)), "{text}");
        }
        for text in ["${HF_TOKEN}", "${AWS_SECRET_ACCESS_KEY:-x}", "${password}"] {
            let fault = fill(text, &environment).unwrap_err();
            assert!(matches!(fault, ReferenceFault::Secret(_)), "{text}");
        }
        assert!(!is_secret("MONKEY_DIR"));
    }

    proptest! {
        #[test]
        fn escaping_undoes_filling(text in "[a${}\\-:]{0,12}") {
            prop_assert_eq!(fill(&escape(&text), &environment), Ok((text, false)));
        }
    }
}
