//! The CUDA kernels on the CPU: a driver whose kernels are `kernels/*.cu`, compiled by the machine's C++ compiler under
//! `shim/cuda_on_cpu.h`. The whole suite runs on it, so that what is compiled for NVIDIA GPUs is known to compute the
//! right numbers.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use foil::tensor::gpu::Gpu;
use foil::tensor::gpu::driver::{Driver, Launch, Limits};
use foil::tensor::gpu::kernels::ALL;
use foil::tensor::{Precision, TensorError};
use libloading::Library;

/// `groups, params, words, arguments, count, order`.
type LaunchFunction =
    unsafe extern "C" fn(*const u32, *const u32, usize, *const *mut c_void, usize, u32) -> i32;

/// Kernels of one file, compiled.
pub struct Compiled {
    library: Library,
    /// The fibers' memory is that of the library: one launch at a time.
    lock: Mutex<()>,
    // Until the library is closed.
    _folder: tempfile::TempDir,
}

impl Compiled {
    pub fn new(source: &Path, entries: &[&str], precision: Precision) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kernels.so");
        let exports: Vec<String> = entries.iter().map(|e| format!("EXPORT({e})")).collect();
        let output = Command::new("c++")
            .args(["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared"])
            // Libraries of the same kernels, one changed, share nothing and can be unloaded. (One that cannot be would be
            // taken for a later one whose file gets the number of its deleted file.)
            .arg("-fno-gnu-unique")
            .args([
                "-Wall",
                "-Werror",
                "-Wno-unknown-pragmas",
                "-Wno-unused-function",
            ])
            .args((precision == Precision::F16).then_some("-DFOIL_F16"))
            .arg(format!("-DSOURCE=\"{}\"", source.display()))
            .arg(format!("-DENTRIES={}", exports.join(" ")))
            .arg("-I")
            .arg(root.join("kernels"))
            .arg(root.join("tests/backends/shim/glue.cpp"))
            .arg("-o")
            .arg(&file)
            .output()
            .expect("a C++ compiler");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", source.display());
        // SAFETY: a library of kernels runs nothing when it is loaded.
        let library = unsafe { Library::new(&file) }.expect("what was just compiled");
        Self {
            library,
            lock: Mutex::new(()),
            _folder: folder,
        }
    }

    /// Runs a kernel; what it returns other than 0 is said in `cuda_on_cpu.h`.
    fn launch(
        &self,
        entry: &str,
        groups: [u32; 3],
        params: &[u32],
        arguments: &[*mut c_void],
        order: u32,
    ) -> i32 {
        let _one_at_a_time = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        let name = format!("launch_{entry}");
        // SAFETY: `EXPORT` gives every kernel a function of this type. The arguments are buffers that are as large as
        // the launch says, and nobody else uses them while the caller holds the lock of the driver.
        unsafe {
            let launch = self.library.get::<LaunchFunction>(name.as_bytes());
            let launch = launch.unwrap_or_else(|e| panic!("{entry}: {e}"));
            let (words, count) = (params.len(), arguments.len());
            launch(
                groups.as_ptr(),
                params.as_ptr(),
                words,
                arguments.as_ptr(),
                count,
                order,
            )
        }
    }
}

/// Memory that kernels may write to while others look at its address.
pub struct Buffer {
    memory: *mut [u32; 4],
    count: usize,
}

// SAFETY: only read and written under the lock of the driver.
unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

impl Buffer {
    fn new(bytes: usize) -> Self {
        // NaNs: a kernel that reads what nobody wrote does not go unnoticed.
        let memory = vec![[u32::MAX; 4]; bytes.div_ceil(16)].into_boxed_slice();
        let count = memory.len();
        Self {
            memory: Box::into_raw(memory).cast(),
            count,
        }
    }

