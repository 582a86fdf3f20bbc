//! Environment variables that can change a result, without secrets.

use std::collections::BTreeMap;

/// Variables that are recorded.
const NAMES: [&str; 4] = [
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
];

/// Beginnings of names that are recorded.
const PREFIXES: [&str; 4] = ["NCCL_", "CUBECL_", "TRAINER_", "BURN_"];

/// Parts of a name that make its value a secret.
const SECRET_NAMES: [&str; 8] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "KEY",
    "AUTH",
    "COOKIE",
];

/// Beginnings of values that are known to be tokens.
const SECRET_VALUES: [&str; 8] = [
    "ghp_", "github_", "hf_", "sk-", "xox", "AKIA", "eyJ", "glpat-",
];

/// What is stored in place of a secret.
const WITHHELD: &str = "(withheld)";

/// Longest value that is stored, in characters.
const VALUE_CHARS_MAX: usize = 256;

/// The variables worth recording.
pub(super) fn relevant(
    variables: impl Iterator<Item = (String, String)>,
) -> BTreeMap<String, String> {
    variables
        .filter(|(name, _)| {
            NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|p| name.starts_with(p))
        })
        .map(|(name, value)| {
            let value = if looks_secret(&name, &value) {
                WITHHELD.to_string()
            } else {
                value.chars().take(VALUE_CHARS_MAX).collect()
            };
            (name, value)
        })
        .collect()
}

/// Whether name or value suggest a secret. Rather too often than once too little.
fn looks_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
        || SECRET_VALUES.iter().any(|start| value.starts_with(start))
        || has_login(value)
        || looks_random(value)
}

/// `scheme://user:password@host`.
fn has_login(value: &str) -> bool {
    value.split_once("://").is_some_and(|(_, rest)| {
        rest.split('/')
            .next()
            .is_some_and(|host| host.contains('@'))
    })
}

/// A long word of letters and digits without the marks that paths and lists have.
fn looks_random(value: &str) -> bool {
    value.split([',', ':', '/', '=', ' ', '.']).any(|word| {
        let mixed = word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().any(|b| b.is_ascii_alphabetic());
        // GPU ids (`GPU-` or `MIG-` and a UUID) are what CUDA_VISIBLE_DEVICES holds.
        let device = word.starts_with("GPU-") || word.starts_with("MIG-");
        word.len() >= 20 && mixed && !device
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, value: &str) -> Option<String> {
        relevant([(name.to_string(), value.to_string())].into_iter()).remove(name)
    }

    #[test]
    fn what_changes_a_result_is_stored() {
        for (name, value) in [
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            (
                "CUDA_VISIBLE_DEVICES",
                "GPU-2f3a1b2c-1111-2222-3333-444455556666",
            ),
            ("RAYON_NUM_THREADS", "2"),
            ("NCCL_SOCKET_IFNAME", "eth0"),
            ("TRAINER_RUNS_DIR", "/scratch/some-group/runs"),
        ] {
            assert_eq!(stored(name, value).as_deref(), Some(value), "{name}");
        }
        assert_eq!(stored("HOME", "/home/somebody"), None);
        assert_eq!(stored("PATH", "/bin"), None);
    }

    #[test]
    fn what_looks_like_a_secret_is_not() {
        for (name, value) in [
            ("TRAINER_TOKEN", "x"),
            ("TRAINER_API_KEY", "1"),
            ("TRAINER_S3_SECRET", "y"),
            ("TRAINER_STORE", "https://user:hunter2@host/bucket"),
            ("TRAINER_EXTRA", "hf_abc"),
            ("TRAINER_EXTRA", "a8f5f167f44f4964e6c998dee827110c"),
            ("NCCL_NET", "id=a8f5f167f44f4964e6c998dee827110c"),
        ] {
            assert_eq!(
                stored(name, value).as_deref(),
                Some(WITHHELD),
                "{name}={value}"
            );
        }
    }

    #[test]
    fn long_values_are_cut() {
        let value = "a,".repeat(1000);
        assert_eq!(stored("NCCL_X", &value).unwrap().len(), VALUE_CHARS_MAX);
    }
}
