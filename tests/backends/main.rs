//! One suite of operation tests for every backend.
//!
//! Each case is a function over `&impl Backend` that compares a device with a plain, slow f64 reference (written
//! beside the cases of its operation). `suite!` makes a `#[test]` of every case for one device; a new device adds
//! one line. A device that this machine does not have skips its cases, and says so. Inputs are seeded by name
//! ([`host::random`]), tolerances are stated where they are used.

mod attention;
mod barriers;
mod conv;
mod cuda;
mod determinism;
mod distance;
mod elementwise;
mod errors;
mod fake;
mod gpu;
mod half;
mod host;
mod layout;
mod metrics;
mod norm;
mod plan;
mod pool;
mod recorded;
mod resize;
mod scoring;
mod shim;
mod transfer;

macro_rules! suite {
    ($device:ident, $backend:expr) => {
        mod $device {
            suite! { @cases $backend;
                transfer {
                    what_is_uploaded_comes_back,
                    vectors_have_one_pixel,
                    pixels_become_values_from_0_to_255,
                    select_and_stack_undo_each_other,
                    stack_joins_batches_in_order,
                    an_empty_batch_stays_empty,
                    images_side_by_side_share_one_network,
                }
                conv {
                    every_kernel_stride_padding_and_depth,
                    small_windows_with_many_channels,
                    long_sums,
                    output_channels_need_not_fill_a_block,
                    any_number_of_images,
                    every_activation_with_bias_and_residual,
                    groups_see_their_own_channels_only,
                    depthwise,
                    depthwise_with_a_multiplier,
                    linear_layers,
                    a_kernel_of_the_whole_image_is_a_linear_layer_after_flattening,
                    kernels_larger_than_the_image_reach_into_the_padding,
                    concat_of_tensors_convolutions_and_pools,
                }
                pool {
                    max,
                    mean,
                    ceil_mode,
                    max_keeps_nan,
                    adaptive_mean,
                    global_mean,
                }
                norm {
                    layer_norm,
                    group_norm,
                    modulation_of_each_image,
                    norms_survive_a_large_offset,
                }
                attention {
                    both_layouts_with_and_without_bias,
                    large_scores_do_not_overflow,
                }
                elementwise {
                    add_repeats_over_pixels_and_images,
                    activations,
                    gelu_is_exact_over_its_range,
                    activations_of_huge_values,
                    gelu_of_huge_values,
                    nan_stays_nan,
                    affine_reorders_channels,
                }
                layout {
                    windows_and_back,
                    windows_of_a_known_image,
                    merge_patches,
                    view_keeps_rows_in_order,
                    upsample_repeats_pixels,
                    crop,
                }
                resize {
                    three_modes,
                    equal_sizes_change_nothing,
                    a_flat_image_stays_flat,
                    pixels_as_the_host_resizes_them,
                    pixel_passes_that_leave_the_image_are_refused,
                    pixels_are_looked_up_in_a_table,
                }
                distance {
                    map_and_mean,
                    many_comparisons_at_once,
                    identical_features_are_exactly_zero_apart,
                    zero_vectors,
                }
                determinism {
                    a_batch_equals_its_images_one_by_one,
                    threads_do_not_change_a_bit,
                    batches_of_1_7_and_64_on_1_and_2_threads_give_the_same_bits,
                }
                errors {
                    transfer,
                    convolution_weights,
                    convolution,
                    concatenation,
                    pooling,
                    norms_and_attention,
                    elementwise,
                    layout_and_resize,
                    feature_distance,
                    pooling_windows_without_a_pixel,
                    sizes_that_overflow,
                    attention_bias_without_a_window,
                }
            }
        }
    };
    (@cases $backend:expr; $($group:ident { $($(#[$attribute:meta])* $case:ident,)* })*) => {
        $(mod $group {
            $(#[test]
            $(#[$attribute])*
            fn $case() {
                match $backend {
                    Some(device) => crate::$group::$case(device),
                    None => println!("skipped: this machine has no such device"),
                }
            })*
        })*
    };
}

suite!(cpu, Some(&foil::tensor::cpu::Cpu));
suite!(candle, Some(&foil::tensor::candle::Candle));
suite!(composed, Some(&foil::tensor::composed::Composed::on_cpu()));
suite!(wgpu, crate::gpu::any_adapter());
// A barrier that is missing shows where threads do not run in their order.
suite!(cuda_on_cpu, crate::shim::device(2));
suite!(nvidia, crate::cuda::device());

/// The instruction set is chosen once per process, so each one needs a process of its own.
#[test]
fn every_instruction_set_of_this_machine_passes_the_same_suite() {
    if std::env::var_os("FOIL_CPU").is_some() {
        return;
    }
    let exe = std::env::current_exe().expect("this test's own file");
    for isa in foil::tensor::cpu::Isa::ALL {
        if !isa.available() {
            println!("skipped: this machine has no {}", isa.key());
            continue;
        }
        let output = std::process::Command::new(&exe)
            .args([
                "--skip",
                "every_instruction_set",
                "--skip",
                "composed",
                "--skip",
                "gpu",
                "--skip",
                "cuda_on_cpu",
                "--skip",
                "shim",
                "--skip",
                "nvidia",
                "--skip",
                "cuda",
            ])
            .env("FOIL_CPU", isa.key())
            .output()
            .expect("this test runs itself");
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {report}", isa.key());
        assert!(!report.contains(" 0 passed"), "{}: {report}", isa.key());
    }
}

#[test]
fn the_suite_runs_on_the_instruction_set_it_was_asked_for() {
    use foil::tensor::{Backend, cpu::Cpu};
    if let Ok(key) = std::env::var("FOIL_CPU") {
        let isa = foil::tensor::cpu::Isa::ALL
            .into_iter()
            .find(|isa| isa.key() == key);
        let isa = isa.expect("a known instruction set");
        assert_eq!(Cpu.describe(), format!("cpu ({})", isa.name()));
    }
}
