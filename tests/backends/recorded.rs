//! A driver of wgpu that can write down what it hands to the device, for `scripts/check-wgsl`, which repeats it on
//! another implementation of WebGPU. The suite runs on it in any case; nothing is written unless `FOIL_RECORD_LAUNCHES`
//! names a folder. There, in `f32-N` or `f16-N` for each device that is opened:
//!
//! - `FILE.ENTRY.wgsl`: every kernel, as it is compiled;
//! - `launches.jsonl`: kernel, workgroups, parameters and arguments of launches that differ in any of them;
//! - `bytes.bin`: what the arguments held before and, where they are written, after.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use foil::tensor::gpu::Gpu;
use foil::tensor::gpu::driver::{Binding, Driver, Launch, Limits};
use foil::tensor::gpu::kernels::ALL;
use foil::tensor::wgpu::{Adapter, WgpuDriver};
use foil::tensor::{Precision, TensorError};
use serde_json::json;

/// Launches that see more bytes are not recorded: every kernel has smaller ones.
const MOST_BYTES: usize = 1 << 18;

type Buffer = <WgpuDriver as Driver>::Buffer;

/// A launch without its data: kernel, workgroups, parameters, bytes of the arguments.
type Seen = (&'static str, &'static str, [u32; 3], Vec<u32>, Vec<usize>);

pub struct Recorded {
    driver: WgpuDriver,
    recording: Option<Mutex<Recording>>,
}

/// A GPU if there is one, else a software adapter if there is one.
pub fn open(binding: Option<usize>, precision: Precision) -> Option<Gpu> {
    Some(Gpu::new(driver(binding, precision)?))
}

/// Its driver.
pub fn driver(binding: Option<usize>, precision: Precision) -> Option<Arc<Recorded>> {
    let recording = std::env::var_os("FOIL_RECORD_LAUNCHES")
        .map(|folder| Mutex::new(Recording::new(Path::new(&folder), precision)));
    let driver = WgpuDriver::open(Adapter::Number(0), binding, precision).ok()?;
    Some(Arc::new(Recorded { driver, recording }))
}

struct Recording {
    launches: File,
    bytes: File,
    /// Bytes written so far.
    at: usize,
    seen: HashSet<Seen>,
}

impl Recording {
    fn new(folder: &Path, precision: Precision) -> Self {
        std::fs::create_dir_all(folder).expect("a folder for recordings");
        let name = match precision {
            Precision::F32 => "f32",
            Precision::F16 => "f16",
        };
        let folder = (0..100)
            .map(|i| folder.join(format!("{name}-{i}")))
            .find(|folder| std::fs::create_dir(folder).is_ok())
            .expect("a folder for this device");
        for kernel in ALL {
            let file = folder.join(format!("{}.{}.wgsl", kernel.name, kernel.entry));
            std::fs::write(file, kernel.wgsl(precision)).expect("a kernel in a file");
        }
        let new = |name: &str| File::create_new(folder.join(name)).expect("a new file");
        Self {
            launches: new("launches.jsonl"),
            bytes: new("bytes.bin"),
            at: 0,
            seen: HashSet::new(),
        }
    }

    /// Where the bytes begin in the file.
    fn keep(&mut self, bytes: &[u8]) -> usize {
        self.bytes.write_all(bytes).expect("room for launches");
        self.at += bytes.len();
        self.at - bytes.len()
    }
}

impl Recorded {
    fn record(
        &self,
        recording: &Mutex<Recording>,
        launch: &Launch<'_, Buffer>,
    ) -> Result<(), TensorError> {
        let sizes: Vec<usize> = launch.bindings.iter().map(|b| b.bytes.len()).collect();
        let too_large = sizes.iter().sum::<usize>() > MOST_BYTES;
        let (kernel, entry) = (launch.kernel.name, launch.kernel.entry);
        let key = (kernel, entry, launch.groups, launch.params.to_vec(), sizes);
        // Held to the end: no other launch comes between.
        let mut recording = recording.lock().unwrap_or_else(|e| e.into_inner());
        if too_large || !recording.seen.insert(key) {
            return self.driver.launch(launch);
        }
        let held = |b: &Binding<'_, Buffer>| self.driver.download(b.buffer, b.bytes.clone());
        let mut arguments = Vec::new();
        for binding in launch.bindings {
            let before = held(binding)?;
            arguments.push(json!({"bytes": before.len(), "before": recording.keep(&before)}));
        }
        self.driver.launch(launch)?;
        for (binding, argument) in launch.bindings.iter().zip(&mut arguments) {
            if binding.writes {
                argument["after"] = json!(recording.keep(&held(binding)?));
            }
        }
        let line = json!({
            "kernel": kernel,
            "entry": entry,
            "groups": launch.groups,
            "params": launch.params,
            "arguments": arguments,
        });
        writeln!(recording.launches, "{line}").expect("room for launches");
        Ok(())
    }
}

impl Driver for Recorded {
    type Buffer = Buffer;

    fn describe(&self) -> String {
        self.driver.describe()
    }

    fn limits(&self) -> Limits {
        self.driver.limits()
    }

    fn precision(&self) -> Precision {
        self.driver.precision()
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, TensorError> {
        self.driver.allocate(bytes)
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer, TensorError> {
        self.driver.upload(bytes)
    }

    fn download(&self, buffer: &Buffer, bytes: Range<usize>) -> Result<Vec<u8>, TensorError> {
        self.driver.download(buffer, bytes)
    }

    fn copy(
        &self,
        from: (&Buffer, usize),
        to: (&Buffer, usize),
        bytes: usize,
    ) -> Result<(), TensorError> {
        self.driver.copy(from, to, bytes)
    }

    fn launch(&self, launch: &Launch<'_, Buffer>) -> Result<(), TensorError> {
        match &self.recording {
            None => self.driver.launch(launch),
            Some(recording) => self.record(recording, launch),
        }
    }

    fn wait(&self) -> Result<(), TensorError> {
        self.driver.wait()
    }

    fn release(&self) {
        self.driver.release();
    }

    fn peak(&self) -> u64 {
        self.driver.peak()
    }
}
