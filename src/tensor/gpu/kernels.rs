//! The kernels of `kernels/`, inside the program.

use crate::Precision;

/// An entry point of a file of `kernels/`.
pub struct Kernel {
    /// Name of the file, without its ending.
    pub name: &'static str,
    pub entry: &'static str,
    /// The file, after those that stand before it but for the types of values.
    wgsl: &'static str,
    /// The same for CUDA, as it is.
    cuda: &'static str,
}

/// What CUDA files include.
static HEADERS: [(&str, &str); 4] = [
    (
        "activation.cuh",
        include_str!("../../../kernels/activation.cuh"),
    ),
    ("launch.cuh", include_str!("../../../kernels/launch.cuh")),
    (
        "two_float.cuh",
        include_str!("../../../kernels/two_float.cuh"),
    ),
    ("value.cuh", include_str!("../../../kernels/value.cuh")),
];

impl Kernel {
    /// A kernel of one file for each of both, with nothing before them.
    pub const fn new(
        name: &'static str,
        entry: &'static str,
        wgsl: &'static str,
        cuda: &'static str,
    ) -> Self {
        Self {
            name,
            entry,
            wgsl,
            cuda,
        }
    }

    /// The WGSL text for values that lie in memory as `precision` says. `Bits` are what copies move: words keep the bits
    /// of any f32, and WGSL has no 16-bit integers.
    pub fn wgsl(&self, precision: Precision) -> String {
        let types = match precision {
            Precision::F32 => "alias Value = f32;\nalias Bits = u32;\n",
            Precision::F16 => "enable f16;\nalias Value = f16;\nalias Bits = f16;\n",
        };
        format!("{types}{}", self.wgsl)
    }

    /// The CUDA file with the files that it includes in their places, as one text for the compiler.
    pub fn cuda(&self) -> String {
        inlined(self.cuda)
    }
}

fn inlined(text: &str) -> String {
    let mut whole = String::new();
    for line in text.lines() {
        let header = HEADERS
            .iter()
            .find(|(name, _)| line == format!("#include \"{name}\""));
        match header {
            Some((_, text)) => whole += &inlined(text),
            None if line == "#pragma once" => {}
            None => whole += line,
        }
        whole.push('\n');
    }
    whole
}

/// A file with what stands before it.
macro_rules! wgsl {
    ($($file:literal)*) => {
        concat!($(include_str!(concat!("../../../kernels/", $file, ".wgsl"))),*)
    };
}

macro_rules! kernels {
    ($($constant:ident = $name:literal $entry:literal [$($file:literal)*];)*) => {
        $(pub static $constant: Kernel = Kernel {
            name: $name,
            entry: $entry,
            wgsl: wgsl!($($file)* $name),
            cuda: include_str!(concat!("../../../kernels/", $name, ".cu")),
        };)*

        /// All of them.
        pub static ALL: &[&Kernel] = &[$(&$constant),*];
    };
}

kernels! {
    CONV_DENSE = "conv2d" "dense" ["activation"];
    CONV_DEPTHWISE = "conv2d" "depthwise" ["activation"];
    LINEAR = "matmul" "linear" ["activation"];
    POOL_LARGEST = "pool" "largest" ["activation" "two_float"];
    POOL_MEAN = "pool" "mean" ["activation" "two_float"];
    POOL_CELL = "pool" "cell" ["activation" "two_float"];
    NORM_LAYER = "norm" "layer" ["activation"];
    NORM_STATISTICS = "norm" "statistics" ["activation"];
    NORM_GATHER = "norm" "gather" ["activation"];
    NORM_CONCLUDE = "norm" "conclude" ["activation"];
    NORM_NORMALISE = "norm" "normalise" ["activation"];
    NORM_MODULATE = "norm" "modulate" ["activation"];
    ATTENTION_SCORES = "attention" "scores" [];
    SOFTMAX = "softmax" "softmax" ["activation"];
    ATTENTION_MIX = "attention" "mix" [];
    ADD = "elementwise" "add" ["activation"];
    ACTIVATED = "elementwise" "activated" ["activation"];
    AFFINE = "elementwise" "affine" ["activation"];
    LOOKED_UP = "elementwise" "looked_up" ["activation"];
    PIXELS = "layout" "pixels" [];
    CHANNELS = "layout" "channels" [];
    WINDOWS = "layout" "windows" [];
    UNWINDOWS = "layout" "unwindows" [];
    PATCHES = "layout" "patches" [];
    UPSAMPLE = "layout" "upsample" [];
    CROP = "layout" "crop" [];
    RESIZE_TF1 = "resize" "tf1" ["two_float"];
    RESIZE_HALF_PIXEL = "resize" "half_pixel" ["two_float"];
    RESIZE_COLUMNS = "resize" "columns" ["two_float"];
    RESIZE_ROWS = "resize" "rows" ["two_float"];
    RESIZE_PIXEL_COLUMNS = "resize" "pixel_columns" ["two_float"];
    RESIZE_PIXEL_ROWS = "resize" "pixel_rows" ["two_float"];
    LPIPS_DISTANCES = "lpips_head" "distances" ["two_float"];
    LPIPS_MEAN = "lpips_head" "mean" ["two_float"];
    LPIPS_PAIRS = "lpips_head" "pairs" ["two_float"];
    COMMITTEE = "committee" "judge" [];
    MOMENTS_SUMS = "moments" "sums" ["two_float"];
    MOMENTS_PRODUCTS = "moments" "products" ["two_float"];
    PROBE_COPY = "probe" "copy" [];
    PROBE_MULTIPLY = "probe" "multiply" [];
    ORTHOGONAL_LENGTHS = "orthogonal_set" "lengths" ["two_float"];
    ORTHOGONAL_GRAM = "orthogonal_set" "gram" ["two_float"];
    ORTHOGONAL_CHOOSE = "orthogonal_set" "choose" ["two_float"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_files_are_whole_and_have_their_kernels() {
        for kernel in ALL {
            let text = kernel.cuda();
            assert!(!text.contains("#include"), "{}", kernel.name);
            let declared = format!("__launch_bounds__(256) void {}(Params p, ", kernel.entry);
            let what = format!("{} {}", kernel.name, kernel.entry);
            assert_eq!(text.matches(&declared).count(), 1, "{what}");
        }
    }
}
