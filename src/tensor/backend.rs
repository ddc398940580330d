//! What a device must be able to do.

use std::sync::Arc;

use super::{
    Activation, Array, Attention, Conv, Kept, Layer, Norm, PixelPass, Pool, Resize, Shape,
    TensorError,
};

/// One piece of a concatenation over channels. A device may compute a piece straight into its place.
pub enum Part<'a, B: Backend + ?Sized> {
    Tensor(&'a B::Tensor),
    Conv(&'a B::Tensor, &'a B::Conv),
    Pool(&'a B::Tensor, Pool),
}

/// Two batches of features of one size, and the weights of their channels.
pub struct Compared<'a, B: Backend + ?Sized> {
    pub a: &'a B::Tensor,
    pub b: &'a B::Tensor,
    pub head: &'a [f32],
}

/// The features of single images at one tap of a network, and the weights of their channels.
pub struct Tap<'a, B: Backend + ?Sized> {
    pub images: Vec<&'a B::Tensor>,
    pub head: &'a [f32],
}

/// A piece of a network: what it makes of its inputs. It owns its weights, because it may be run again on the way back.
pub type Piece<B> = Arc<
    dyn Fn(&B, &[<B as Backend>::Tensor]) -> Result<<B as Backend>::Tensor, TensorError>
        + Send
        + Sync,
>;

