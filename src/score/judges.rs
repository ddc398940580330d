//! The classifier and the oracles: networks that look at images, or logits given by the user.

use super::shown::{Placed, Shown, in_order};
use crate::images::{self, Image};
use crate::nets::{self, Classifier, NetError};
use crate::tensor::{Array, Backend, Shape};
use crate::weights::{Card, Loaded, Preprocessing, ResizeTo};

/// What a judge says of a batch: logits `[n, classes]` and, from a network and if they are wanted, embeddings `[n, d]`.
pub struct Views<B: Backend> {
    pub logits: Array,
    pub embedding: Option<Array>,
    /// The logits where a network left them.
    pub on_device: Option<B::Tensor>,
}

impl<B: Backend> Views<B> {
    /// Of no image.
    fn none() -> Self {
        Self {
            logits: Array::zeros([0, 0]),
            embedding: None,
            on_device: None,
        }
    }
}

/// A network with its preprocessing.
pub struct Network<B: Backend> {
    net: Box<dyn Classifier<B>>,
    preprocessing: Preprocessing,
}

/// A classifier or oracle.
pub enum Judge<B: Backend> {
    Network(Network<B>),
    /// One row per pair.
    Logits(Array),
}

/// Why a judge cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Image(#[from] images::ImageError),
    #[error("{0}")]
    Other(String),
}

impl<B: Backend + 'static> Network<B> {
    pub fn new(backend: &B, card: &Card, loaded: &Loaded) -> Result<Self, NetError> {
        Ok(Self {
            net: nets::build(card.architecture, backend, &loaded.dict, &card.unet)?,
            preprocessing: card.preprocessing.clone(),
        })
    }

    /// What is said of some images of any sizes, in order. Embeddings come from the device only if they are wanted.
    pub fn look(
        &self,
        backend: &B,
        shown: &Shown<'_, B>,
        which: &[usize],
        embedding: bool,
    ) -> Result<Views<B>, JudgeError> {
        let Some([logits, embedded]) = self.predict(backend, shown, which)? else {
            return Ok(Views::none());
        };
        let embedded = embedding.then_some(embedded);
        let down = |x: &B::Tensor| backend.download(x).map_err(NetError::from);
        let views = Views {
            logits: down(&logits)?,
            embedding: embedded.as_ref().map(down).transpose()?,
            on_device: Some(logits),
        };
        let Array { shape, data } = &views.logits;
        if let Some(at) = data.iter().position(|v| !v.is_finite()) {
            return Err(JudgeError::Other(format!(
                "the network gave {} for image {} of the batch; check its weights and preprocessing",
                data[at],
                at / shape[1].max(1)
            )));
        }
        Ok(views)
    }

    /// Logits and embeddings on the device, in the order of the images; `None` without an image.
    fn predict(
        &self,
        backend: &B,
        shown: &Shown<'_, B>,
        which: &[usize],
    ) -> Result<Option<[B::Tensor; 2]>, JudgeError> {
        let (mut logits, mut embeddings) = (Vec::new(), Vec::new());
        for (places, pixels) in self.fitted(backend, shown, which)? {
            let x = self.normalise(backend, &pixels)?;
            let said = self.net.predict(backend, &x)?;
            logits.push((places.clone(), said.logits));
            embeddings.push((places, said.embedding));
        }
        let logits = in_order(backend, logits)?;
        let embeddings = in_order(backend, embeddings)?;
        Ok(logits.zip(embeddings).map(|(l, e)| [l, e]))
    }

    /// The images as the network takes them, but for normalisation: those that come to one size together, with their
    /// places in `which`. A device that keeps pixels resizes and crops them; the host does it for the others.
    fn fitted(
        &self,
        backend: &B,
        shown: &Shown<'_, B>,
        which: &[usize],
    ) -> Result<Vec<Placed<B::Tensor>>, JudgeError> {
        if !backend.keeps_pixels() {
            let ready = which
                .iter()
                .map(|&i| self.preprocessing.fit(shown.images()[i]))
                .collect::<Result<Vec<Image>, _>>()?;
            let mut fitted = Vec::new();
            for ([h, w], places) in by_size(&ready) {
                let pixels: Vec<&[u8]> = places.iter().map(|&i| &ready[i].pixels[..]).collect();
                let pixels = backend.upload_pixels(&pixels, h, w);
                fitted.push((places, pixels.map_err(NetError::from)?));
            }
            return Ok(fitted);
        }
        let mut sizes: Vec<Placed<Vec<B::Tensor>>> = Vec::new();
        for batch in shown.batches(backend, which)? {
            let mut x = batch.pixels;
            for pass in self.preprocessing.passes(batch.size)? {
                x = backend.resize_pixels(&x, &pass).map_err(NetError::from)?;
            }
            let size = |x: &B::Tensor| [backend.shape(x).h, backend.shape(x).w];
            let same = |parts: &[B::Tensor]| parts.iter().all(|part| size(part) == size(&x));
            match sizes.iter_mut().find(|(_, parts)| same(parts)) {
                Some((places, parts)) => {
                    places.extend(batch.places);
                    parts.push(x);
                }
                None => sizes.push((batch.places, vec![x])),
            }
        }
        let joined = |(places, mut parts): Placed<Vec<B::Tensor>>| {
            let pixels = match parts.len() {
                1 => parts.remove(0),
                _ => backend.stack(&parts).map_err(NetError::from)?,
            };
            Ok((places, pixels))
        };
        sizes.into_iter().map(joined).collect()
    }

    fn normalise(&self, backend: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        let p = &self.preprocessing;
        let order = p.channel_order();
        let scale = p.std.map(|s| p.scale / s);
        let shift = [0, 1, 2].map(|c| -p.mean[c] / p.std[c]);
        let n = order.len();
        Ok(backend.affine(x, order, &scale[..n], &shift[..n])?)
    }

    /// Number of classes and width of the embedding, found by looking at a grey image.
    pub fn widths(&self, backend: &B) -> Result<[usize; 2], JudgeError> {
        let side = match (&self.preprocessing.crop, &self.preprocessing.resize) {
            (Some([h, w]), _) => [*h, *w],
            (None, Some(resize)) => match resize.size {
                ResizeTo::ShorterSide(n) => [n, n],
                ResizeTo::Exact(size) => size,
            },
            (None, None) => [224, 224],
        };
        let grey = Image {
            width: side[1],
            height: side[0],
            pixels: vec![128; side[0] * side[1] * 3],
        };
        let said = self.predict(backend, &Shown::new(vec![&grey]), &[0])?;
        let width = |x: &B::Tensor| {
            let Shape { h, w, c, .. } = backend.shape(x);
            h * w * c
        };
        Ok(said.map_or([0; 2], |[logits, embedding]| {
            [width(&logits), width(&embedding)]
        }))
    }
}

/// Indices of images of the same `[height, width]`, in order of first appearance.
pub fn by_size<I: std::borrow::Borrow<Image>>(images: &[I]) -> Vec<([usize; 2], Vec<usize>)> {
    let mut sizes: Vec<([usize; 2], Vec<usize>)> = Vec::new();
    for (i, image) in images.iter().enumerate() {
        let image = image.borrow();
        let size = [image.height, image.width];
        match sizes.iter_mut().find(|(s, _)| *s == size) {
            Some((_, members)) => members.push(i),
            None => sizes.push((size, vec![i])),
        }
    }
    sizes
}
