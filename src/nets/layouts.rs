//! Names and shapes of the tensors of published networks, without their values: enough to plan what a network costs.
//!
//! Classifiers have the 1000 classes of ImageNet. Networks whose widths are the user's choice have no layout.

use super::Architecture;
use crate::tensor::{Array, StateDict};

const CLASSES: usize = 1000;

/// Tensors of zeros under their public names; `None` if the architecture does not fix the shapes.
pub fn layout(architecture: Architecture) -> Option<StateDict> {
    use Architecture as A;
    let mut net = Layout {
        dict: StateDict::named(format!("the layout of {architecture}")),
    };
    match architecture {
        A::AlexNet => alexnet(&mut net),
        A::Vgg16 => vgg16(&mut net),
        A::SqueezeNet => squeezenet(&mut net),
        A::Inception => inception(&mut net),
        A::MobileNetV2 => mobilenet(&mut net),
        A::EfficientNetLite0 => efficientnet(&mut net, 1.0, 1.0),
        A::EfficientNetLite1 => efficientnet(&mut net, 1.0, 1.1),
        A::EfficientNetLite2 => efficientnet(&mut net, 1.1, 1.2),
        A::ResNet18 => resnet(&mut net, [2, 2, 2, 2], false),
        A::ResNet50 => resnet(&mut net, [3, 4, 6, 3], true),
        A::ConvNextTiny => convnext(&mut net, 96, [3, 3, 9, 3]),
        A::ConvNextBase => convnext(&mut net, 128, [3, 3, 27, 3]),
        A::ConvNextLarge => convnext(&mut net, 192, [3, 3, 27, 3]),
        A::SwinT => swin(&mut net, 96, 3, [2, 2, 6, 2]),
        A::SwinB => swin(&mut net, 128, 4, [2, 2, 18, 2]),
        A::UnetEncoder
        | A::PlainCnn
        | A::ConvNextBn
        | A::Autoencoder
        | A::Unet
        | A::BexEncoder
        | A::BexGenerator
        | A::MnistCnn
        | A::Invertible => return None,
    }
    Some(net.dict)
}

/// A dictionary that is being filled.
struct Layout {
    dict: StateDict,
}

impl Layout {
    fn tensor(&mut self, name: &str, shape: &[usize]) {
        self.dict.insert(name, Array::zeros(shape.to_vec()));
    }

    /// A convolution or linear layer without bias.
    fn weight(&mut self, at: &str, shape: &[usize]) {
        self.tensor(&format!("{at}.weight"), shape);
    }

    /// The same with bias.
    fn layer(&mut self, at: &str, shape: &[usize]) {
        self.weight(at, shape);
        self.tensor(&format!("{at}.bias"), &shape[..1]);
    }

    /// A layer or group norm.
    fn norm(&mut self, at: &str, channels: usize) {
        self.layer(at, &[channels]);
    }

    /// A convolution and the batch norm that follows it.
    fn conv_bn(&mut self, conv: &str, bn: &str, shape: &[usize]) {
        self.weight(conv, shape);
        self.norm(bn, shape[0]);
        for part in ["running_mean", "running_var"] {
            self.tensor(&format!("{bn}.{part}"), &shape[..1]);
        }
    }
}

fn alexnet(net: &mut Layout) {
    for (at, o, i, k) in [
        (0, 64, 3, 11),
        (3, 192, 64, 5),
        (6, 384, 192, 3),
        (8, 256, 384, 3),
    ] {
        net.layer(&format!("features.{at}"), &[o, i, k, k]);
    }
    net.layer("features.10", &[256, 256, 3, 3]);
    dense_head(net, [1, 4, 6], 256 * 6 * 6);
}

fn vgg16(net: &mut Layout) {
    let mut inputs = 3;
    for (width, places) in [
        (64, &[0, 2][..]),
        (128, &[5, 7]),
        (256, &[10, 12, 14]),
        (512, &[17, 19, 21, 24, 26, 28]),
    ] {
        for at in places {
            net.layer(&format!("features.{at}"), &[width, inputs, 3, 3]);
            inputs = width;
        }
    }
    dense_head(net, [0, 3, 6], 512 * 7 * 7);
}