    fn at(&self, byte: usize) -> *mut u8 {
        assert!(byte <= 16 * self.count, "a place in the buffer");
        // SAFETY: just checked.
        unsafe { self.memory.cast::<u8>().add(byte) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.memory, self.count);
        // SAFETY: made by `Box::into_raw` in `new`.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// All kernels by their files.
pub type Files = HashMap<&'static str, Arc<Compiled>>;

/// Entries of the kernels of each file.
pub fn entries() -> HashMap<&'static str, Vec<&'static str>> {
    let mut entries: HashMap<&'static str, Vec<&'static str>> = HashMap::new();
    for kernel in ALL {
        entries.entry(kernel.name).or_default().push(kernel.entry);
    }
    entries
}

/// All kernels, compiled once for all devices.
pub fn files(precision: Precision) -> &'static Files {
    static FILES: [OnceLock<Files>; 2] = [const { OnceLock::new() }; 2];
    FILES[usize::from(precision == Precision::F16)].get_or_init(|| {
        let files: Vec<_> = entries().into_iter().collect();
        let compile = |part: &[(&'static str, Vec<&'static str>)]| -> Vec<_> {
            let compiled = part.iter().map(|(name, entries)| {
                let source = PathBuf::from(format!("{name}.cu"));
                let compiled = Compiled::new(&source, entries, precision);
                (*name, Arc::new(compiled))
            });
            compiled.collect()
        };
        let (one, other) = files.split_at(files.len() / 2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| compile(other));
            let mut all = compile(one);
            all.extend(other.join().expect("compiled kernels"));
            all.into_iter().collect()
        })
    })
}

pub struct ShimDriver {
    files: Files,
    /// Launches and copies come one after another, as on a GPU.
    lock: Mutex<()>,
    order: u32,
    precision: Precision,
    /// Bytes that a kernel sees at once.
    binding: usize,
}

impl ShimDriver {
    fn new(files: Files, order: u32, precision: Precision, binding: usize) -> Self {
        Self {
            files,
            lock: Mutex::new(()),
            order,
            precision,
            binding,
        }
    }

    fn locked<T>(&self, work: impl FnOnce() -> T) -> T {
        let _one_at_a_time = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        work()
    }
}

impl Driver for ShimDriver {
    type Buffer = Buffer;

