//! NCCL and the CUDA driver as they are installed, opened when they are first needed.
//!
//! The driver's functions are those of `cudarc`. NCCL's are looked up here: `cudarc` looks for the library
//! under its name for developers, `libnccl.so`, which most machines that have it do not have, and panics
//! where a function is missing.

#![expect(unsafe_code, reason = "calls of C libraries")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;

use cudarc::driver::result::{self as driver, DriverError};
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdeviceptr, CUstream};
use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclUniqueId};
use libloading::Library as SharedObject;

use super::library::{Id, Library, Progress, Refusal, Transfer, Way};
use crate::run::{Rank, WorldSize};

/// Names of NCCL's library, first those that a user's machine has.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// Codes of `nccl.h` that mean something here.
const SUCCESS: c_int = 0;
const REMOTE_ERROR: c_int = 6;
const IN_PROGRESS: c_int = 7;
const FLOAT32: c_int = 7;
const SUM: c_int = 0;

/// What `NCCL_CONFIG_INITIALIZER` of `nccl.h` holds: the mark, and an option that is left to the library.
const CONFIG_MAGIC: u32 = 0xcafe_beef;
const UNDEFINED: c_int = c_int::MIN;
/// Version of NCCL whose options are given: the first that can be called without blocking, 2.14.
const CONFIG_VERSION: u32 = 21_400;

/// The functions of NCCL that are used, with the types of `nccl.h`; results are plain numbers, because a
/// later version may know others.
struct Functions {
    unique_id: unsafe extern "C" fn(*mut ncclUniqueId) -> c_int,
    init: unsafe extern "C" fn(
        *mut ncclComm_t,
        c_int,
        ncclUniqueId,
        c_int,
        *mut ncclConfig_t,
    ) -> c_int,
    async_error: unsafe extern "C" fn(ncclComm_t, *mut c_int) -> c_int,
    group_start: unsafe extern "C" fn() -> c_int,
    group_end: unsafe extern "C" fn() -> c_int,
    send: unsafe extern "C" fn(*const c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int,
    receive: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        ncclComm_t,
        CUstream,
    ) -> c_int,
    finalize: unsafe extern "C" fn(ncclComm_t) -> c_int,
    destroy: unsafe extern "C" fn(ncclComm_t) -> c_int,
    abort: unsafe extern "C" fn(ncclComm_t) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    last_error: unsafe extern "C" fn(ncclComm_t) -> *const c_char,
}

