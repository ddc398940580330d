//! First weights of a denoising UNet, and of its first half as a classifier.

use super::initial::Initial;
use crate::tensor::StateDict;

/// Layout of a UNet of guided-diffusion with scale-and-shift norms, whose size changes without weights.
#[derive(Clone, Debug)]
pub struct UnetLayout {
    /// Channels of the images; the network gives twice as many.
    pub channels: usize,
    /// Channels of the first level: a multiple of 32.
    pub width: usize,
    /// Widths of the levels as multiples of the first.
    pub factors: Vec<usize>,
    /// Residual blocks of each level on the way down; there is one more on the way up.
    pub blocks: usize,
    /// Levels with attention, from 0.
    pub attention: Vec<usize>,
}

impl UnetLayout {
    /// First weights: the last layer of every block and of the network gives zeros, as in the public code.
    pub fn initial(&self, seed: u64) -> StateDict {
        let mut net = Initial::new(seed);
        let time = 4 * self.width;
        net.layer("time_embed.0", &[time, self.width]);
        net.layer("time_embed.2", &[time, time]);
        net.last("input_blocks.0.0", &[self.width, self.channels, 3, 3]);
        let mut c = self.width;
        let mut widths = vec![c];
        for (level, factor) in self.factors.iter().enumerate() {
            for _ in 0..self.blocks {
                let at = format!("input_blocks.{}", widths.len());
                residual(&mut net, time, &format!("{at}.0"), c, factor * self.width);
                c = factor * self.width;
                if self.attention.contains(&level) {
                    attention(&mut net, &format!("{at}.1"), c);
                }
                widths.push(c);
            }
            if level + 1 < self.factors.len() {
                widths.push(c);
            }
        }
        residual(&mut net, time, "middle_block.0", c, c);
        attention(&mut net, "middle_block.1", c);
        residual(&mut net, time, "middle_block.2", c, c);
        let mut block = 0;
        for (level, factor) in self.factors.iter().enumerate().rev() {
            for _ in 0..=self.blocks {
                let at = format!("output_blocks.{block}");
                let joined = c + widths.pop().unwrap_or(0);
                residual(
                    &mut net,
                    time,
                    &format!("{at}.0"),
                    joined,
                    factor * self.width,
                );
                c = factor * self.width;
                if self.attention.contains(&level) {
                    attention(&mut net, &format!("{at}.1"), c);
                }
                block += 1;
            }
        }
        net.norm("out.0", c);
        net.zero("out.2", &[2 * self.channels, c, 3, 3]);
        net.finish()
    }
}

/// Layout of the encoder half with attention pooling: a classifier of noisy images. Blocks that halve the size are
/// residual ones.
#[derive(Clone, Debug)]
pub struct UnetEncoderLayout {
    /// Side of the images.
    pub size: usize,
    /// Channels of the first level: a multiple of 32.
    pub width: usize,
    /// Widths of the levels as multiples of the first.
    pub factors: Vec<usize>,
    /// Residual blocks of each level.
    pub blocks: usize,
    /// Levels with attention, from 0.
    pub attention: Vec<usize>,
}

impl UnetEncoderLayout {
    /// First weights for so many outputs.
    pub fn initial(&self, seed: u64, outputs: usize) -> StateDict {
        let mut net = Initial::new(seed);
        let time = 4 * self.width;
        net.layer("time_embed.0", &[time, self.width]);
        net.layer("time_embed.2", &[time, time]);
        net.last("input_blocks.0.0", &[self.width, 3, 3, 3]);
        let (mut c, mut index) = (self.width, 1);
        for (level, factor) in self.factors.iter().enumerate() {
            for _ in 0..self.blocks {
                let at = format!("input_blocks.{index}");
                residual(&mut net, time, &format!("{at}.0"), c, factor * self.width);
                c = factor * self.width;
                if self.attention.contains(&level) {
                    attention(&mut net, &format!("{at}.1"), c);
                }
                index += 1;
            }
            if level + 1 < self.factors.len() {
                residual(&mut net, time, &format!("input_blocks.{index}.0"), c, c);
                index += 1;
            }
        }
        residual(&mut net, time, "middle_block.0", c, c);
        attention(&mut net, "middle_block.1", c);
        residual(&mut net, time, "middle_block.2", c, c);
        net.norm("out.0", c);
        let side = self.size >> self.factors.len().saturating_sub(1);
        net.weight("out.2.positional_embedding", &[c, side * side + 1], 1.0);
        net.last("out.2.qkv_proj", &[3 * c, c, 1]);
        net.last("out.2.c_proj", &[outputs, c, 1]);
        net.finish()
    }
}

fn residual(net: &mut Initial, time: usize, at: &str, inputs: usize, outputs: usize) {
    net.norm(&format!("{at}.in_layers.0"), inputs);
    net.layer(&format!("{at}.in_layers.2"), &[outputs, inputs, 3, 3]);
    net.last(&format!("{at}.emb_layers.1"), &[2 * outputs, time]);
    net.norm(&format!("{at}.out_layers.0"), outputs);
    net.zero(&format!("{at}.out_layers.3"), &[outputs, outputs, 3, 3]);
    if inputs != outputs {
        net.last(&format!("{at}.skip_connection"), &[outputs, inputs, 1, 1]);
    }
}

fn attention(net: &mut Initial, at: &str, c: usize) {
    net.norm(&format!("{at}.norm"), c);
    net.last(&format!("{at}.qkv"), &[3 * c, c, 1]);
    net.zero(&format!("{at}.proj_out"), &[c, c, 1]);
}