/// A device: all operations the networks and metrics need, in groups that can be fused.
///
/// Results never depend on the batch an image is in, nor on the number of threads.
pub trait Backend: Send + Sync + 'static {
    /// An activation on the device. Cloning is cheap (shared storage).
    type Tensor: Clone + Send + Sync;
    /// Convolution weights prepared for the device.
    type Conv: Send + Sync;

    /// Name and instruction set, as printed and stored with scores.
    fn describe(&self) -> String;
    /// How networks multiply: `f32`, or a name for something coarser. Part of every score's fingerprint.
    fn arithmetic(&self) -> &'static str {
        "f32"
    }

    /// Waits until everything that was asked for is computed; what went wrong comes to light.
    fn wait(&self) -> Result<(), TensorError> {
        Ok(())
    }

    /// Gives memory that is kept for further tensors back to the system, when the networks have done their work.
    fn release(&self) {}

    /// Whether images run faster through wide layers one by one, side by side on threads, than as a batch.
    fn one_by_one(&self) -> bool {
        false
    }

    /// Whether pixels are worth keeping where they were uploaded: networks are then fed from one upload, and images are
    /// resized and cropped there ([`Backend::resize_pixels`]).
    fn keeps_pixels(&self) -> bool {
        false
    }

    /// Runs a piece of a network. For the way back a device with gradients keeps what is computed inside of it or, with
    /// `checkpointing`, only its inputs, and then computes the rest again. Gradients have the same bits either way.
    fn piece(
        &self,
        inputs: &[Self::Tensor],
        _checkpointing: bool,
        piece: Piece<Self>,
    ) -> Result<Self::Tensor, TensorError>
    where
        Self: Sized,
    {
        piece(self, inputs)
    }

    /// Runs the torso of a network on `x`: a device with gradients keeps what is computed inside of it for the way back in
    /// the type `kept`, and gives its result in f32 again. Other devices have one type for everything.
    fn torso<E: From<TensorError>>(
        &self,
        x: &Self::Tensor,
        kept: Kept,
        inside: impl FnOnce(Self::Tensor) -> Result<Self::Tensor, E>,
    ) -> Result<Self::Tensor, E>
    where
        Self: Sized,
    {
        match kept {
            Kept::F32 => inside(x.clone()),
            _ => Err(TensorError::Device(format!(
                "{}: a torso in {kept} is for devices with gradients; take f32",
                self.describe()
            ))
            .into()),
        }
    }

    // Transfer.

    /// Uploads NCHW images (rank 4), or `[n, c]` vectors (rank 2).
    fn upload(&self, array: &Array) -> Result<Self::Tensor, TensorError>;
    /// Uploads rows × columns × channels 8-bit images of one size as values 0..255.
    fn upload_pixels(
        &self,
        images: &[&[u8]],
        height: usize,
        width: usize,
    ) -> Result<Self::Tensor, TensorError>;
    /// Downloads as NCHW; `h = w = 1` gives `[n, c]`. What went wrong on a device that computes behind the program's
    /// back comes to light here.
    fn download(&self, tensor: &Self::Tensor) -> Result<Array, TensorError>;
    fn shape(&self, tensor: &Self::Tensor) -> Shape;
    /// Image `index` of a batch.
    fn select(&self, tensor: &Self::Tensor, index: usize) -> Self::Tensor;
    /// Batches single images (or batches) of one size.
    fn stack(&self, tensors: &[Self::Tensor]) -> Result<Self::Tensor, TensorError>;

    // Convolution, linear layers, concatenation.

    /// Prepares OIHW weights (a linear layer's `[o, i]` too); bias may be empty.
    fn prepare(&self, conv: Conv, weight: &Array, bias: &[f32]) -> Result<Self::Conv, TensorError>;
    /// Prepares a layer of a network; what follows it is folded in. A device that trains keeps hold of the parameters
    /// instead, by their names.
    fn prepare_layer(&self, conv: Conv, layer: &Layer<'_>) -> Result<Self::Conv, TensorError> {
        let (weight, bias) = layer.folded();
        self.prepare(conv, &weight, &bias)
    }
    /// `activation(conv(x) + bias + residual)`.
    fn conv(
        &self,
        x: &Self::Tensor,
        conv: &Self::Conv,
        residual: Option<&Self::Tensor>,
    ) -> Result<Self::Tensor, TensorError>;
    /// Concatenates over channels.
    fn concat(&self, parts: &[Part<'_, Self>]) -> Result<Self::Tensor, TensorError>;

    // Pooling.

    fn pool(&self, x: &Self::Tensor, pool: Pool) -> Result<Self::Tensor, TensorError>;
    /// Mean over all pixels.
    fn global_mean(&self, x: &Self::Tensor) -> Self::Tensor;
    /// Mean over the cells of a `rows × columns` grid (torch's adaptive average pooling).
    fn adaptive_mean(
        &self,
        x: &Self::Tensor,
        rows: usize,
        columns: usize,
    ) -> Result<Self::Tensor, TensorError>;

    // Norms.

    /// Normalises each pixel over its channels.
    fn layer_norm(&self, x: &Self::Tensor, norm: &Norm) -> Result<Self::Tensor, TensorError>;
    /// Normalises groups of channels over all pixels, then `· (1 + scale) + shift` if a modulation
    /// `[n, 2c]` (scales, then shifts) is given, then the activation.
    fn group_norm(
        &self,
        x: &Self::Tensor,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Self::Tensor>,
        activation: Activation,
    ) -> Result<Self::Tensor, TensorError>;

    /// `activation(x · scale + shift)` with scales and shifts of each image's own: a `modulation` `[n, 2c]` holds the
    /// scales, then the shifts (a conditional batch norm, once its statistics are folded).
    fn modulate(
        &self,
        x: &Self::Tensor,
        modulation: &Self::Tensor,
        activation: Activation,
    ) -> Result<Self::Tensor, TensorError>;

    // Attention.

    /// Attention over `[n, 1, tokens, 3c]`. `bias[w, head, query, key]` is added to the scores before the
    /// softmax; image `i` uses `w = i mod windows`.
    fn attention(
        &self,
        qkv: &Self::Tensor,
        attention: Attention,
        bias: Option<&Self::Tensor>,
    ) -> Result<Self::Tensor, TensorError>;

    // Elementwise.

    /// `a + b`; `b` may have `h = w = 1` or `n = 1` and is then repeated.
    fn add(&self, a: &Self::Tensor, b: &Self::Tensor) -> Result<Self::Tensor, TensorError>;
    fn activate(&self, x: &Self::Tensor, activation: Activation) -> Self::Tensor;
    /// `x · scale[c] + shift[c]`, with channels permuted first: output channel `c` reads input `order[c]`.
    fn affine(
        &self,
        x: &Self::Tensor,
        order: &[usize],
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Self::Tensor, TensorError>;

    // Layout.

    /// Cuts windows of `size × size` after a cyclic shift by `shift` (rows, columns), padding with zeros
    /// to a multiple of `size`: `[n · windows, 1, size², c]`.
    fn windows(&self, x: &Self::Tensor, size: usize, shift: [usize; 2]) -> Self::Tensor;
    /// Undoes [`Backend::windows`] for images of `h × w`.
    fn unwindows(
        &self,
        x: &Self::Tensor,
        size: usize,
        shift: [usize; 2],
        h: usize,
        w: usize,
    ) -> Self::Tensor;
    /// Puts each 2×2 block of pixels (column by column) into the channels: `[n, ⌈h/2⌉, ⌈w/2⌉, 4c]`.
    fn merge_patches(&self, x: &Self::Tensor) -> Self::Tensor;
    /// The same values seen as `[n, h, w, c]` of another `shape` of equal size (rows stay in order).
    fn view(&self, x: &Self::Tensor, shape: Shape) -> Result<Self::Tensor, TensorError>;

    /// Nearest-neighbour enlargement: each pixel is repeated `factor` times along rows and columns.
    fn upsample(&self, x: &Self::Tensor, factor: usize) -> Result<Self::Tensor, TensorError>;

    // Resize and crop.

    fn resize(
        &self,
        x: &Self::Tensor,
        height: usize,
        width: usize,
        mode: Resize,
    ) -> Result<Self::Tensor, TensorError>;
    fn crop(
        &self,
        x: &Self::Tensor,
        top: usize,
        left: usize,
        height: usize,
        width: usize,
    ) -> Result<Self::Tensor, TensorError>;
    /// One pass of a resize of pixels (whole numbers 0..255), in integers: the same bits on every device. It has no
    /// gradient.
    fn resize_pixels(
        &self,
        x: &Self::Tensor,
        pass: &PixelPass,
    ) -> Result<Self::Tensor, TensorError> {
        self.upload(&pass.on_host(&self.download(x)?, self.shape(x))?)
    }
    /// `table[x]` for pixels; what is no pixel counts as the nearest that is one. It has no gradient.
    fn look_up(&self, x: &Self::Tensor, table: &[f32; 256]) -> Result<Self::Tensor, TensorError> {
        let mut values = self.download(x)?;
        for value in &mut values.data {
            *value = table[*value as u8 as usize];
        }
        self.upload(&values)
    }

    // Feature distance (LPIPS).

    /// For each image the map `Σ_c head[c] · (â_c − b̂_c)²`, `[n, h, w, 1]`, with every pixel's channel
    /// vector scaled to unit length: `x̂ = x / (‖x‖ + 1e-10)`.
    fn feature_distance(
        &self,
        a: &Self::Tensor,
        b: &Self::Tensor,
        head: &[f32],
    ) -> Result<Self::Tensor, TensorError>;
    /// The spatial mean of that map for each image, summed in f64.
    fn mean_feature_distance(
        &self,
        a: &Self::Tensor,
        b: &Self::Tensor,
        head: &[f32],
    ) -> Result<Vec<f64>, TensorError>;
    /// The same for many comparisons, asked of the device at once.
    fn mean_feature_distances(
        &self,
        compared: &[Compared<'_, Self>],
    ) -> Result<Vec<Vec<f64>>, TensorError> {
        let of = |c: &Compared<'_, Self>| self.mean_feature_distance(c.a, c.b, c.head);
        compared.iter().map(of).collect()
    }
    /// The mean of that map for pairs of images, tap by tap: `pairs` are places in the images of every tap.
    fn feature_distances_of_pairs(
        &self,
        taps: &[Tap<'_, Self>],
        pairs: &[[usize; 2]],
    ) -> Result<Vec<Vec<f64>>, TensorError> {
        let compared: Vec<Compared<'_, Self>> = taps
            .iter()
            .flat_map(|tap| {
                pairs.iter().map(|&[a, b]| Compared {
                    a: tap.images[a],
                    b: tap.images[b],
                    head: tap.head,
                })
            })
            .collect();
        if compared.is_empty() {
            return Ok(vec![Vec::new(); taps.len()]);
        }
        let means = self.mean_feature_distances(&compared)?;
        Ok(means.chunks(pairs.len()).map(<[_]>::concat).collect())
    }
}
