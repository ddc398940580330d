//! Networks of the golden data: outputs on the device, gradients by the image on candle.
//!
//! Tolerances: 2e-5 absolute for outputs, 5e-5 for gradients.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::{Json, Node};
use super::super::tensors::Tensors;
use super::super::{Result, unet_settings};
use super::classifiers::{Asked, Tiny};
use super::{close, probes};
use crate::diffusion::{Denoiser, Fitting, Guide, NoiseAware, Unconditional};
use crate::nets::{Unet, UnetConfig, UnetEncoder, UnetEncoderConfig, sinusoidal};
use crate::tensor::candle::{Candle, Differentiable, Tensor};
use crate::tensor::{Array, Backend, StateDict, TensorError};

const OUTPUT: f64 = 2e-5;
const GRADIENT: f64 = 5e-5;

/// Settings of a network.
enum Config {
    Denoiser(UnetConfig),
    Encoder(UnetEncoderConfig),
}

/// Networks with gradients, by name; each is built once.
pub struct Networks<'a, G: Differentiable> {
    /// Their device.
    pub on: G,
    folder: &'a Folder,
    unets: RefCell<BTreeMap<String, Rc<Unconditional<G>>>>,
    guides: RefCell<BTreeMap<String, Arc<dyn Guide>>>,
}

/// Settings and weights of a network; none if one of the two is absent.
fn find(folder: &Folder, name: &str, check: &mut Check) -> Result<Option<(Config, StateDict)>> {
    let Some(json) = folder.json("unet.json")? else {
        return Ok(None);
    };
    let Some(node) = json.root().at("configs")?.get(name) else {
        return Ok(None);
    };
    let Some(weights) = folder.tensors(&format!("{name}_weights.safetensors"))? else {
        node.skip();
        return Ok(None);
    };
    Ok(Some((config(&node, check)?, weights.state_dict()?)))
}

/// Networks that `unet.json` describes; none if it is absent.
fn known(folder: &Folder) -> Result<Option<Vec<String>>> {
    let Some(json) = folder.json("unet.json")? else {
        return Ok(None);
    };
    let configs = json.root().at("configs")?.fields()?;
    Ok(Some(configs.iter().map(|(n, _)| (*n).to_owned()).collect()))
}

