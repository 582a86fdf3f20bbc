//! A stand-in for the crate of the same name and version.
//!
//! `cubecl-cuda` always links its LLVM route, although only one of its two compilers runs. The
//! published `cubecl-llvm` downloads a prebuilt LLVM while it is being built, which fails on every
//! machine without access to that host. `trainer` chooses the other compiler (feature `cpp`: CUDA
//! C++ through NVRTC), so this crate offers just the names that `cubecl-cuda` mentions, and its
//! compiler refuses with an error that says so.
//!
//! Refuses to: compile anything, or pretend that it did.

use core::fmt;

use cubecl_core::{Compiler, ir::nvidia::SmArch, prelude::KernelDefinition};
use cubecl_environment::backtrace::BackTrace;
use cubecl_runtime::{compiler::CompilationError, kernel::BufferIOAttr};

/// The target a kernel would be lowered for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlvmTarget {
    /// The host processor.
    #[default]
    Cpu,
    /// NVIDIA PTX.
    Nvptx,
}

/// The compiler that is not here.
#[derive(Clone, Debug, Default)]
pub struct PlironCompiler {
    /// What it would compile for.
    pub target: LlvmTarget,
}

/// Options that `cubecl-cuda` fills in before it asks for a compilation.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// AMD architecture; always absent here.
    pub arch: Option<NoArchitecture>,
    /// NVIDIA architecture of the device.
    pub sm_arch: Option<SmArch>,
    /// Newest PTX version the driver loads.
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// Whether launch parameters travel in the parameter block.
    pub grid_constants: bool,
    /// Room for the fields that only other targets read.
    pub other: (),
}

/// An architecture that cannot be named: this crate serves no AMD device.
#[derive(Clone, Copy, Debug)]
pub enum NoArchitecture {}

/// PTX that a working compiler would return.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// NUL-terminated PTX.
    pub ptx: Vec<core::ffi::c_char>,
    /// Name of the kernel.
    pub entrypoint: String,
    /// Text for logs.
    pub ir: String,
    /// Shared memory of one launch, in bytes.
    pub shared_memory_size: usize,
    /// How each buffer is accessed, in binding order.
    pub io: Vec<BufferIOAttr>,
}

/// Everything a compilation could produce.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// Code for an NVIDIA device.
    NvptxCode(NvptxModule),
    /// Code for the host; never made, it keeps the match in `cubecl-cuda` total.
    Host,
}

impl fmt::Display for PlironArtifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlironArtifact::NvptxCode(module) => f.write_str(&module.ir),
            PlironArtifact::Host => f.write_str("host"),
        }
    }
}

impl Compiler for PlironCompiler {
    type Representation = PlironArtifact;
    type CompilationOptions = PlironOptions;

    fn compile(
        &mut self,
        _kernel: KernelDefinition,
        _options: &PlironOptions,
    ) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Generic {
            reason: "this binary compiles CUDA kernels with NVRTC; the LLVM compiler is not part \
                     of it (cubecl-cuda must be built with its feature `cpp`)"
                .to_string(),
            backtrace: BackTrace::capture(),
        })
    }

    fn extension(&self) -> &'static str {
        "ll"
    }

    fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}

/// NVIDIA specifics.
pub mod nvptx {
    /// PTX versions.
    pub mod ptx_version {
        use core::fmt;

        /// A PTX version; never known here, because nothing is emitted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PtxVersion {}

        impl PtxVersion {
            /// Always `None`: no version is chosen where no PTX is written.
            #[must_use]
            pub fn for_driver(_driver: i32) -> Option<Self> {
                None
            }
        }

        impl fmt::Display for PtxVersion {
            fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {}
            }
        }
    }
}

/// What several targets share.
pub mod shared {
    /// Features of a device as the LLVM route would offer them.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// The device family.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA.
            Nvptx,
        }

        /// Takes away all matrix features: a compiler that compiles nothing offers none.
        pub fn restrict_features(properties: &mut DeviceProperties, target: GpuTarget) {
            match target {
                GpuTarget::Nvptx => {
                    properties.features.matmul.cmma.clear();
                    properties.features.matmul.mma.clear();
                }
            }
        }
    }
}
