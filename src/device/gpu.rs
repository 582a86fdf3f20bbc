//! Graphics processors, through NVML where its library is installed.

use crate::run::Environment;

/// Folders where NCCL is usually installed.
const LIBRARY_FOLDERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
];

/// Fills in GPUs and the versions around them; leaves everything empty where there are none.
#[cfg(feature = "cuda")]
pub(super) fn describe(environment: &mut Environment) {
    use crate::run::Gpu;

    environment.nccl_version = nccl_version();
    let Ok(nvml) = nvml_wrapper::Nvml::init() else {
        return;
    };
    environment.driver_version = nvml.sys_driver_version().unwrap_or_default();
    environment.cuda_version = nvml.sys_cuda_driver_version().map_or_else(
        |_| String::new(),
        |version| format!("{}.{}", version / 1000, version % 1000 / 10),
    );
    for index in 0..nvml.device_count().unwrap_or(0) {
        if let Ok(device) = nvml.device_by_index(index) {
            environment.gpus.push(Gpu {
                name: device.name().unwrap_or_default(),
                uuid: device.uuid().unwrap_or_default(),
                memory_bytes: device.memory_info().map_or(0, |memory| memory.total),
            });
        }
    }
}

/// Fills in the NCCL version: this build knows no other GPU library.
#[cfg(not(feature = "cuda"))]
pub(super) fn describe(environment: &mut Environment) {
    environment.nccl_version = nccl_version();
}

/// The version in the file name that `libnccl.so.2` leads to; empty without one. Loading the library
/// to ask it would start CUDA.
fn nccl_version() -> String {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(LIBRARY_FOLDERS.iter().map(Into::into))
        .filter_map(|folder| std::fs::canonicalize(folder.join("libnccl.so.2")).ok())
        .find_map(|file| version_in(file.file_name()?.to_str()?))
        .unwrap_or_default()
}

fn version_in(name: &str) -> Option<String> {
    let version = name.strip_prefix("libnccl.so.")?;
    let plain = version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (plain && version.contains('.')).then(|| version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_name_tells_its_version() {
        assert_eq!(version_in("libnccl.so.2.21.5"), Some("2.21.5".to_string()));
        assert_eq!(version_in("libnccl.so.2"), None);
        assert_eq!(version_in("libnccl.so.2.x"), None);
        assert_eq!(version_in("other"), None);
    }
}
