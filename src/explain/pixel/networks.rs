//! The networks of GB and GL, with gradients by the images.

use candle_core::{Tensor as Values, Var};

use super::{PixelError, Result};
use crate::nets::{Autoencoder, Classifier};
use crate::tensor::Array;
use crate::tensor::candle::{Candle, Differentiable, Tensor};

/// The explained network and, for GL, an auto-encoder. Both take images as they are.
pub struct Networks<B: Differentiable = Candle> {
    pub backend: B,
    pub classifier: Box<dyn Classifier<B>>,
    pub autoencoder: Option<Autoencoder<B>>,
}

/// What pulls images besides the classifier: `gamma ‖AE(s) − s‖² + theta ‖Enc(s) − prototype‖²`.
pub struct Pull<'a> {
    pub gamma: f64,
    pub theta: f64,
    /// The prototype of each image, values of the code by rows, columns, channels.
    pub prototypes: &'a [&'a [f32]],
}

impl<B: Differentiable> Networks<B> {
    /// Probabilities of the classes, a row for each image.
    pub fn probabilities(&self, images: &Array) -> Result<Vec<Vec<f32>>> {
        let mut all = Vec::new();
        for part in parts(images) {
            let x = self.backend.upload(&part)?;
            all.extend(rows(&self.softmax(&x)?)?);
        }
        Ok(all)
    }

    /// Codes by the auto-encoder, a row for each image.
    pub fn codes(&self, images: &Array) -> Result<Vec<Vec<f32>>> {
        let mut all = Vec::new();
        for part in parts(images) {
            let code = { self.needed()? }.encode(&self.backend, &self.backend.upload(&part)?)?;
            all.extend(rows(&code)?);
        }
        Ok(all)
    }

    /// Probabilities, and the gradient by each image of `Σ_k weights_k p_k` with the weights that `weigh` gives for
    /// the probabilities of image `i`, and of `pull`.
    pub fn gradient(
        &self,
        images: &Array,
        weigh: &dyn Fn(usize, &[f32]) -> Vec<f32>,
        pull: Option<&Pull<'_>>,
    ) -> Result<(Vec<Vec<f32>>, Array)> {
        let b = &self.backend;
        let variable = b.variable(images)?;
        let x = Tensor::new(variable.as_tensor())?;
        let p = self.softmax(&x)?;
        let probabilities = rows(&p)?;
        let weights: Vec<f32> = { probabilities.iter().enumerate() }
            .flat_map(|(i, row)| weigh(i, row))
            .collect();
        let weights = Values::from_vec(weights, p.candle().shape(), &b.device())?;
        let mut total = (p.candle() * weights)?.sum_all()?;
        if let Some(pull) = pull {
            total = (total + self.pulled(&x, pull)?)?;
        }
        Ok((probabilities, self.by(&total, &variable)?))
    }

    fn pulled(&self, x: &Tensor, pull: &Pull<'_>) -> Result<Values> {
        let (b, net) = (&self.backend, self.needed()?);
        let code = net.encode(b, x)?;
        let targets: Vec<f32> = pull
            .prototypes
            .iter()
            .flat_map(|p| p.iter().copied())
            .collect();
        let targets = Values::from_vec(targets, code.candle().shape(), &b.device())?;
        let mut total = ((code.candle() - targets)?.sqr()?.sum_all()? * pull.theta)?;
        if pull.gamma != 0.0 {
            let again = net.decode(b, &code)?;
            let off = (again.candle() - x.candle())?.sqr()?.sum_all()?;
            total = (total + (off * pull.gamma)?)?;
        }
        Ok(total)
    }

    fn needed(&self) -> Result<&Autoencoder<B>> {
        self.autoencoder.as_ref().ok_or_else(|| {
            PixelError::Setting(
                "GL with prototypes needs an auto-encoder, and there is none".into(),
            )
        })
    }

    fn softmax(&self, x: &Tensor) -> Result<Tensor> {
        let logits = self.classifier.predict(&self.backend, x)?.logits;
        let log = self.backend.log_softmax(&logits)?;
        Ok(Tensor::new(&log.candle().exp()?)?)
    }

    /// The gradient of a sum by the images, NCHW.
    fn by(&self, total: &Values, variable: &Var) -> Result<Array> {
        let gradients = total.backward()?;
        let gradient = match gradients.get(variable.as_tensor()) {
            Some(gradient) => gradient.clone(),
            None => variable.as_tensor().zeros_like()?,
        };
        Ok(self.backend.download(&Tensor::new(&gradient)?)?)
    }
}

/// A row for each image.
fn rows(values: &Tensor) -> Result<Vec<Vec<f32>>> {
    Ok(values.candle().flatten_from(1)?.to_vec2::<f32>()?)
}

/// Not too many images at once.
fn parts(images: &Array) -> impl Iterator<Item = Array> {
    const MOST: usize = 256;
    let n = images.shape.first().copied().unwrap_or(0);
    (0..n).step_by(MOST).map(move |first| {
        let own = (first..n.min(first + MOST)).map(|i| super::image(images, i));
        super::batch(images, own)
    })
}
