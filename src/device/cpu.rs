//! The processor and the memory of the machine.

use std::thread;

/// Features that can change numerics, or the speed of what we run.
#[cfg(target_arch = "x86_64")]
const FEATURES: [&str; 13] = [
    "amx_bf16",
    "amx_tile",
    "avx",
    "avx2",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "avx512bw",
    "avx512dq",
    "avx512f",
    "avx512vl",
    "fma",
    "sse4_2",
];
#[cfg(not(target_arch = "x86_64"))]
const FEATURES: [&str; 7] = ["asimd", "asimdhp", "bf16", "fp", "fphp", "i8mm", "sve"];

/// Cores that this process may use: affinity and control-group quotas count.
#[must_use]
pub fn cores() -> u32 {
    thread::available_parallelism()
        .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Model and features from the text of `/proc/cpuinfo`; empty where there is none.
pub(super) fn describe(cpuinfo: &str) -> (String, Vec<String>) {
    let value = |key: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim())
    };
    let model = value("model name")
        .or_else(|| value("Hardware"))
        .unwrap_or("");
    let flags = value("flags").or_else(|| value("Features")).unwrap_or("");
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let features = FEATURES
        .iter()
        .filter(|feature| flags.contains(feature))
        .map(ToString::to_string)
        .collect();
    (model.to_string(), features)
}

/// Bytes of memory from the text of `/proc/meminfo`; 0 where there is none.
pub(super) fn memory_bytes(meminfo: &str) -> u64 {
    meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_kernel_is_understood() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: fpu fma avx2 avx\n\n\
                    processor\t: 1\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: fpu fma avx2 avx\n";
        let (model, features) = describe(text);
        assert_eq!(model, "Some CPU @ 2.00GHz");
        #[cfg(target_arch = "x86_64")]
        assert_eq!(features, ["avx", "avx2", "fma"]);
        assert!(features.is_sorted());
        assert_eq!(
            memory_bytes("MemTotal:       24558592 kB\nMemFree: 1 kB\n"),
            24_558_592 * 1024
        );
    }

    #[test]
    fn no_text_is_no_trouble() {
        for text in ["", ":", "MemTotal:", "MemTotal: x kB", "model name"] {
            assert_eq!(describe(text), (String::new(), Vec::new()));
            assert_eq!(memory_bytes(text), 0);
        }
        assert!(cores() > 0);
    }
}