fn dense_head(net: &mut Layout, places: [usize; 3], inputs: usize) {
    let shapes = [[4096, inputs], [4096, 4096], [CLASSES, 4096]];
    for (at, shape) in places.iter().zip(shapes) {
        net.layer(&format!("classifier.{at}"), &shape);
    }
}

fn squeezenet(net: &mut Layout) {
    net.layer("features.0", &[64, 3, 3, 3]);
    let mut inputs = 64;
    for (places, squeeze, expand) in [
        ([3, 4], 16, 64),
        ([6, 7], 32, 128),
        ([9, 10], 48, 192),
        ([11, 12], 64, 256),
    ] {
        for at in places {
            let at = format!("features.{at}");
            net.layer(&format!("{at}.squeeze"), &[squeeze, inputs, 1, 1]);
            net.layer(&format!("{at}.expand1x1"), &[expand, squeeze, 1, 1]);
            net.layer(&format!("{at}.expand3x3"), &[expand, squeeze, 3, 3]);
            inputs = 2 * expand;
        }
    }
    net.layer("classifier.1", &[CLASSES, inputs, 1, 1]);
}

fn resnet(net: &mut Layout, depths: [usize; 4], bottleneck: bool) {
    net.conv_bn("conv1", "bn1", &[64, 3, 7, 7]);
    let mut inputs = 64;
    for (stage, depth) in depths.into_iter().enumerate() {
        let middle = 64 << stage;
        let outputs = if bottleneck { 4 * middle } else { middle };
        for index in 0..depth {
            let at = format!("layer{}.{index}", stage + 1);
            let shapes = match bottleneck {
                true => vec![
                    [middle, inputs, 1, 1],
                    [middle, middle, 3, 3],
                    [outputs, middle, 1, 1],
                ],
                false => vec![[middle, inputs, 3, 3], [middle, middle, 3, 3]],
            };
            for (i, shape) in shapes.iter().enumerate() {
                let (conv, bn) = (format!("{at}.conv{}", i + 1), format!("{at}.bn{}", i + 1));
                net.conv_bn(&conv, &bn, shape);
            }
            if index == 0 && inputs != outputs {
                let down = format!("{at}.downsample");
                let shape = [outputs, inputs, 1, 1];
                net.conv_bn(&format!("{down}.0"), &format!("{down}.1"), &shape);
            }
            inputs = outputs;
        }
    }
    net.layer("fc", &[CLASSES, inputs]);
}

fn convnext(net: &mut Layout, width: usize, depths: [usize; 4]) {
    net.layer("features.0.0", &[width, 3, 4, 4]);
    net.norm("features.0.1", width);
    let mut c = width;
    for (stage, depth) in depths.into_iter().enumerate() {
        if stage > 0 {
            net.norm(&format!("features.{}.0", 2 * stage), c);
            net.layer(&format!("features.{}.1", 2 * stage), &[2 * c, c, 2, 2]);
            c *= 2;
        }
        for index in 0..depth {
            let at = format!("features.{}.{index}", 2 * stage + 1);
            net.tensor(&format!("{at}.layer_scale"), &[c, 1, 1]);
            net.layer(&format!("{at}.block.0"), &[c, 1, 7, 7]);
            net.norm(&format!("{at}.block.2"), c);
            net.layer(&format!("{at}.block.3"), &[4 * c, c]);
            net.layer(&format!("{at}.block.5"), &[c, 4 * c]);
        }
    }
    net.norm("classifier.0", c);
    net.layer("classifier.2", &[CLASSES, c]);
}

