//! The right name near a wrong one.

/// Likeness (Jaro-Winkler with Damerau-Levenshtein as a second opinion) from which on a name is
/// worth proposing.
const LIKENESS_MIN: f64 = 0.8;

/// The name that `wrong` most likely stands for.
pub(super) fn nearest<'n>(
    wrong: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let wrong = wrong.to_lowercase().replace('-', "_");
    let likeness = |name: &str| {
        let edits = strsim::normalized_damerau_levenshtein(&wrong, name);
        strsim::jaro_winkler(&wrong, name).max(edits + 0.2)
    };
    names
        .into_iter()
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_likeness() {
        let names = ["learning_rate", "label", "epochs", "global_batch"];
        for (wrong, right) in [
            ("lable", Some("label")),
            ("learning-rate", Some("learning_rate")),
            ("Epochs", Some("epochs")),
            ("epoch", Some("epochs")),
            ("globalbatch", Some("global_batch")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names), right, "{wrong}");
        }
    }
}
