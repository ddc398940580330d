//! Schedules, respacings and single steps of a diffusion against guided-diffusion's.

use std::path::{Path, PathBuf};

use foil::diffusion::{Betas, Sampling, Schedule, moments, noised, sample, spaced};
use foil::nets::{Unet, UnetConfig};
use foil::tensor::cpu::Cpu;
use foil::tensor::{Array, TypedArrays};
use foil::train::UnetLayout;

fn golden(file: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("tests/golden/diffusion").join(file)
}

fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: impl Fn(f64) -> f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f - e).abs() <= tolerance(*e),
            "{what}[{i}]: {f}, expected {e}"
        );
    }
}

#[test]
fn schedules_are_those_of_the_public_code() {
    let golden = TypedArrays::read(&golden("schedules.safetensors")).unwrap();
    let names: Vec<String> = golden.names().map(str::to_owned).collect();
    let mut checked = 0;
    for key in names.iter().filter_map(|n| n.strip_suffix(".betas")) {
        let [kind, steps, respacing] = key.splitn(3, '_').collect::<Vec<_>>()[..] else {
            panic!("{key}");
        };
        let betas = match kind {
            "linear" => Betas::Linear,
            "cosine" => Betas::Cosine,
            _ => panic!("{key}"),
        };
        let steps: usize = steps.parse().unwrap();
        let mut schedule = Schedule::new(betas, steps).unwrap();
        if respacing != "full" {
            let keep = spaced(steps, &respacing.replace('-', ",")).unwrap();
            schedule = schedule.respaced(&keep).unwrap();
        }
        let map: Vec<f64> = schedule.steps.iter().map(|&s| s as f64).collect();
        for (name, found) in [
            ("betas", &schedule.betas),
            ("alphas_cumprod", &schedule.alphas),
            ("posterior_variance", &schedule.posterior_variance),
            (
                "posterior_log_variance_clipped",
                &schedule.posterior_log_variance,
            ),
            ("posterior_mean_coef1", &schedule.posterior_mean[0]),
            ("posterior_mean_coef2", &schedule.posterior_mean[1]),
            ("timestep_map", &map),
        ] {
            let name = format!("{key}.{name}");
            let expected = golden.f64(&name).unwrap();
            assert_close(&name, found, &expected, |e| 1e-12 * e.abs());
        }
        checked += 1;
    }
    assert_eq!(checked, 11);
}

#[test]
fn respacings_keep_the_same_steps() {
    let text = std::fs::read_to_string(golden("space_timesteps.json")).unwrap();
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let steps = case["num_timesteps"].as_u64().unwrap() as usize;
        let counts = case["section_counts"].as_str().unwrap();
        let found = spaced(steps, counts);
        if case["error"] == true {
            let message = found.expect_err(counts).to_string();
            assert!(message.contains(counts), "{message}");
            continue;
        }
        let expected: Vec<usize> = serde_json::from_value(case["result"].clone()).unwrap();
        assert_eq!(found.unwrap(), expected, "{steps} {counts}");
    }
    for wrong in ["", "ten", "ddim", "-3", "5,,5"] {
        assert!(spaced(1000, wrong).is_err(), "{wrong:?}");
    }
    assert!(Schedule::new(Betas::Linear, 0).is_err());
}

#[test]
fn steps_forth_and_back_are_those_of_the_public_code() {
    let golden = TypedArrays::read(&golden("p_mean_variance.safetensors")).unwrap();
    let array = |name: &str| golden.f32(name).unwrap();
    let full = Schedule::new(Betas::Linear, 1000).unwrap();
    let schedule = full.respaced(&spaced(1000, "20").unwrap()).unwrap();
    let at: Vec<usize> = golden
        .f64("index_t")
        .unwrap()
        .iter()
        .map(|&t| t as usize)
        .collect();
    let told: Vec<f64> = at.iter().map(|&t| schedule.steps[t] as f64).collect();
    assert_eq!(told, golden.f64("timesteps_seen_by_model").unwrap());
    let wide = |a: &Array| a.data.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    let close = |what: &str, found: &Array, tolerance: f64| {
        assert_close(what, &wide(found), &wide(&array(what)), |_| tolerance);
    };
    let (x, output) = (array("x_t"), array("model_output"));
    for (clip, name) in [(false, "clip_false"), (true, "clip_true")] {
        let found = moments(&schedule, &x, &output, &at, clip).unwrap();
        close(&format!("{name}.mean"), &found.mean, 1e-5);
        close(&format!("{name}.variance"), &found.variance, 1e-5);
        close(&format!("{name}.log_variance"), &found.log_variance, 1e-5);
        close(&format!("{name}.pred_xstart"), &found.clean, 2e-4);
    }
    let noisy = noised(
        &schedule,
        &array("q_sample.x_start"),
        &array("q_sample.noise"),
        &at,
    );
    close("q_sample.x_t", &noisy, 1e-6);
    // Without learnt variances: that of the noise.
    let noise_only = Array {
        shape: x.shape.clone(),
        data: output
            .data
            .chunks(2 * 3 * 256)
            .flat_map(|o| o[..3 * 256].to_vec())
            .collect(),
    };
    let found = moments(&schedule, &x, &noise_only, &at, false).unwrap();
    let bound: Vec<f64> = at.iter().map(|&t| schedule.betas[t].ln()).collect();
    let first: Vec<f64> = found
        .log_variance
        .data
        .chunks(3 * 256)
        .map(|v| f64::from(v[7]))
        .collect();
    assert_close("fixed", &first, &bound, |_| 1e-6);
    let wrong = Array::zeros([4, 5, 16, 16]);
    assert!(moments(&schedule, &x, &wrong, &at, false).is_err());
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