fn swin(net: &mut Layout, width: usize, heads: usize, depths: [usize; 4]) {
    net.layer("features.0.0", &[width, 3, 4, 4]);
    net.norm("features.0.2", width);
    let mut c = width;
    for (stage, depth) in depths.into_iter().enumerate() {
        if stage > 0 {
            let at = format!("features.{}", 2 * stage);
            net.norm(&format!("{at}.norm"), 4 * c);
            net.weight(&format!("{at}.reduction"), &[2 * c, 4 * c]);
            c *= 2;
        }
        for index in 0..depth {
            let at = format!("features.{}.{index}", 2 * stage + 1);
            net.norm(&format!("{at}.norm1"), c);
            let table = format!("{at}.attn.relative_position_bias_table");
            net.tensor(&table, &[13 * 13, heads << stage]);
            net.layer(&format!("{at}.attn.qkv"), &[3 * c, c]);
            net.layer(&format!("{at}.attn.proj"), &[c, c]);
            net.norm(&format!("{at}.norm2"), c);
            net.layer(&format!("{at}.mlp.0"), &[4 * c, c]);
            net.layer(&format!("{at}.mlp.3"), &[c, 4 * c]);
        }
    }
    net.norm("norm", c);
    net.layer("head", &[CLASSES, c]);
}

fn mobilenet(net: &mut Layout) {
    net.conv_bn("features.0.0", "features.0.1", &[32, 3, 3, 3]);
    let (mut inputs, mut index) = (32, 1);
    for (factor, outputs, repeats) in [
        (1, 16, 1),
        (6, 24, 2),
        (6, 32, 3),
        (6, 64, 4),
        (6, 96, 3),
        (6, 160, 3),
        (6, 320, 1),
    ] {
        for _ in 0..repeats {
            let wide = factor * inputs;
            let at = |part: &str| format!("features.{index}.conv.{part}");
            let expands = factor > 1;
            if expands {
                net.conv_bn(&at("0.0"), &at("0.1"), &[wide, inputs, 1, 1]);
            }
            let (place, last) = if expands { (1, [2, 3]) } else { (0, [1, 2]) };
            let depthwise = [0, 1].map(|part| at(&format!("{place}.{part}")));
            net.conv_bn(&depthwise[0], &depthwise[1], &[wide, 1, 3, 3]);
            let [conv, bn] = last.map(|part| at(&part.to_string()));
            net.conv_bn(&conv, &bn, &[outputs, wide, 1, 1]);
            (inputs, index) = (outputs, index + 1);
        }
    }
    net.conv_bn("features.18.0", "features.18.1", &[1280, inputs, 1, 1]);
    net.layer("classifier.1", &[CLASSES, 1280]);
}

/// Widths go to the nearest multiple of 8; stem and head keep theirs.
fn efficientnet(net: &mut Layout, width: f64, depth: f64) {
    net.conv_bn("_conv_stem", "_bn0", &[32, 3, 3, 3]);
    let (mut inputs, mut index) = (32, 0);
    for (stage, (factor, outputs, repeats, kernel)) in [
        (1, 16, 1, 3),
        (6, 24, 2, 3),
        (6, 40, 2, 5),
        (6, 80, 3, 3),
        (6, 112, 3, 5),
        (6, 192, 4, 5),
        (6, 320, 1, 3),
    ]
    .into_iter()
    .enumerate()
    {
        // First and last stage are not made deeper.
        let repeats = match stage {
            0 | 6 => repeats,
            _ => (repeats as f64 * depth).ceil() as usize,
        };
        let outputs = (f64::from(outputs) * width + 4.0) as usize / 8 * 8;
        for _ in 0..repeats {
            let wide = factor * inputs;
            let at = |part: &str| format!("_blocks.{index}.{part}");
            if factor > 1 {
                net.conv_bn(&at("_expand_conv"), &at("_bn0"), &[wide, inputs, 1, 1]);
            }
            let shape = [wide, 1, kernel, kernel];
            net.conv_bn(&at("_depthwise_conv"), &at("_bn1"), &shape);
            net.conv_bn(&at("_project_conv"), &at("_bn2"), &[outputs, wide, 1, 1]);
            (inputs, index) = (outputs, index + 1);
        }
    }
    net.conv_bn("_conv_head", "_bn1", &[1280, inputs, 1, 1]);
    net.layer("_fc", &[CLASSES, 1280]);
}

