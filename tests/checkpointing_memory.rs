//! What checkpointing is for: the way back through a UNet needs a fraction of the memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use foil::nets::{Unet, UnetConfig};
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::{Array, Kept};
use foil::train::UnetLayout;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Counts the bytes in use, and the most there ever were. Activations on the tape come from here; scratch of the engine does not.
struct Counting;

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that one pass forth and back has in use, beyond those from before it.
fn peak(unet: &Unet<Candle>, x: &Array) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let by = Candle.variable(x).unwrap();
    let seen = Tensor::new(by.as_tensor()).unwrap();
    let y = unet.predict(&Candle, &seen, &[300.0], None).unwrap();
    let grads = y.candle().sum_all().unwrap().backward().unwrap();
    assert!(grads.get(by.as_tensor()).is_some());
    MOST.load(Ordering::Relaxed) - before
}

#[test]
fn checkpointing_takes_a_third_and_a_half_torso_three_tenths_off_the_memory_of_the_way_back() {
    let layout = UnetLayout {
        channels: 3,
        width: 32,
        factors: vec![1, 2, 2],
        blocks: 2,
        attention: vec![2],
    };
    let dict = layout.initial(1);
    let build = |torso| {
        let config = UnetConfig {
            num_head_channels: 32,
            torso,
            ..UnetConfig::default()
        };
        Unet::new(&Candle, &dict, config).unwrap()
    };
    let mut x = Array::zeros([1, 3, 64, 64]);
    x.data
        .iter_mut()
        .enumerate()
        .for_each(|(i, v)| *v = (i % 29) as f32 / 29.0 - 0.5);
    let plain = build(Kept::F32);
    // The first pass packs the weights of the way back, which stay.
    peak(&plain, &x);
    let without = peak(&plain, &x);
    let with = peak(&plain.with_checkpointing(true), &x);
    println!("{without} bytes without, {with} bytes with checkpointing");
    assert!(3 * with < 2 * without, "{with} of {without} bytes");
    // In the same test, because the allocator counts for all threads.
    let half = build(Kept::F16);
    peak(&half, &x);
    let without_half = peak(&half, &x);
    let with_half = peak(&half.with_checkpointing(true), &x);
    println!("torso in f16: {without_half} bytes without, {with_half} bytes with checkpointing");
    assert!(
        10 * without_half < 7 * without,
        "{without_half} of {without} bytes"
    );
    assert!(with_half < with, "{with_half} of {with} bytes");
}
