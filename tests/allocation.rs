//! A network in steady state asks the system for no large memory: activations and scratch are used again.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use foil::tensor::{Activation, Array, Backend, Conv, Norm, Pool, cpu, cpu::Cpu};

/// Allocations of at least this many bytes are counted.
const LARGE: usize = 16 * 1024;
static LARGE_ONES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE {
            LARGE_ONES.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn weights(spec: &Conv) -> Array {
    let shape = [
        spec.outputs,
        spec.inputs / spec.groups,
        spec.kernel[0],
        spec.kernel[1],
    ];
    let mut weights = Array::zeros(shape);
    for (i, w) in weights.data.iter_mut().enumerate() {
        *w = (i % 17) as f32 / 100.0 - 0.08;
    }
    weights
}

#[test]
fn a_network_in_steady_state_allocates_nothing_large() {
    let specs = [
        Conv::square(3, 32, 7).stride(2).padding(3),
        Conv::square(32, 64, 3).padding(1),
        Conv::square(64, 64, 3).groups(64).padding(1),
        Conv::square(64, 320, 1),
        Conv::square(320, 64, 3).stride(2).padding(1),
    ];
    let convs = specs.map(|spec| {
        let spec = spec.activation(Activation::Relu);
        Cpu.prepare(spec, &weights(&spec), &[]).unwrap()
    });
    let norm = Norm {
        weight: vec![1.0; 64],
        bias: vec![0.0; 64],
        epsilon: 1e-5,
        ..Default::default()
    };
    let images = vec![100u8; 96 * 96 * 3];
    // One thread: which thread holds how much scratch at once is then the same every time.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let run = || {
        let mut x = Cpu.upload_pixels(&[&images, &images], 96, 96).unwrap();
        for conv in &convs {
            x = Cpu.conv(&x, conv, None).unwrap();
        }
        x = Cpu
            .group_norm(&x, 8, &norm, None, Activation::Silu)
            .unwrap();
        x = Cpu.layer_norm(&x, &norm).unwrap();
        x = Cpu.pool(&x, Pool::max(3, 2)).unwrap();
        Cpu.global_mean(&x);
    };
    pool.install(run);
    let (before, held) = (LARGE_ONES.load(Ordering::Relaxed), cpu::memory());
    assert!(
        before > 0 && held.iter().all(|&bytes| bytes > 0),
        "the first run allocates"
    );
    for _ in 0..5 {
        pool.install(run);
    }
    assert_eq!(LARGE_ONES.load(Ordering::Relaxed), before);
    assert_eq!(cpu::memory(), held);
}
