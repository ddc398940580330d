//! Gradients of every operation of the devices that have them, against differences of plain f64 references.
//!
//! Most cases are functions over `&impl Differentiable`; `suite!` makes a `#[test]` of each for one device.
//!
//! [`difference::check`] takes the gradient of `Σ v · operation(x)` for a seeded `v`: on the device by its way back, and
//! by a four-point difference of the f64 reference that the backend suite uses. Both must agree to 2e-5 of the largest
//! entry: the device computes in f32, whose roundings add up to a few 1e-6 here.

#[path = "../backends/attention.rs"]
#[allow(dead_code)]
mod attention;
#[path = "../backends/conv.rs"]
#[allow(dead_code)]
mod conv;
#[path = "../backends/distance.rs"]
#[allow(dead_code)]
mod distance;
#[path = "../backends/elementwise.rs"]
#[allow(dead_code)]
mod elementwise;
#[path = "../backends/host.rs"]
#[allow(dead_code)]
mod host;
#[path = "../backends/layout.rs"]
#[allow(dead_code)]
mod layout;
#[path = "../backends/norm.rs"]
#[allow(dead_code)]
mod norm;
#[path = "../backends/pool.rs"]
#[allow(dead_code)]
mod pool;
#[path = "../backends/resize.rs"]
#[allow(dead_code)]
mod resize;

mod bex_networks;
mod checkpointing;
mod convolutions;
mod denormals;
mod difference;
mod elementwise_gradients;
mod glyph_generator;
mod guided_diffusion;
mod half_torso;
mod layout_gradients;
mod mixing;
mod pooling;
mod shared_tensors;
mod shipped;
mod threads;
mod unet_layouts;

macro_rules! suite {
    ($device:ident, $backend:expr) => {
        mod $device {
            suite! { @cases $backend;
                elementwise_gradients {
                    add_with_broadcasting,
                    activations,
                    affine_with_dropped_and_repeated_channels,
                    log_softmax,
                }
                pooling {
                    pools_of_every_kind,
                    a_band_of_rows_ends_inside_a_window,
                    the_first_of_equal_maxima_gets_the_whole_gradient,
                    a_window_of_minus_infinity_has_a_first_maximum_too,
                    means_over_grids,
                    resizes,
                }
                layout_gradients {
                    windows_and_back,
                    patches_of_odd_sides,
                    upsample,
                    crop_view_select_and_stack,
                    concat_of_tensors_convolutions_and_pools,
                }
                shared_tensors {
                    a_residual_block_with_its_own_input_as_skip,
                    a_skip_connection_around_an_upsampled_tensor,
                    a_tensor_added_to_itself,
                    images_that_enter_as_nchw_and_leave_as_nchw,
                }
                mixing {
                    layer_norm,
                    group_norm_and_its_modulation,
                    relu_in_a_group_norm,
                    modulation_of_each_image,
                    many_pixels_are_summed_in_pieces,
                    attention_with_and_without_bias,
                    more_tokens_than_a_block_of_queries,
                    feature_distance,
                    a_dead_pixel_gets_no_gradient,
                }
                convolutions {
                    input_of_every_geometry,
                    input_and_residual_through_every_activation,
                }
                guided_diffusion {
                    the_gradient_of_a_unet_by_its_input,
                    the_gradient_of_the_noise_aware_classifier_by_its_input,
                }
                bex_networks {
                    logits_and_their_gradients_by_the_latent_vector,
                    the_gradient_of_the_encoder_by_its_image,
                }
            }
        }
    };
    (@cases $backend:expr; $($group:ident { $($case:ident,)* })*) => {
        $(mod $group {
            $(#[test]
            fn $case() {
                crate::$group::$case(&$backend);
            })*
        })*
    };
}

suite!(candle, foil::tensor::candle::Candle);
suite!(composed, foil::tensor::composed::Composed::on_cpu());

/// The way back has kernels of its own; the plainest must give the same gradients.
#[test]
fn the_portable_kernels_pass_the_same_tests() {
    if std::env::var_os("FOIL_CPU").is_some() {
        return;
    }
    let exe = std::env::current_exe().expect("this test's own file");
    let output = std::process::Command::new(exe)
        .args([
            "--skip",
            "guided_diffusion",
            "--skip",
            "glyph_generator",
            "--skip",
            "composed",
        ])
        .env("FOIL_CPU", "portable")
        .output()
        .expect("this test runs itself");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(!report.contains(" 0 passed"), "{report}");
}
