//! foil's side of `scripts/peers nets`: a process that reads commands on standard input and answers each with one
//! line of JSON. Threads are those of `RAYON_NUM_THREADS`.
//!
//! ```text
//! load NAME                           builds the network, forgetting the one before
//! time NAME SIDE BATCH RUNS [SEC]     at least RUNS runs and SEC seconds, after one to warm up
//! run NAME IN.safetensors OUT.safetensors    the outputs, named 0, 1, …, for tensor `x`
//! export NAME FILE.safetensors        the weights, under the names of the public checkpoint
//! drop                                forgets the network
//! ```

#[path = "seeded/weights.rs"]
mod weights;

use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use foil::conformance::synthetic;
use foil::nets::{AlexNet, Inception, SqueezeNet, Vgg16};
use foil::nets::{Architecture, Backbone, Classifier, FidTap, UnetEncoderConfig, build};
use foil::tensor::{Array, Backend, StateDict, TypedArrays, cpu::Cpu};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};

type Tensor = <Cpu as Backend>::Tensor;

enum Net {
    Backbone(Box<dyn Backbone<Cpu>>),
    Fid(Box<Inception<Cpu>>, FidTap),
    Classifier(Box<dyn Classifier<Cpu>>),
}

impl Net {
    fn load(name: &str) -> anyhow::Result<Self> {
        let dict = dictionary(name)?;
        Ok(match name {
            "alexnet_features" => Net::Backbone(Box::new(AlexNet::new(&Cpu, &dict)?)),
            "squeezenet1_1_features" => Net::Backbone(Box::new(SqueezeNet::new(&Cpu, &dict)?)),
            "vgg16_features" => Net::Backbone(Box::new(Vgg16::new(&Cpu, &dict)?)),
            "inception_stem" => fid(&dict, FidTap::F64)?,
            "inception" => fid(&dict, FidTap::F2048)?,
            _ => {
                let architecture: Architecture = name.parse()?;
                let unet = UnetEncoderConfig::default();
                Net::Classifier(build(architecture, &Cpu, &dict, &unet)?)
            }
        })
    }

    fn outputs(&self, x: &Tensor) -> anyhow::Result<Vec<Tensor>> {
        Ok(match self {
            Net::Backbone(net) => net.taps(&Cpu, x)?,
            Net::Fid(net, tap) => vec![net.features(&Cpu, x, *tap)?],
            Net::Classifier(net) => vec![net.predict(&Cpu, x)?.logits],
        })
    }
}

fn fid(dict: &StateDict, tap: FidTap) -> anyhow::Result<Net> {
    Ok(Net::Fid(Box::new(Inception::new(&Cpu, dict, tap)?), tap))
}

/// The weights the network uses, and no others.
fn dictionary(name: &str) -> anyhow::Result<StateDict> {
    let stem = ["Conv2d_1a_3x3.", "Conv2d_2a_3x3.", "Conv2d_2b_3x3."];
    let dict = if let Some(name) = name.strip_suffix("_features") {
        weights::classifier(name, "features.")
    } else if name.starts_with("inception") {
        weights::inception().map(|all| {
            let mut dict = StateDict::new();
            for (tensor, values) in all.into_pairs() {
                let used = match name {
                    "inception_stem" => stem.iter().any(|layer| tensor.starts_with(layer)),
                    _ => !tensor.starts_with("fc."),
                };
                if used {
                    dict.insert(tensor, values);
                }
            }
            dict
        })
    } else {
        weights::classifier(name, "")
    };
    dict.ok_or_else(|| {
        let known = weights::classifiers().join(", ");
        anyhow!("no table of weights for {name}; classifiers with one: {known}")
    })
}

