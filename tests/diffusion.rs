//! Schedules and sampling beyond the golden data, which `tests/conformance` runs.

use foil::diffusion::{Betas, Sampling, Schedule, moments, sample, spaced};
use foil::nets::{Unet, UnetConfig};
use foil::tensor::Array;
use foil::tensor::cpu::Cpu;
use foil::train::UnetLayout;

#[test]
fn respacings_that_mean_nothing_are_refused() {
    for wrong in ["", "ten", "ddim", "-3", "5,,5"] {
        let message = spaced(1000, wrong).expect_err(wrong).to_string();
        assert!(message.contains(&format!("{wrong:?}")), "{message}");
    }
    assert!(Schedule::new(Betas::Linear, 0).is_err());
}

#[test]
fn without_learnt_variances_a_step_has_that_of_the_noise_and_the_last_the_posteriors() {
    let full = Schedule::new(Betas::Linear, 1000).unwrap();
    let schedule = full.respaced(&spaced(1000, "20").unwrap()).unwrap();
    let at = [0, 7];
    let noisy = Array::zeros([2, 3, 2, 2]);
    let found = moments(&schedule, &noisy, &noisy, &at, false).unwrap();
    let expected = [schedule.posterior_variance[1], schedule.betas[7]];
    for (row, expected) in expected.iter().enumerate() {
        for v in found.variance.row(row) {
            assert!(
                (f64::from(*v) / expected - 1.0).abs() < 1e-5,
                "{v} {expected}"
            );
        }
    }
    let wrong = Array::zeros([2, 5, 2, 2]);
    assert!(moments(&schedule, &noisy, &wrong, &at, false).is_err());
}

#[test]
fn samples_do_not_depend_on_their_batch() {
    let layout = UnetLayout {
        channels: 3,
        width: 32,
        factors: vec![1, 1],
        blocks: 1,
        attention: vec![1],
    };
    let mut dict = layout.initial(3);
    // The last layer is zero to begin with.
    let mut last = dict.get("out.2.weight").unwrap().clone();
    last.data
        .iter_mut()
        .enumerate()
        .for_each(|(i, v)| *v = ((i * 37 % 19) as f32 - 9.0) / 300.0);
    dict.insert("out.2.weight", last);
    let net = Unet::new(
        &Cpu,
        &dict,
        UnetConfig {
            num_head_channels: 32,
            ..UnetConfig::default()
        },
    )
    .unwrap();
    let schedule = Schedule::new(Betas::Cosine, 1000).unwrap();
    let schedule = schedule.respaced(&spaced(1000, "4").unwrap()).unwrap();
    let draw = |batch| {
        let what = Sampling {
            count: 5,
            channels: 3,
            size: 8,
            seed: 9,
            batch,
        };
        let mut steps = Vec::new();
        let images = sample(&Cpu, &net, &schedule, what, |done, total| {
            steps.push((done, total))
        });
        (images.unwrap(), steps)
    };
    let (all, steps) = draw(8);
    assert_eq!(steps, [(1, 4), (2, 4), (3, 4), (4, 4)]);
    assert_eq!(draw(2).0, all);
    let distinct = all.data.chunks(192).collect::<Vec<_>>();
    assert!(distinct[0] != distinct[1] && all.data.iter().all(|v| v.is_finite()));
}
