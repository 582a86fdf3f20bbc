//! The devices of this machine that runs take whole, best first.

use super::slots::Device;

/// Names the slots of a machine that has no GPUs, or whose GPUs are to be called otherwise.
const VARIABLE: &str = "TRAINER_SLOTS";

/// The devices that runs with this backend share out among themselves: the names in `TRAINER_SLOTS`,
/// else the GPUs that `CUDA_VISIBLE_DEVICES` leaves, by UUID. None where nothing needs sharing out:
/// workers on the CPU take turns on its cores.
#[must_use]
pub fn devices(backend: &str) -> Vec<Device> {
    if let Ok(names) = std::env::var(VARIABLE) {
        let names = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        return names
            .map(|name| Device {
                id: name.to_string(),
                group: 0,
            })
            .collect();
    }
    match backend {
        "auto" | "cuda" => {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            grouped(&seen(gpus(), visible.as_deref()))
        }
        _ => Vec::new(),
    }
}

/// A GPU as NVML shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gpu {
    uuid: String,
    /// PCI addresses at both ends of its `NVLinks`: its own, and those of other GPUs or of switches.
    links: Vec<String>,
}

#[cfg(feature = "cuda")]
fn gpus() -> Vec<Gpu> {
    /// Most `NVLinks` of a GPU, in every generation so far.
    const LINKS_MAX: u32 = 18;
    let Ok(nvml) = nvml_wrapper::Nvml::init() else {
        return Vec::new();
    };
    let devices =
        (0..nvml.device_count().unwrap_or(0)).filter_map(|i| nvml.device_by_index(i).ok());
    devices
        .filter_map(|device| {
            let mut links = vec![device.pci_info().ok()?.bus_id];
            for link in (0..LINKS_MAX).map(|number| device.link_wrapper_for(number)) {
                if link.is_active().unwrap_or(false)
                    && let Ok(other) = link.remote_pci_info()
                {
                    links.push(other.bus_id);
                }
            }
            Some(Gpu {
                uuid: device.uuid().ok()?,
                links,
            })
        })
        .collect()
}

#[cfg(not(feature = "cuda"))]
fn gpus() -> Vec<Gpu> {
    Vec::new()
}

/// Those that `CUDA_VISIBLE_DEVICES` leaves, in its order: numbers, or beginnings of UUIDs, up to the
/// first that means nothing (as CUDA has it).
fn seen(gpus: Vec<Gpu>, visible: Option<&str>) -> Vec<Gpu> {
    let Some(visible) = visible else {
        return gpus;
    };
    let wanted = visible.split(',').map(str::trim);
    wanted
        .map_while(|name| match name.parse::<usize>() {
            Ok(index) => gpus.get(index).cloned(),
            Err(_) if name.is_empty() => None,
            Err(_) => gpus.iter().find(|gpu| gpu.uuid.starts_with(name)).cloned(),
        })
        .collect()
}

/// Gives one number to all that `NVLinks` join, over others or over switches.
fn grouped(gpus: &[Gpu]) -> Vec<Device> {
    let mut groups: Vec<usize> = (0..gpus.len()).collect();
    // As often as there are GPUs is enough for any chain of links.
    for _ in gpus {
        for (i, a) in gpus.iter().enumerate() {
            for (j, b) in gpus.iter().enumerate() {
                if a.links.iter().any(|end| b.links.contains(end)) {
                    let least = groups[i].min(groups[j]);
                    (groups[i], groups[j]) = (least, least);
                }
            }
        }
    }
    gpus.iter()
        .zip(groups)
        .map(|(gpu, group)| Device {
            id: gpu.uuid.clone(),
            group: u32::try_from(group).unwrap_or(u32::MAX),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(uuid: &str, links: &[&str]) -> Gpu {
        Gpu {
            uuid: uuid.to_string(),
            links: links.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn cuda_variable_chooses_and_orders() {
        let all = || vec![gpu("GPU-a1", &[]), gpu("GPU-b2", &[]), gpu("GPU-c3", &[])];
        for (visible, expected) in [
            (None, "GPU-a1 GPU-b2 GPU-c3"),
            (Some("2,0"), "GPU-c3 GPU-a1"),
            (Some("GPU-b"), "GPU-b2"),
            (Some("1,-1,0"), "GPU-b2"),
            (Some("7"), ""),
            (Some(""), ""),
        ] {
            let found = seen(all(), visible);
            let found: Vec<&str> = found.iter().map(|gpu| gpu.uuid.as_str()).collect();
            assert_eq!(found.join(" "), expected, "{visible:?}");
        }
    }

    #[test]
    fn links_and_switches_join() {
        let groups = |gpus: &[Gpu]| -> Vec<u32> { grouped(gpus).iter().map(|d| d.group).collect() };
        let pairs = [
            gpu("a", &["0a", "0b"]),
            gpu("b", &["0b", "0a"]),
            gpu("c", &["0c", "0d"]),
            gpu("d", &["0d", "0c"]),
        ];
        assert_eq!(groups(&pairs), [0, 0, 2, 2]);
        let switched = [
            gpu("a", &["0a", "s1"]),
            gpu("b", &["0b"]),
            gpu("c", &["0c", "s1"]),
        ];
        assert_eq!(groups(&switched), [0, 1, 0]);
        let chain = [
            gpu("a", &["0a", "0c"]),
            gpu("b", &["0b", "0c"]),
            gpu("c", &["0c", "0a", "0b"]),
        ];
        assert_eq!(groups(&chain), [0, 0, 0]);
    }
}
