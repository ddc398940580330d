//! Tensors and the devices that compute on them.
//!
//! [`Backend`] states all that a device must do, cut by groups of operations and not by single tensor
//! operations, so that each device can fuse as it likes. Siblings implement it: [`cpu`]; [`wgpu`] and [`cuda`], drivers below
//! the operations of [`gpu`]; and, where gradients are needed, [`candle`] and [`composed`]. Networks (`foil::nets`) are written once against the trait.
//!
//! On the host a tensor is an [`Array`], row-major f32, images NCHW. On a device an activation is a
//! `Backend::Tensor` of [`Shape`] `n × h × w × c`; how it lies in memory is the device's own affair.

mod array;
mod backend;
pub mod candle;
pub mod composed;
pub mod cpu;
pub mod cuda;
pub mod dense;
pub mod dense_fit;
mod device;
mod fixed_point;
pub mod gpu;
mod kept;
mod layer;
pub mod plan;
mod precision;
mod resampling;
mod rules;
mod spec;
mod state_dict;
mod typed;
pub mod wgpu;

pub use array::Array;
pub use backend::{Backend, Compared, Part, Piece, Tap};
pub use device::{Device, DeviceError, DeviceInfo, Opened, WithGradients, devices};
pub use fixed_point::{Along, FIXED_BITS, FixedTaps, PixelPass};
pub use kept::Kept;
pub use layer::{BatchNorm, Layer, Then};
pub use precision::Precision;
pub use spec::{
    Activation, Attention, Conv, Norm, Padding, Pool, PoolKind, QkvLayout, Resize, Shape,
    TensorError,
};
pub use state_dict::shorten;
pub use state_dict::{StateDict, StateDictError};
pub use typed::{ArrayError, TypedArray, TypedArrays, Values};
