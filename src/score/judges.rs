//! The classifier and the oracles: networks that look at images, or logits given by the user.

use crate::images::{self, Image};
use crate::nets::{self, Classifier, NetError};
use crate::tensor::{Array, Backend};
use crate::weights::{Card, Channels, Loaded, Preprocessing, ResizeTo};

/// What a judge says of a batch: logits `[n, classes]` and, from a network, embeddings `[n, d]`.
pub struct Views {
    pub logits: Array,
    pub embedding: Option<Array>,
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

    /// Logits and embeddings of images of any sizes, in order.
    pub fn look(&self, backend: &B, images: &[&Image]) -> Result<Views, JudgeError> {
        let ready = images
            .iter()
            .map(|image| self.preprocessing.fit(image))
            .collect::<Result<Vec<Image>, _>>()?;
        let mut rows: Vec<(Vec<f32>, Vec<f32>)> = vec![Default::default(); ready.len()];
        for (size, members) in by_size(&ready) {
            let pixels: Vec<&[u8]> = members.iter().map(|&i| &ready[i].pixels[..]).collect();
            let x = backend
                .upload_pixels(&pixels, size[0], size[1])
                .map_err(NetError::from)?;
            let x = self.normalise(backend, &x)?;
            let prediction = self.net.predict(backend, &x)?;
            let logits = backend
                .download(&prediction.logits)
                .map_err(NetError::from)?;
            let embedding = backend
                .download(&prediction.embedding)
                .map_err(NetError::from)?;
            for (at, &i) in members.iter().enumerate() {
                rows[i] = (logits.row(at).to_vec(), embedding.row(at).to_vec());
            }
        }
        let [logits, embedding] = [0, 1].map(|which| {
            let pick =
                |r: &(Vec<f32>, Vec<f32>)| if which == 0 { r.0.clone() } else { r.1.clone() };
            let width = rows.first().map_or(0, |r| pick(r).len());
            Array {
                shape: vec![rows.len(), width],
                data: rows.iter().flat_map(pick).collect(),
            }
        });
        if let Some(at) = logits.data.iter().position(|v| !v.is_finite()) {
            return Err(JudgeError::Other(format!(
                "the network gave {} for image {} of the batch; check its weights and preprocessing",
                logits.data[at],
                at / logits.shape[1].max(1)
            )));
        }
        Ok(Views {
            logits,
            embedding: Some(embedding),
        })
    }

    fn normalise(&self, backend: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        let p = &self.preprocessing;
        let order = match p.channels {
            Channels::Rgb => [0, 1, 2],
            Channels::Bgr => [2, 1, 0],
        };
        let scale = p.std.map(|s| p.scale / s);
        let shift = [0, 1, 2].map(|c| -p.mean[c] / p.std[c]);
        Ok(backend.affine(x, &order, &scale, &shift)?)
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
        let views = self.look(backend, &[&grey])?;
        let embedding = views.embedding.map_or(0, |e| e.shape[1]);
        Ok([views.logits.shape[1], embedding])
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