fn write<'a>(
    path: &str,
    arrays: impl Iterator<Item = (String, &'a Array)>,
) -> anyhow::Result<Value> {
    let views = arrays
        .map(|(name, array)| {
            let bytes = bytemuck::cast_slice(&array.data);
            Ok((
                name,
                TensorView::new(Dtype::F32, array.shape.clone(), bytes)?,
            ))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    safetensors::serialize_to_file(views, None, Path::new(path))?;
    Ok(json!({}))
}

#[derive(Default)]
struct Worker {
    net: Option<(String, Net)>,
}

impl Worker {
    fn net(&mut self, name: &str) -> anyhow::Result<&Net> {
        if self.net.as_ref().is_none_or(|(loaded, _)| loaded != name) {
            self.net = None;
            self.net = Some((name.into(), Net::load(name)?));
        }
        self.net
            .as_ref()
            .map(|(_, net)| net)
            .context("a network was just loaded")
    }

    fn answer(&mut self, line: &str) -> anyhow::Result<Value> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["load", name] => {
                self.net(name)?;
                // The peak of memory is counted from here.
                std::fs::write("/proc/self/clear_refs", "5").ok();
                Ok(json!({ "device": Cpu.describe() }))
            }
            ["time", name, side, batch, runs] => self.time(name, [side, batch, runs], "0"),
            ["time", name, side, batch, runs, seconds] => {
                self.time(name, [side, batch, runs], seconds)
            }
            ["run", name, input, out] => {
                let x = TypedArrays::read(Path::new(input))?.f32("x")?;
                let outputs = self.net(name)?.outputs(&Cpu.upload(&x)?)?;
                let outputs: Result<Vec<Array>, _> =
                    outputs.iter().map(|y| Cpu.download(y)).collect();
                let outputs = outputs?;
                write(
                    out,
                    (0..)
                        .zip(&outputs)
                        .map(|(i, y): (usize, _)| (i.to_string(), y)),
                )
            }
            ["export", name, file] => {
                let dict = dictionary(name)?;
                write(file, dict.iter().map(|(name, array)| (name.into(), array)))
            }
            ["drop"] => {
                self.net = None;
                Ok(json!({}))
            }
            _ => bail!("unknown command; see the head of benches/worker.rs"),
        }
    }

    fn time(&mut self, name: &str, counts: [&str; 3], seconds: &str) -> anyhow::Result<Value> {
        let [side, batch, runs] = counts.map(str::parse::<usize>);
        let (side, runs, seconds) = (side?, runs?.max(1), seconds.parse::<f64>()?);
        let net = self.net(name)?;
        let x = synthetic::tensor(
            "foil-bench",
            "x",
            &[batch?, 3, side, side],
            0.0,
            1.0 / 255.0,
        );
        let x = Cpu.upload(&x)?;
        net.outputs(&x)?;
        let (mut wall, mut cpu) = (Vec::new(), Vec::new());
        let start = Instant::now();
        while wall.len() < runs || start.elapsed().as_secs_f64() < seconds {
            let (wall_before, cpu_before) = (Instant::now(), cpu_seconds());
            std::hint::black_box(net.outputs(&x)?);
            wall.push(wall_before.elapsed().as_secs_f64() * 1e3);
            cpu.push((cpu_seconds() - cpu_before) * 1e3);
        }
        Ok(json!({ "runs": wall.len(), "wall": summary(wall), "cpu": summary(cpu) }))
    }
}

fn summary(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    json!({ "best": values[0], "median": values[values.len() / 2] })
}

/// User and system time of all threads of this process; 0 where there is no such clock.
fn cpu_seconds() -> f64 {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    {
        // The C library, which std links anyway: /proc counts in steps of 10 ms.
        unsafe extern "C" {
            fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
        }
        const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
        let mut time = [0; 2];
        // SAFETY: `time` is as large as a 64-bit `struct timespec`: seconds, nanoseconds.
        if unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) } == 0 {
            return time[0] as f64 + time[1] as f64 * 1e-9;
        }
    }
    0.0
}

/// Memory of this process in MB, now and at most.
fn rss() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes / 1024.0)
    };
    json!({ "VmRSS": field("VmRSS:"), "VmHWM": field("VmHWM:") })
}

fn main() {
    if std::io::stdin().is_terminal() {
        println!("the worker of scripts/peers; it reads commands on standard input");
        return;
    }
    if let Err(wrong) = foil::tensor::cpu::forced() {
        eprintln!("worker: {wrong}");
        std::process::exit(2);
    }
    let mut worker = Worker::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut answer = match worker.answer(&line) {
            Ok(answer) => answer,
            Err(error) => json!({ "error": format!("{line}: {error:#}") }),
        };
        answer["rss"] = rss();
        println!("{answer}");
    }
}
