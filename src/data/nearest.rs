//! Names in messages: the right one for a misspelt one, and lists of them.

use std::fmt::Write as _;

/// The candidate that is most like `name`, if one is like it at all.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|&(distance, candidate)| {
            distance <= (name.chars().count().max(candidate.chars().count())) / 3
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Names in a row, not too many.
pub(super) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        // Writing to a string cannot fail.
        let _ = write!(text, " and {} more", names.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_found_and_strangers_are_not() {
        let columns = ["income", "age", "education-num"];
        assert_eq!(nearest("incmoe", columns), Some("income"));
        assert_eq!(nearest("Income", columns), Some("income"));
        assert_eq!(nearest("salary", columns), None);
    }
}