/// A name that no file of the folder explains is a fault of the data, and nothing that is merely absent.
fn expect_known(folder: &Folder, name: &str, check: &mut Check) -> Result<()> {
    match known(folder)? {
        Some(known) if !known.iter().any(|k| k == name) => {
            check.unknown(format!(
                "network `{name}`: unet.json describes {}",
                known.join(", ")
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Only the classifier has a `pool`.
fn config(node: &Node<'_>, check: &mut Check) -> Result<Config> {
    Ok(match node.get("pool") {
        Some(_) => Config::Encoder(unet_settings::encoder(node, check)?),
        None => Config::Denoiser(unet_settings::denoiser(node, check)?),
    })
}

impl<'a, G: Differentiable> Networks<'a, G> {
    pub fn new(on: &G, folder: &'a Folder) -> Self {
        Self {
            on: on.clone(),
            folder,
            unets: RefCell::default(),
            guides: RefCell::default(),
        }
    }

    /// A denoiser; none if the folder lacks it.
    pub fn unet(&self, name: &str, check: &mut Check) -> Result<Option<Rc<Unconditional<G>>>> {
        if let Some(found) = self.unets.borrow().get(name) {
            return Ok(Some(found.clone()));
        }
        let Some((config, dict)) = denoiser_of(self.folder, name, check)? else {
            return Ok(None);
        };
        let unet = Rc::new(Unconditional {
            net: Unet::new(&self.on, &dict, config).of(name)?,
            backend: self.on.clone(),
        });
        self.unets.borrow_mut().insert(name.into(), unet.clone());
        Ok(Some(unet))
    }

    /// A classifier: one of the small ones, or a noise-aware one; none if the folder lacks it.
    pub fn guide(&self, name: &str, check: &mut Check) -> Result<Option<Arc<dyn Guide>>> {
        if let Some(found) = self.guides.borrow().get(name) {
            return Ok(Some(found.clone()));
        }
        let tiny = Tiny::read(&self.on, self.folder, name)?;
        let guide: Arc<dyn Guide> = match tiny {
            Some(net) => Arc::new(Asked {
                on: self.on.clone(),
                net,
            }),
            None => match find(self.folder, name, check)? {
                Some((Config::Encoder(config), dict)) => Arc::new(NoiseAware {
                    net: UnetEncoder::new(&self.on, &dict, config).of(name)?,
                    backend: self.on.clone(),
                    fitting: Fitting::default(),
                }),
                Some((Config::Denoiser(_), _)) => {
                    check.unknown(format!(
                        "network `{name}`: a denoiser in place of a classifier"
                    ));
                    return Ok(None);
                }
                None => {
                    if super::classifiers::are_there(self.folder)? {
                        expect_known(self.folder, name, check)?;
                    }
                    return Ok(None);
                }
            },
        };
        self.guides.borrow_mut().insert(name.into(), guide.clone());
        Ok(Some(guide))
    }

    /// Names of all noise-aware classifiers of the folder.
    pub fn encoders(&self) -> Result<Vec<String>> {
        let Some(json) = self.folder.json("unet.json")? else {
            return Ok(Vec::new());
        };
        let configs = json.root().at("configs")?.fields()?;
        let encoders = configs
            .iter()
            .filter(|(_, node)| node.get("pool").is_some());
        Ok(encoders.map(|(name, _)| (*name).to_owned()).collect())
    }
}

pub fn run<B: Backend>(
    backend: &B,
    networks: &Networks<'_, impl Differentiable>,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let io = folder.tensors("unet_io.safetensors")?;
    if let Some(io) = &io {
        embeddings(io, check)?;
    }
    let Some(json) = folder.json("unet.json")? else {
        if let Some(io) = io {
            skip_all(&io);
            check.absent("outputs of the UNets: all cases (unet.json is absent)");
        }
        return Ok(());
    };
    described(&json, folder, check)?;
    for (name, _) in json.root().at("configs")?.fields()? {
        let found = find(folder, name, check)?;
        let (Some(io), Some((config, dict))) = (&io, found) else {
            if let Some(io) = &io {
                let own = |n: &&str| n.starts_with(&format!("{name}."));
                io.names().filter(own).for_each(|n| io.skip(n));
                io.skip(&format!("{name}_new_attention_order.out"));
            }
            let probes = format!("{name}_probe_sample");
            let probes = |(key, _): &(&str, Node<'_>)| key.starts_with(&probes);
            let fields = json.root().fields()?;
            fields
                .iter()
                .filter(|f| probes(f))
                .for_each(|(_, n)| n.skip());
            check.absent(format!("{name}: outputs and gradients"));
            continue;
        };
        check.group(name);
        match config {
            Config::Denoiser(config) => {
                denoiser(backend, name, &dict, &config, io, check)?;
                if let Some(unet) = networks.unet(name, check)? {
                    vector_product(&*unet, &networks.on, name, io, check)?;
                }
                probes::run(backend, name, &dict, &config, io, &json, check)?;
            }
            Config::Encoder(config) => {
                let network = UnetEncoder::new(backend, &dict, config).of(name)?;
                let x = io.f32_of_rank(&format!("{name}.x"), 4)?;
                let steps = steps(io, "timesteps")?;
                let x = backend.upload(&x).of(name)?;
                let got = network.predict_at(backend, &x, &steps).of(name)?.logits;
                let out = format!("{name}.out");
                let got = backend.download(&got).of(name)?;
                close(check, &out, &io.f32(&out)?, &got, OUTPUT);
                if let Some(guide) = networks.guide(name, check)? {
                    opinions(&*guide, &networks.on, name, io, check)?;
                }
            }
        }
    }
    // Inputs of networks that are absent.
    if let Some(io) = &io {
        let inputs = |n: &&str| n.starts_with("x_t") || n.starts_with("timesteps");
        io.names().filter(inputs).for_each(|n| io.skip(n));
    }
    Ok(())
}

fn skip_all(io: &Tensors) {
    io.names().for_each(|name| io.skip(name));
}

pub fn steps(io: &Tensors, name: &str) -> Result<Vec<f32>> {
    Ok(io.f64(name)?.into_iter().map(|t| t as f32).collect())
}

/// `timestep_embedding_WIDTH`, perhaps with a word after it.
fn embeddings(io: &Tensors, check: &mut Check) -> Result<()> {
    check.group("time embeddings");
    for name in io.names() {
        let Some(rest) = name.strip_prefix("timestep_embedding_") else {
            continue;
        };
        let width = rest.split('_').next().and_then(|w| w.parse().ok());
        let width: usize =
            width.ok_or_else(|| io.wrong(name, "a width in its name", rest.into()))?;
        let got = sinusoidal(&steps(io, "timesteps")?, width);
        close(check, name, &io.f32(name)?, &got, OUTPUT);
    }
    Ok(())
}

/// Names, shapes and numbers of parameters.
fn described(json: &Json, folder: &Folder, check: &mut Check) -> Result<()> {
    let root = json.root();
    root.skip_fields(&["float32_noise"]);
    check.group("weights");
    for (name, shapes) in root.at("tensor_shapes")?.fields()? {
        let Some(weights) = folder.tensors(&format!("{name}_weights.safetensors"))? else {
            shapes.skip();
            root.at("parameter_counts")?.skip_fields(&[name]);
            continue;
        };
        let mut expected = BTreeMap::new();
        for (tensor, shape) in shapes.fields()? {
            expected.insert(tensor.to_owned(), shape.usizes()?);
        }
        let mut found = BTreeMap::new();
        for tensor in weights.names() {
            found.insert(tensor.to_owned(), weights.get(tensor)?.shape.clone());
        }
        let differ = |a: &BTreeMap<String, Vec<usize>>, b: &BTreeMap<String, Vec<usize>>| {
            let other = |(name, shape): &(&String, &Vec<usize>)| b.get(*name) != Some(shape);
            a.iter().find(other).map(|(name, _)| name.clone())
        };
        let first = differ(&expected, &found).or_else(|| differ(&found, &expected));
        check.equal(format!("{name}: names and shapes"), &None, &first);
        if let Some(count) = root.at("parameter_counts")?.get(name) {
            let of = |shape: &Vec<usize>| shape.iter().product::<usize>();
            let got: usize = found.values().map(of).sum();
            check.equal(format!("{name}: parameters"), &count.usize()?, &got);
        }
    }
    Ok(())
}

/// Outputs for all sizes of images, and with the other order of queries, keys and values.
fn denoiser<B: Backend>(
    b: &B,
    name: &str,
    dict: &StateDict,
    config: &UnetConfig,
    io: &Tensors,
    check: &mut Check,
) -> Result<()> {
    let predict = |config: &UnetConfig, suffix: &str| -> Result<Array> {
        let unet = Unet::new(b, dict, config.clone()).of(name)?;
        let x = io.f32_of_rank(&format!("x_t{suffix}"), 4)?;
        let steps = steps(io, &format!("timesteps{suffix}"))?;
        let x = b.upload(&x).of(name)?;
        b.download(&unet.predict(b, &x, &steps, None).of(name)?)
            .of(name)
    };
    let prefix = format!("{name}.out");
    for out in io.names().filter(|n| n.starts_with(&prefix)) {
        let got = predict(config, &out[prefix.len()..])?;
        close(check, out, &io.f32(out)?, &got, OUTPUT);
    }
    let other = format!("{name}_new_attention_order.out");
    if io.contains(&other) {
        let config = UnetConfig {
            use_new_attention_order: true,
            ..config.clone()
        };
        close(
            check,
            &other,
            &io.f32(&other)?,
            &predict(&config, "")?,
            OUTPUT,
        );
    }
    Ok(())
}

/// The gradient of `sum` by a variable, NCHW.
fn gradient(
    sum: candle_core::Result<candle_core::Tensor>,
    by: &candle_core::Var,
    what: &str,
) -> Result<Array> {
    let found = sum.and_then(|sum| {
        let all = sum.backward()?;
        let none = || candle_core::Error::Msg("the result does not depend on the image".into());
        all.get(by.as_tensor()).cloned().ok_or_else(none)
    });
    let found = found.map_err(|e| TensorError::Device(e.to_string()));
    let found = found.and_then(|g| Tensor::new(&g)).of(what)?;
    Candle.download(&found).of(what)
}

/// The gradient of `Σ out · vector` by the image.
fn vector_product(
    unet: &dyn Denoiser,
    on: &impl Differentiable,
    name: &str,
    io: &Tensors,
    check: &mut Check,
) -> Result<()> {
    let [vector, product] = ["vjp_vector", "vjp_x"].map(|n| format!("{name}.{n}"));
    if !io.contains(&product) {
        return Ok(());
    }
    let x = on.variable(&io.f32_of_rank("x_t", 4)?).of(name)?;
    let seen = Tensor::new(x.as_tensor()).of(name)?;
    let out = unet.predict(&seen, &steps(io, "timesteps")?);
    let out = out.of(name)?;
    let vector = on.upload(&io.f32_of_rank(&vector, 4)?).of(name)?;
    let sum = out.candle().mul(vector.candle()).and_then(|p| p.sum_all());
    let got = gradient(sum, &x, name)?;
    close(check, &product, &io.f32(&product)?, &got, GRADIENT);
    Ok(())
}

/// `NAME.grad_mean_logp_C_C_…`: the gradient of the batch mean of the log-probabilities of these classes.
fn opinions(
    guide: &dyn Guide,
    on: &impl Differentiable,
    name: &str,
    io: &Tensors,
    check: &mut Check,
) -> Result<()> {
    let prefix = format!("{name}.grad_mean_logp_");
    for tensor in io.names() {
        let Some(classes) = tensor.strip_prefix(&prefix) else {
            continue;
        };
        let classes: std::result::Result<Vec<usize>, _> =
            classes.split('_').map(str::parse).collect();
        let classes =
            classes.map_err(|e| io.wrong(tensor, "classes in its name", e.to_string()))?;
        let x = on.variable(&io.f32_of_rank(&format!("{name}.x"), 4)?);
        let x = x.of(name)?;
        let seen = Tensor::new(x.as_tensor()).of(name)?;
        let logits = guide.logits(&seen, &steps(io, "timesteps")?).of(name)?;
        let known = logits.shape().c;
        let mut wanted = Array::zeros([classes.len(), known]);
        for (row, class) in classes.iter().enumerate() {
            if *class >= known {
                let expected = format!("classes below {known}");
                return Err(io.wrong(tensor, &expected, class.to_string()));
            }
            wanted.data[row * known + class] = 1.0 / classes.len() as f32;
        }
        let log = on.log_softmax(&logits).of(name)?;
        let wanted = on.upload(&wanted).of(name)?;
        let sum = log.candle().mul(wanted.candle()).and_then(|p| p.sum_all());
        let got = gradient(sum, &x, name)?;
        close(check, tensor, &io.f32(tensor)?, &got, GRADIENT);
    }
    Ok(())
}

/// Tolerance of values inside of a network, whose size is that of the largest among them.
pub fn inner(peak: f64) -> Tolerance {
    Tolerance::absolute(OUTPUT * peak.max(1.0))
}

/// Settings and weights of a denoiser; none if the folder lacks it.
pub fn denoiser_of(
    folder: &Folder,
    name: &str,
    check: &mut Check,
) -> Result<Option<(UnetConfig, StateDict)>> {
    match find(folder, name, check)? {
        Some((Config::Denoiser(config), dict)) => Ok(Some((config, dict))),
        Some((Config::Encoder(_), _)) => {
            check.unknown(format!(
                "network `{name}`: a classifier in place of a denoiser"
            ));
            Ok(None)
        }
        None => {
            expect_known(folder, name, check)?;
            Ok(None)
        }
    }
}
