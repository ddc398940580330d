//! The network of the benchmark: p = softmax(relu(x w1 + b1) w2 + b2); output 1 is the majority class.

use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};

use super::{Predictor, Result, TabularError};
use crate::tensor::dense::{Dense32, Dense64, Pass64};
use crate::tensor::{Array, TypedArrays};

/// Weights of one network, in single precision as stored and in double precision for searches.
#[derive(Clone, Debug)]
pub struct Network {
    /// `[inputs, hidden]`.
    pub w1: Vec<f32>,
    pub b1: Vec<f32>,
    /// `[hidden, 2]`.
    pub w2: Vec<f32>,
    pub b2: [f32; 2],
    pub single: Dense32,
    pub double: Dense64,
}

impl Network {
    /// From weights whose lengths fit.
    pub fn new(inputs: usize, w1: Vec<f32>, b1: Vec<f32>, w2: Vec<f32>, b2: [f32; 2]) -> Self {
        let single = Dense32::new(inputs, &w1, &b1, &w2, b2);
        let double = Dense64::new(inputs, &w1, &b1, &w2, b2);
        Self {
            w1,
            b1,
            w2,
            b2,
            single,
            double,
        }
    }

    /// Reads `w1`, `b1`, `w2`, `b2` of a safetensors file.
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_arrays(&TypedArrays::read(path)?)
    }

    /// From arrays of one file.
    pub fn from_arrays(arrays: &TypedArrays) -> Result<Self> {
        let wrong = |reason: String| TabularError::Network {
            file: arrays.file().into(),
            reason,
        };
        let shaped = |name: &str, rank: usize| -> Result<Array> {
            if !arrays.contains(name) {
                let found = arrays.names().collect::<Vec<_>>().join(", ");
                return Err(wrong(format!("no tensor `{name}`, found {found}")));
            }
            let array = arrays.f32(name)?;
            if array.shape.len() != rank {
                return Err(wrong(format!("`{name}` has shape {:?}", array.shape)));
            }
            Ok(array)
        };
        let (w1, b1) = (shaped("w1", 2)?, shaped("b1", 1)?);
        let (w2, b2) = (shaped("w2", 2)?, shaped("b2", 1)?);
        let (inputs, hidden) = (w1.shape[0], w1.shape[1]);
        let fits = b1.shape == [hidden] && w2.shape == [hidden, 2] && b2.shape == [2];
        if !fits || inputs == 0 || hidden == 0 {
            let shapes = [&w1, &b1, &w2, &b2].map(|a| format!("{:?}", a.shape));
            return Err(wrong(format!("shapes {} do not fit", shapes.join(", "))));
        }
        let last = [b2.data[0], b2.data[1]];
        Ok(Self::new(inputs, w1.data, b1.data, w2.data, last))
    }

    /// Writes the same file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let (inputs, hidden) = (self.inputs(), self.hidden());
        let file = path.display().to_string();
        let parts: [(&str, Vec<usize>, &[f32]); 4] = [
            ("w1", vec![inputs, hidden], &self.w1),
            ("b1", vec![hidden], &self.b1),
            ("w2", vec![hidden, 2], &self.w2),
            ("b2", vec![2], &self.b2),
        ];
        let mut views = Vec::with_capacity(parts.len());
        for (name, shape, data) in &parts {
            let bytes: &[u8] = bytemuck::cast_slice(data);
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
            views.push((*name, view.map_err(|e| unwritten(&file, &e))?));
        }
        let bytes = safetensors::serialize(views, None).map_err(|e| unwritten(&file, &e))?;
        std::fs::write(path, bytes).map_err(|source| TabularError::Io { file, source })
    }

    /// An error if the network does not take vectors of this width.
    pub fn check_width(&self, file: &str, width: usize) -> Result<()> {
        if self.inputs() == width {
            return Ok(());
        }
        Err(TabularError::Width {
            file: file.into(),
            expected: format!("{width} columns"),
            found: format!("{} inputs", self.inputs()),
        })
    }

    pub fn inputs(&self) -> usize {
        self.double.inputs()
    }

    pub fn hidden(&self) -> usize {
        self.double.hidden()
    }
}

fn unwritten(file: &str, error: &dyn std::error::Error) -> TabularError {
    TabularError::Network {
        file: file.into(),
        reason: error.to_string(),
    }
}

impl Predictor for Network {
    fn width(&self) -> usize {
        self.inputs()
    }

    fn probabilities(&self, rows: &[f64]) -> Vec<[f64; 2]> {
        let mut pass = self.double.pass();
        let each = rows.chunks_exact(self.inputs().max(1));
        each.map(|row| {
            self.double.forward(row, &mut pass);
            pass.probabilities()
        })
        .collect()
    }

    fn network(&self) -> Option<&Network> {
        Some(self)
    }
}

/// The network as a counterfactual search sees it: one class is wished for. Keeps the room of its passes.
pub struct Toward<'a> {
    network: &'a Network,
    target: usize,
    pass: Pass64,
    moved: Pass64,
}

impl<'a> Toward<'a> {
    /// Searches for points of class `target` (0 or 1).
    pub fn new(network: &'a Network, target: usize) -> Self {
        let pass = network.double.pass();
        Self {
            network,
            target,
            moved: pass.clone(),
            pass,
        }
    }

    /// Probability of the wished class.
    pub fn probability(&mut self, x: &[f64]) -> f64 {
        self.network.double.forward(x, &mut self.pass);
        self.pass.probabilities()[self.target]
    }

    /// Probability of the wished class where some inputs of the last call's point are moved.
    pub fn moved_probability(&mut self, moves: &[(usize, f64)]) -> f64 {
        self.moved.hidden.copy_from_slice(&self.pass.hidden);
        self.moved.logits = self.pass.logits;
        for &(input, by) in moves {
            self.network.double.shift(input, by, &mut self.moved);
        }
        self.moved.probabilities()[self.target]
    }

    /// Wished logit minus the other.
    pub fn margin(&mut self, x: &[f64]) -> f64 {
        self.network.double.forward(x, &mut self.pass);
        self.pass.logits[self.target] - self.pass.logits[1 - self.target]
    }

    /// Gradient of the margin at the point of the last call.
    pub fn margin_gradient(&mut self, out: &mut [f64]) {
        let mut d = [-1.0; 2];
        d[self.target] = 1.0;
        self.network.double.backward(&mut self.pass, d, out);
    }

    /// Number of inputs.
    pub fn width(&self) -> usize {
        self.network.inputs()
    }
}