/// Name, inputs, outputs, rows and columns of a kernel.
type Unit = (&'static str, usize, usize, [usize; 2]);

fn units(net: &mut Layout, block: &str, all: &[Unit]) {
    for (name, inputs, outputs, [h, w]) in all {
        let at = match block {
            "" => (*name).to_owned(),
            _ => format!("{block}.{name}"),
        };
        let shape = [*outputs, *inputs, *h, *w];
        net.conv_bn(&format!("{at}.conv"), &format!("{at}.bn"), &shape);
    }
}

fn inception(net: &mut Layout) {
    let (one, three, wide, tall) = ([1, 1], [3, 3], [1, 7], [7, 1]);
    units(
        net,
        "",
        &[
            ("Conv2d_1a_3x3", 3, 32, three),
            ("Conv2d_2a_3x3", 32, 32, three),
            ("Conv2d_2b_3x3", 32, 64, three),
            ("Conv2d_3b_1x1", 64, 80, one),
            ("Conv2d_4a_3x3", 80, 192, three),
        ],
    );
    for (block, i, pool) in [
        ("Mixed_5b", 192, 32),
        ("Mixed_5c", 256, 64),
        ("Mixed_5d", 288, 64),
    ] {
        let branches = [
            ("branch1x1", i, 64, one),
            ("branch5x5_1", i, 48, one),
            ("branch5x5_2", 48, 64, [5, 5]),
            ("branch3x3dbl_1", i, 64, one),
            ("branch3x3dbl_2", 64, 96, three),
            ("branch3x3dbl_3", 96, 96, three),
            ("branch_pool", i, pool, one),
        ];
        units(net, block, &branches);
    }
    let branches = [
        ("branch3x3", 288, 384, three),
        ("branch3x3dbl_1", 288, 64, one),
        ("branch3x3dbl_2", 64, 96, three),
        ("branch3x3dbl_3", 96, 96, three),
    ];
    units(net, "Mixed_6a", &branches);
    for (block, c) in [
        ("Mixed_6b", 128),
        ("Mixed_6c", 160),
        ("Mixed_6d", 160),
        ("Mixed_6e", 192),
    ] {
        let branches = [
            ("branch1x1", 768, 192, one),
            ("branch7x7_1", 768, c, one),
            ("branch7x7_2", c, c, wide),
            ("branch7x7_3", c, 192, tall),
            ("branch7x7dbl_1", 768, c, one),
            ("branch7x7dbl_2", c, c, tall),
            ("branch7x7dbl_3", c, c, wide),
            ("branch7x7dbl_4", c, c, tall),
            ("branch7x7dbl_5", c, 192, wide),
            ("branch_pool", 768, 192, one),
        ];
        units(net, block, &branches);
    }
    let branches = [
        ("branch3x3_1", 768, 192, one),
        ("branch3x3_2", 192, 320, three),
        ("branch7x7x3_1", 768, 192, one),
        ("branch7x7x3_2", 192, 192, wide),
        ("branch7x7x3_3", 192, 192, tall),
        ("branch7x7x3_4", 192, 192, three),
    ];
    units(net, "Mixed_7a", &branches);
    for (block, i) in [("Mixed_7b", 1280), ("Mixed_7c", 2048)] {
        let branches = [
            ("branch1x1", i, 320, one),
            ("branch3x3_1", i, 384, one),
            ("branch3x3_2a", 384, 384, [1, 3]),
            ("branch3x3_2b", 384, 384, [3, 1]),
            ("branch3x3dbl_1", i, 448, one),
            ("branch3x3dbl_2", 448, 384, three),
            ("branch3x3dbl_3a", 384, 384, [1, 3]),
            ("branch3x3dbl_3b", 384, 384, [3, 1]),
            ("branch_pool", i, 192, one),
        ];
        units(net, block, &branches);
    }
    net.layer("fc", &[1008, 2048]);
}