    fn describe(&self) -> String {
        "CUDA kernels on the CPU".into()
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn limits(&self) -> Limits {
        Limits {
            binding: self.binding,
            alignment: 256,
            groups: 65535,
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, TensorError> {
        Ok(Buffer::new(bytes))
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer, TensorError> {
        let buffer = Buffer::new(bytes.len());
        // SAFETY: the buffer has that many bytes and is new.
        unsafe { buffer.at(0).copy_from(bytes.as_ptr(), bytes.len()) };
        Ok(buffer)
    }

    fn download(&self, buffer: &Buffer, bytes: Range<usize>) -> Result<Vec<u8>, TensorError> {
        buffer.at(bytes.end);
        let mut found = vec![0; bytes.len()];
        // SAFETY: both have that many bytes; nobody writes under the lock.
        self.locked(|| unsafe {
            found
                .as_mut_ptr()
                .copy_from(buffer.at(bytes.start), bytes.len())
        });
        Ok(found)
    }

    fn copy(
        &self,
        (from, from_at): (&Buffer, usize),
        (to, to_at): (&Buffer, usize),
        bytes: usize,
    ) -> Result<(), TensorError> {
        from.at(from_at + bytes);
        to.at(to_at + bytes);
        // SAFETY: both have that many bytes; nobody else looks at them under the lock.
        self.locked(|| unsafe { to.at(to_at).copy_from(from.at(from_at), bytes) });
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_, Buffer>) -> Result<(), TensorError> {
        let arguments = launch.bindings.iter().map(|b| {
            b.buffer.at(b.bytes.end);
            b.buffer.at(b.bytes.start).cast()
        });
        let arguments: Vec<*mut c_void> = arguments.collect();
        let compiled = &self.files[launch.kernel.name];
        let entry = launch.kernel.entry;
        let done = self.locked(|| {
            compiled.launch(entry, launch.groups, launch.params, &arguments, self.order)
        });
        assert_eq!(done, 0, "{} {entry}", launch.kernel.name);
        Ok(())
    }

    fn wait(&self) -> Result<(), TensorError> {
        Ok(())
    }

    fn release(&self) {}

    fn peak(&self) -> u64 {
        0
    }
}

/// The CUDA kernels, if this machine can compile and run them, with the threads of a block in one of several orders.
pub fn device(order: u32) -> Option<&'static Gpu> {
    static DEVICES: [OnceLock<Option<Gpu>>; 3] = [const { OnceLock::new() }; 3];
    let device = DEVICES[order as usize].get_or_init(|| opened(order, Precision::F32, 1 << 31));
    device.as_ref()
}

/// The same with values that are kept as f16.
pub fn half_device() -> Option<&'static Gpu> {
    static DEVICE: OnceLock<Option<Gpu>> = OnceLock::new();
    let opened = DEVICE.get_or_init(|| opened(0, Precision::F16, 1 << 31));
    opened.as_ref()
}

/// The same with kernels that see only a few kilobytes at once.
pub fn narrow_device() -> Option<&'static Gpu> {
    static DEVICE: OnceLock<Option<Gpu>> = OnceLock::new();
    let opened = DEVICE.get_or_init(|| opened(2, Precision::F32, 1 << 17));
    opened.as_ref()
}

/// Whether this machine can compile and run CUDA kernels for the CPU.
pub fn can_compile() -> bool {
    let compiler = Command::new("c++").arg("--version").output();
    cfg!(all(target_arch = "x86_64", target_os = "linux")) && compiler.is_ok()
}

/// A device with kernels of one's own.
pub fn device_of(files: Files, order: u32) -> Gpu {
    Gpu::new(Arc::new(ShimDriver::new(
        files,
        order,
        Precision::F32,
        1 << 31,
    )))
}

fn opened(order: u32, precision: Precision, binding: usize) -> Option<Gpu> {
    can_compile().then(|| {
        let files = files(precision).clone();
        Gpu::new(Arc::new(ShimDriver::new(files, order, precision, binding)))
    })
}

/// What a kernel of `missing_barrier.cu` gives in one order of threads.
fn missing_barrier(compiled: &Compiled, entry: &str, order: u32) -> (i32, Vec<f32>) {
    let mut y = vec![-1.0f32; 512];
    let arguments = [y.as_mut_ptr().cast()];
    let done = compiled.launch(entry, [2, 1, 1], &[100], &arguments, order);
    (done, y)
}

#[test]
fn shim_runs_threads_up_to_a_barrier_and_finds_a_missing_one() {
    if device(0).is_none() {
        println!("skipped: this machine cannot compile CUDA kernels for the CPU");
        return;
    }
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backends/shim/missing_barrier.cu");
    let entries = ["waits", "races", "leaves", "warps", "splits"];
    let compiled = Compiled::new(&source, &entries, Precision::F32);
    let expected: Vec<f32> = (0..512)
        .map(|i| ((i + 1) % 256 + i / 256 + 100) as f32)
        .collect();
    for order in [0, 1, 2, 5] {
        assert_eq!(
            missing_barrier(&compiled, "waits", order),
            (0, expected.clone())
        );
    }
    // Neighbours that run first have written already, others not: the order shows.
    let [forth, back] = [0, 1].map(|order| missing_barrier(&compiled, "races", order).1);
    assert_ne!(forth, back);
    // 100 of 256 threads come to the barrier.
    assert_eq!(missing_barrier(&compiled, "leaves", 0).0, 1);
    // Sums over warps, and over the block.
    let all: f32 = (100..356).map(|i| i as f32).sum();
    let sums = (0..512).map(|i| match i % 2 {
        0 => (0..32).map(|k| (i % 256 / 32 * 32 + k + 100) as f32).sum(),
        _ => all,
    });
    let sums: Vec<f32> = sums.collect();
    for order in [0, 1, 2] {
        let found = missing_barrier(&compiled, "warps", order);
        assert_eq!(found, (0, sums.clone()));
    }
    // Half of a warp waits for its warp, half for the block.
    assert_eq!(missing_barrier(&compiled, "splits", 0).0, 1);
    // Another number of parameters or arguments than the kernel has.
    let nothing = compiled.launch("waits", [1, 1, 1], &[1, 2], &[], 0);
    assert_eq!(nothing, 2);
}
