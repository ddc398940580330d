use foil::{
    conformance::synthetic,
    nets::*,
    tensor::{cpu::Cpu, *},
};
use std::path::Path;
fn main() {
    let dir = Path::new("tests/golden/nets");
    let j: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("nets.json")).unwrap()).unwrap();
    let t = TypedArrays::read(&dir.join("nets.safetensors")).unwrap();
    let only: Vec<String> = std::env::args().skip(1).collect();
    for (name, net) in j["nets"].as_object().unwrap() {
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        let mut d = StateDict::new();
        for r in net["tensors"].as_array().unwrap() {
            let shape: Vec<usize> = r[1]
                .as_array()
                .unwrap()
                .iter()
                .map(|v| v.as_u64().unwrap() as usize)
                .collect();
            d.insert(
                r[0].as_str().unwrap(),
                synthetic::tensor(
                    "foil-nets",
                    r[0].as_str().unwrap(),
                    &shape,
                    r[2].as_f64().unwrap(),
                    r[3].as_f64().unwrap(),
                ),
            );
        }
        let c = build(
            name.parse().unwrap(),
            &Cpu,
            &d,
            &UnetEncoderConfig::default(),
        )
        .unwrap();
        let imgs: Vec<Vec<u8>> = ["chelsea", "coffee"]
            .iter()
            .map(|p| {
                image::open(format!("../shared/reference/weights/photos/{p}.png"))
                    .unwrap()
                    .to_rgb8()
                    .into_raw()
            })
            .collect();
        let x = Cpu.upload_pixels(&[&imgs[0], &imgs[1]], 256, 256).unwrap();
        let mean = [0.485f32, 0.456, 0.406];
        let std = [0.229f32, 0.224, 0.225];
        let scale: Vec<f32> = std.iter().map(|s| 1.0 / 255.0 / s).collect();
        let shift: Vec<f32> = (0..3).map(|i| -mean[i] / std[i]).collect();
        let x = Cpu.affine(&x, &[0, 1, 2], &scale, &shift).unwrap();
        let mut cases = vec![(String::new(), net["input"].as_str().unwrap().to_string())];
        if let Some(cs) = net["cases"].as_object() {
            for (k, v) in cs {
                cases.push((format!("{k}."), v["input"].as_str().unwrap().into()));
            }
        }
        for (case, input) in cases {
            let size = input
                .split_whitespace()
                .find(|w| w.contains('x') && w.chars().next().unwrap().is_ascii_digit())
                .unwrap();
            let (h, w) = size.split_once('x').unwrap();
            let (h, w): (usize, usize) = (h.parse().unwrap(), w.parse().unwrap());
            let (t0, l0) = if input.starts_with("centre") {
                ((256 - h) / 2, (256 - w) / 2)
            } else {
                (0, 0)
            };
            let start = std::time::Instant::now();
            let p = match c.predict(&Cpu, &Cpu.crop(&x, t0, l0, h, w).unwrap()) {
                Ok(p) => p,
                Err(e) => {
                    println!("{name} {case} ERROR {e}");
                    continue;
                }
            };
            let el = start.elapsed();
            let got = Cpu.download(&p.logits);
            let exp = t.f32(&format!("{name}.{case}logits")).unwrap();
            let m = exp.data.iter().fold(0f32, |a, b| a.max(b.abs()));
            let e = got
                .data
                .iter()
                .zip(&exp.data)
                .fold(0f32, |a, (x, y)| a.max((x - y).abs()));
            println!("{name:20} {case:8} {h}x{w} rel {:.2e}  {:?}", e / m, el);
            if case.is_empty() {
                let got = Cpu.download(&p.embedding);
                let exp = t.f32(&format!("{name}.embedding")).unwrap();
                let m = exp.data.iter().fold(0f32, |a, b| a.max(b.abs()));
                let e = got
                    .data
                    .iter()
                    .zip(&exp.data)
                    .fold(0f32, |a, (x, y)| a.max((x - y).abs()));
                println!("   embedding rel {:.2e}", e / m);
            }
        }
    }
}
