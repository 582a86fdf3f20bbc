//! Opening the device that a config asks for.
//!
//! Compute threads on the CPU: the `flex` backend and the matrix products below it (`gemm`) run on
//! rayon's global pool and nowhere else, so its size is the thread count of a worker.

use burn::tensor::{Device, DeviceType, Tensor};
use rayon::ThreadPoolBuilder;

use crate::config::Backend;
use crate::run::Fault;

/// Opens a device without automatic differentiation and sets the number of compute threads.
///
/// `index` chooses among several devices of a kind: each worker has its own. `threads` = 0 takes all
/// cores. The number is set by the first call of a process; later calls leave it, which changes no
/// result.
///
/// # Errors
///
/// A fault of class machine when the config asks for a device that is not there or does not work.
pub fn open(backend: Backend, index: u32, threads: u32) -> Result<Device, Fault> {
    set_threads(threads)?;
    match backend {
        Backend::Flex => Ok(Device::flex()),
        // Workers on different kinds of devices would not agree: whether there is one decides for all.
        Backend::Auto if usable_cuda(0).is_err() => Ok(Device::flex()),
        Backend::Auto | Backend::Cuda => usable_cuda(index),
        Backend::Tch => libtorch(),
    }
}

/// What a device is, for people: `cpu (flex, 2 threads)`.
#[must_use]
pub fn describe(device: &Device) -> String {
    if super::is_host(device) {
        let threads = rayon::current_num_threads();
        let plural = if threads == 1 { "" } else { "s" };
        return format!("cpu (flex, {threads} thread{plural})");
    }
    format!("{:?}", device.clone().without_autodiff())
}

fn set_threads(threads: u32) -> Result<(), Fault> {
    let count = match usize::try_from(threads).unwrap_or(usize::MAX) {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    if count > THREADS_MAX {
        return Err(
            Fault::usage(format!("{count} compute threads are too many"))
                .advise(format!("set `resources.threads` to at most {THREADS_MAX}")),
        );
    }
    // An error means that the pool exists already.
    let _ = ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(|index| format!("compute-{index}"))
        .build_global();
    Ok(())
}

/// Most compute threads of a worker.
const THREADS_MAX: usize = 1024;

#[cfg(feature = "cuda")]
fn usable_cuda(index: u32) -> Result<Device, Fault> {
    // Listing asks the driver, if there is one; creating a device without a driver would panic in
    // a thread of the runtime.
    let devices = Device::enumerate(DeviceType::Cuda);
    let count = devices.len();
    let Some(device) = devices.into_iter().nth(index as usize) else {
        return Err(match count {
            0 => Fault::machine("there is no usable CUDA device")
                .advise("check `nvidia-smi`, or set `resources.backend` to \"auto\" or \"flex\""),
            _ => Fault::machine(format!(
                "worker {index} needs a CUDA device of its own, and there are {count}"
            ))
            .advise(format!("set `resources.slots` to at most {count}")),
        });
    };
    let probe = device.clone();
    match quietly(move || {
        let ones = Tensor::<1>::ones([2], &probe);
        ones.sum()
            .try_into_scalar::<f32>()
            .map_err(|error| format!("{error:?}"))
    }) {
        Ok(sum) if (sum - 2.0).abs() < f32::EPSILON => Ok(device),
        Ok(sum) => Err(broken(&format!("1 + 1 gave {sum}"))),
        Err(problem) => Err(broken(&problem)),
    }
}

#[cfg(feature = "cuda")]
fn broken(problem: &str) -> Fault {
    let first = problem.lines().next().unwrap_or_default();
    Fault::machine(format!("the CUDA device does not work: {first}")).advise(
        "check that driver and CUDA toolkit (NVRTC) fit together, or set `resources.backend` to \
         \"flex\"",
    )
}

/// Runs a probe whose panic, in this thread, becomes an error instead of a message on the terminal.
#[cfg(feature = "cuda")]
fn quietly<T: Send + 'static>(
    probe: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = std::thread::spawn(probe).join();
    std::panic::set_hook(hook);
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(text.unwrap_or_else(|| "the runtime gave up".to_owned()))
    })
}

#[cfg(not(feature = "cuda"))]
fn usable_cuda(_: u32) -> Result<Device, Fault> {
    Err(Fault::machine("this program was built without CUDA")
        .advise("set `resources.backend` to \"auto\" or \"flex\", or build with feature `cuda`"))
}

#[cfg(feature = "tch")]
#[expect(
    deprecated,
    reason = "burn deprecates libtorch; it stays an option for those who have it"
)]
fn libtorch() -> Result<Device, Fault> {
    Ok(Device::libtorch())
}

#[cfg(not(feature = "tch"))]
fn libtorch() -> Result<Device, Fault> {
    Err(Fault::machine("this program was built without libtorch")
        .advise("set `resources.backend` to \"auto\" or \"flex\", or build with feature `tch`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::FaultClass;

    #[test]
    fn auto_and_flex_always_open() {
        assert!(open(Backend::Auto, 0, 2).is_ok());
        let device = open(Backend::Flex, 0, 0).unwrap();
        assert!(!device.is_autodiff());
        assert!(
            describe(&device).starts_with("cpu (flex, "),
            "{}",
            describe(&device)
        );
    }

    #[test]
    fn too_many_threads_are_refused() {
        assert_eq!(
            open(Backend::Flex, 0, u32::MAX).unwrap_err().class,
            FaultClass::Usage
        );
    }

    #[test]
    fn missing_devices_are_faults_of_the_machine() {
        if let Err(fault) = open(Backend::Cuda, 0, 1) {
            assert_eq!(fault.class, FaultClass::Machine);
            assert!(
                fault.advice.contains("resources.backend"),
                "{}",
                fault.advice
            );
        }
        if cfg!(not(feature = "tch")) {
            let fault = open(Backend::Tch, 0, 1).unwrap_err();
            assert_eq!(fault.class, FaultClass::Machine);
        }
    }
}