impl Functions {
    fn load() -> Result<Self, String> {
        let mut why = String::new();
        for name in NAMES {
            // SAFETY: NCCL's initialisers only set up its own variables; nothing of CUDA is touched.
            match unsafe { SharedObject::new(name) } {
                // Never closed: its threads may outlive every communicator.
                Ok(library) => return Self::of(Box::leak(Box::new(library))),
                Err(error) if why.is_empty() => why = error.to_string(),
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn of(library: &'static SharedObject) -> Result<Self, String> {
        fn find<F: Copy>(library: &'static SharedObject, name: &str) -> Result<F, String> {
            // SAFETY: `F` is the type that `nccl.h` gives the function of this name since version 2.14,
            // which the list in `Functions` is held against; the library stays loaded.
            let function = unsafe { library.get::<F>(name) };
            function.map(|function| *function).map_err(|_| {
                format!("it has no function `{name}`: version 2.14 or later is needed")
            })
        }
        Ok(Self {
            unique_id: find(library, "ncclGetUniqueId")?,
            init: find(library, "ncclCommInitRankConfig")?,
            async_error: find(library, "ncclCommGetAsyncError")?,
            group_start: find(library, "ncclGroupStart")?,
            group_end: find(library, "ncclGroupEnd")?,
            send: find(library, "ncclSend")?,
            receive: find(library, "ncclRecv")?,
            all_reduce: find(library, "ncclAllReduce")?,
            finalize: find(library, "ncclCommFinalize")?,
            destroy: find(library, "ncclCommDestroy")?,
            abort: find(library, "ncclCommAbort")?,
            error_string: find(library, "ncclGetErrorString")?,
            last_error: find(library, "ncclGetLastError")?,
        })
    }

    fn get() -> Result<&'static Self, Refusal> {
        static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
        let functions = FUNCTIONS.get_or_init(Self::load).as_ref();
        functions.map_err(|reason| local("be used", format!("its library: {reason}")))
    }

    /// What a result means.
    fn check(&self, doing: &'static str, code: c_int, comm: ncclComm_t) -> Result<(), Refusal> {
        if code == SUCCESS || code == IN_PROGRESS {
            return Ok(());
        }
        let words = |text: *const c_char| {
            if text.is_null() {
                return String::new();
            }
            // SAFETY: the library gives constant texts, or one that stays until its next call on this
            // thread, and they end with a zero.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy().trim().to_string()
        };
        // SAFETY: takes any number.
        let name = words(unsafe { (self.error_string)(code) });
        // SAFETY: takes a communicator or none, and reads the thread's last message.
        let detail = words(unsafe { (self.last_error)(comm) });
        let reason = if detail.is_empty() {
            name
        } else {
            format!("{name} ({detail})")
        };
        Err(Refusal {
            doing,
            reason,
            remote: code == REMOTE_ERROR,
        })
    }
}

/// A refusal whose cause is here.
fn local(doing: &'static str, reason: String) -> Refusal {
    Refusal {
        doing,
        reason,
        remote: false,
    }
}

fn of_driver(doing: &'static str) -> impl Fn(DriverError) -> Refusal {
    move |error| local(doing, format!("the CUDA driver says {:?}", error.0))
}

/// Whether both libraries are here and complete.
pub(super) fn find() -> Result<(), Refusal> {
    // SAFETY: opens the driver's library and closes it again; its initialisers start nothing.
    if unsafe { sys::is_culib_present() } {
        Functions::get().map(|_| ())
    } else {
        let reason = "the CUDA driver (`libcuda.so.1`) is not on this machine".to_string();
        Err(local("be used", reason))
    }
}

/// One GPU with one stream, one array and at most one communicator.
pub(super) struct Cuda {
    nccl: &'static Functions,
    device: CUdevice,
    context: CUcontext,
    stream: CUstream,
    array: CUdeviceptr,
    /// Length of the array, in floats; 0 while there is none.
    floats: usize,
    /// Null while there is none.
    comm: ncclComm_t,
}

// SAFETY: all handles are names of things that the driver and NCCL keep; both allow any thread to use them,
// one after another, and each use makes the context the thread's first (`enter`).
unsafe impl Send for Cuda {}

impl Cuda {
    /// Opens a device, in the context that the tensors of this process use as well.
    pub(super) fn open(ordinal: u32) -> Result<Self, Refusal> {
        const DOING: &str = "open the device";
        find()?;
        driver::init().map_err(of_driver(DOING))?;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        let device = driver::device::get(ordinal).map_err(of_driver(DOING))?;
        // SAFETY: the device was just given by the driver; released in `drop`.
        let context = unsafe { driver::primary_ctx::retain(device) }.map_err(of_driver(DOING))?;
        let mut cuda = Self {
            nccl: Functions::get()?,
            device,
            context,
            stream: null_mut(),
            array: 0,
            floats: 0,
            comm: null_mut(),
        };
        cuda.enter()?;
        // One that does not wait for the tensors' streams.
        let kind = driver::stream::StreamKind::NonBlocking;
        cuda.stream = driver::stream::create(kind).map_err(of_driver(DOING))?;
        Ok(cuda)
    }

    /// Makes the device this thread's.
    fn enter(&self) -> Result<(), Refusal> {
        // SAFETY: the context is retained until `drop`.
        unsafe { driver::ctx::set_current(self.context) }.map_err(of_driver("reach the device"))
    }

    /// The place of floats in the array.
    fn place(&self, doing: &'static str, range: &Range<usize>) -> Result<CUdeviceptr, Refusal> {
        if range.start <= range.end && range.end <= self.floats {
            return Ok(self.array + (range.start * size_of::<f32>()) as CUdeviceptr);
        }
        let reason = format!(
            "{range:?} is outside the {} floats of its array",
            self.floats
        );
        Err(local(doing, reason))
    }

    /// Waits for a copy, which is all there is on the stream.
    fn wait(&self, doing: &'static str) -> Result<(), Refusal> {
        // SAFETY: the stream lives until `drop`.
        unsafe { driver::stream::synchronize(self.stream) }.map_err(of_driver(doing))
    }

    fn release_array(&mut self) {
        if std::mem::take(&mut self.floats) > 0 {
            // SAFETY: allocated in `reserve`, freed once; nothing on the stream uses it: callers have
            // waited for it or aborted it. An error leaves memory that the process's end frees.
            let _ = unsafe { driver::free_sync(self.array) };
        }
    }
}

impl Library for Cuda {
    fn id(&mut self) -> Result<Id, Refusal> {
        self.enter()?;
        let mut id = ncclUniqueId {
            internal: [0; size_of::<Id>()],
        };
        // SAFETY: `id` is written to, and of the type of the header.
        let code = unsafe { (self.nccl.unique_id)(&raw mut id) };
        self.nccl.check("name a group", code, null_mut())?;
        Ok(id.internal.map(c_char::cast_unsigned))
    }

    fn begin(&mut self, id: &Id, rank: Rank, world: WorldSize) -> Result<(), Refusal> {
        self.enter()?;
        let number = |number: u32| c_int::try_from(number).unwrap_or(c_int::MAX);
        let id = ncclUniqueId {
            internal: id.map(u8::cast_signed),
        };
        let mut config = config();
        // SAFETY: `comm` and `config` are written to or read during the call only; after an error `comm`
        // may be null, which `abort` knows.
        let code = unsafe {
            (self.nccl.init)(
                &raw mut self.comm,
                number(world.get()),
                id,
                number(rank.get()),
                &raw mut config,
            )
        };
        self.nccl.check("join a group", code, null_mut())
    }

    fn progress(&mut self) -> Result<Progress, Refusal> {
        const DOING: &str = "go on";
        let mut state = SUCCESS;
        // SAFETY: `comm` was made by `begin` and not freed: nobody asks after `free` or `abort`.
        let code = unsafe { (self.nccl.async_error)(self.comm, &raw mut state) };
        self.nccl.check(DOING, code, self.comm)?;
        self.nccl.check(DOING, state, self.comm)?;
        Ok(if state == IN_PROGRESS {
            Progress::UnderWay
        } else {
            Progress::Settled
        })
    }

    fn is_idle(&mut self) -> Result<bool, Refusal> {
        self.enter()?;
        // SAFETY: the stream lives until `drop`.
        match unsafe { sys::cuStreamQuery(self.stream) } {
            sys::CUresult::CUDA_SUCCESS => Ok(true),
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => Err(of_driver("finish on the device")(DriverError(other))),
        }
    }

    fn reserve(&mut self, floats: usize) -> Result<(), Refusal> {
        const DOING: &str = "have memory of the device";
        if floats <= self.floats {
            return Ok(());
        }
        self.enter()?;
        self.release_array();
        let bytes = floats
            .checked_mul(size_of::<f32>())
            .ok_or_else(|| local(DOING, format!("{floats} floats do not fit")))?;
        // SAFETY: nothing is read of it before it was written: `upload` and receives come first.
        self.array = unsafe { driver::malloc_sync(bytes) }.map_err(of_driver(DOING))?;
        self.floats = floats;
        Ok(())
    }

    fn upload(&mut self, at: usize, values: &[f32]) -> Result<(), Refusal> {
        const DOING: &str = "copy to the device";
        self.enter()?;
        let place = self.place(DOING, &(at..at.saturating_add(values.len())))?;
        // SAFETY: `place` checked that the array holds that many floats; the copy is waited for before
        // `values` can go.
        unsafe { driver::memcpy_htod_async(place, values, self.stream) }
            .map_err(of_driver(DOING))?;
        self.wait(DOING)
    }

    fn download(&mut self, at: usize, values: &mut [f32]) -> Result<(), Refusal> {
        const DOING: &str = "copy from the device";
        self.enter()?;
        let place = self.place(DOING, &(at..at.saturating_add(values.len())))?;
        // SAFETY: as in `upload`; any bits are a float.
        unsafe { driver::memcpy_dtoh_async(values, place, self.stream) }
            .map_err(of_driver(DOING))?;
        self.wait(DOING)
    }

    fn transfer(&mut self, transfers: &[Transfer]) -> Result<(), Refusal> {
        const DOING: &str = "exchange vectors";
        self.enter()?;
        let mut places = Vec::with_capacity(transfers.len());
        for transfer in transfers {
            places.push(self.place(DOING, &transfer.range)?);
        }
        // SAFETY: takes nothing; ended below whatever happens between.
        let code = unsafe { (self.nccl.group_start)() };
        self.nccl.check(DOING, code, self.comm)?;
        let mut first = Ok(());
        for (transfer, place) in transfers.iter().zip(places) {
            let peer = c_int::try_from(transfer.peer.get()).unwrap_or(c_int::MAX);
            let (count, comm, stream) = (transfer.range.len(), self.comm, self.stream);
            // SAFETY: `place` checked that the array holds that many floats from there; it is kept until
            // the stream is idle, which the caller waits for.
            let code = unsafe {
                match transfer.way {
                    Way::Out => {
                        (self.nccl.send)(place as *const c_void, count, FLOAT32, peer, comm, stream)
                    }
                    Way::In => (self.nccl.receive)(
                        place as *mut c_void,
                        count,
                        FLOAT32,
                        peer,
                        comm,
                        stream,
                    ),
                }
            };
            first = self.nccl.check(DOING, code, comm);
            if first.is_err() {
                break;
            }
        }
        // SAFETY: ends what was started above.
        let code = unsafe { (self.nccl.group_end)() };
        first?;
        self.nccl.check(DOING, code, self.comm)
    }

    fn all_reduce(&mut self, range: Range<usize>) -> Result<(), Refusal> {
        const DOING: &str = "sum vectors";
        self.enter()?;
        let place = self.place(DOING, &range)?;
        // SAFETY: as in `transfer`; the library allows a sum in place.
        let code = unsafe {
            (self.nccl.all_reduce)(
                place as *const c_void,
                place as *mut c_void,
                range.len(),
                FLOAT32,
                SUM,
                self.comm,
                self.stream,
            )
        };
        self.nccl.check(DOING, code, self.comm)
    }

    fn finish(&mut self) -> Result<(), Refusal> {
        self.enter()?;
        // SAFETY: `comm` was made by `begin`, and nothing is under way.
        let code = unsafe { (self.nccl.finalize)(self.comm) };
        self.nccl.check("leave its group", code, self.comm)
    }

    fn free(&mut self) {
        let comm = std::mem::replace(&mut self.comm, null_mut());
        if !comm.is_null() && self.enter().is_ok() {
            // SAFETY: made by `begin`, finished, and taken out of `self`: it is freed once. There is
            // nothing to be done about an error.
            let _ = unsafe { (self.nccl.destroy)(comm) };
        }
    }

    fn abort(&mut self) {
        let comm = std::mem::replace(&mut self.comm, null_mut());
        if !comm.is_null() && self.enter().is_ok() {
            // SAFETY: made by `begin` and taken out of `self`: it is freed once. There is nothing to be
            // done about an error.
            let _ = unsafe { (self.nccl.abort)(comm) };
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.enter().is_ok() {
            self.release_array();
            if !self.stream.is_null() {
                // SAFETY: made in `open`, destroyed once.
                let _ = unsafe { driver::stream::destroy(self.stream) };
            }
        }
        // SAFETY: retained in `open`, released once.
        let _ = unsafe { driver::primary_ctx::release(self.device) };
    }
}

/// Calls return at once, everything else is left to the library.
fn config() -> ncclConfig_t {
    ncclConfig_t {
        size: size_of::<ncclConfig_t>(),
        magic: CONFIG_MAGIC,
        version: CONFIG_VERSION,
        blocking: 0,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: null_mut(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: null_mut(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
        graphUsageMode: UNDEFINED,
        numRmaCtx: UNDEFINED,
        maxP2pPeers: UNDEFINED,
    }
}
