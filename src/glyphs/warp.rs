//! The place of a glyph in an image as a function of real numbers, forth and back: steps 1 to 3 of [`super::render`] in
//! f64, with the gradients of everything that enters them.
//!
//! Where the formula has a kink the gradient is a sub-gradient: 0 for |sin| and |cos| at 0, for the free space at the
//! point where there is none left, and for a scale at or below [`LEAST_SCALE`].

use super::atlas::{GRID, REACH, SPACING};
use super::embedding::LATENT;

/// Scales below this are drawn as this: a glyph of no size has no inverse map.
pub const LEAST_SCALE: f64 = 0.01;

/// Pixels around the glyph's turned box that are computed, as in the renderer. That holds for mixtures as well: a
/// distance image is nowhere below |x| − a nor |y| − b for its half sides (a, b), hence neither is a mean of some for
/// the mean of their half sides.
const RIM: f64 = 2.0;

/// Where a glyph lies.
pub(super) struct Warp {
    size: usize,
    /// Half the sides of the box, in units of the glyph.
    half: [f64; 2],
    /// Pixels per unit of the glyph.
    pub side: f64,
    /// The scale is at its lowest and has no gradient.
    held: bool,
    position: [f64; 2],
    free: [f64; 2],
    centre: [f64; 2],
    extent: [f64; 2],
    sin: f64,
    cos: f64,
}

/// What the pixels send back, summed over all of them.
#[derive(Default)]
pub(super) struct PixelSums {
    /// Gradient by the glyph's coordinates u: Σ g.
    pub shift: [f64; 2],
    /// Σ g·u.
    pub stretch: f64,
    /// Σ (g₀ u₁ − g₁ u₀).
    pub turn: f64,
    /// Gradient by the pixels per unit where it multiplies the distance: Σ g d.
    pub side: f64,
}

/// The gradients that leave the warp.
pub(super) struct WarpGradient {
    pub scale: f64,
    pub position: [f64; 2],
    pub rotation: f64,
    pub half: [f64; 2],
}

impl Warp {
    /// The place that a latent vector gives to a glyph of half sides `half`.
    pub fn new(latent: &[f32; LATENT], half: [f64; 2], size: usize) -> Self {
        let [_, _, _, _, _, _, _, scale, x, y, rotation] = latent.map(f64::from);
        let (sin, cos) = rotation.sin_cos();
        let side = scale.max(LEAST_SCALE) * size as f64;
        let (s, c) = (sin.abs(), cos.abs());
        let extent = [c * half[0] + s * half[1], s * half[0] + c * half[1]].map(|e| side * e);
        let middle = 0.5 * size as f64;
        let free = extent.map(|e| (middle - e).max(0.0));
        let position = [x, y];
        Self {
            size,
            half,
            side,
            held: scale <= LEAST_SCALE,
            position,
            free,
            centre: [0, 1].map(|k| middle + position[k] * free[k]),
            extent,
            sin,
            cos,
        }
    }

    /// Columns and rows of the pixels that may hold ink.
    pub fn window(&self) -> [std::ops::Range<usize>; 2] {
        [0, 1].map(|k| {
            let reach = self.extent[k] + RIM;
            let low = (self.centre[k] - reach).max(0.0) as usize;
            let high = (self.centre[k] + reach).ceil().max(0.0) as usize;
            low.min(self.size)..high.min(self.size)
        })
    }

    /// Nodes of the distance image per pixel along a row: what one column adds to the place in the grid.
    pub fn step(&self) -> [f32; 2] {
        let nodes = 1.0 / (self.side * f64::from(SPACING));
        [(self.cos * nodes) as f32, (-self.sin * nodes) as f32]
    }

    /// The place in the grid, in nodes, of the centre of the first pixel of row `row`.
    pub fn row_start(&self, row: usize) -> [f32; 2] {
        let [x, y] = [
            (0.5 - self.centre[0]) / self.side,
            (row as f64 + 0.5 - self.centre[1]) / self.side,
        ];
        let u = [self.cos * x + self.sin * y, self.cos * y - self.sin * x];
        u.map(|u| ((u + f64::from(REACH)) / f64::from(SPACING)) as f32)
    }

    /// From the sums over pixels to the gradients of scale, position, rotation and half sides.
    pub fn gradient(&self, sums: &PixelSums) -> WarpGradient {
        let [gx, gy] = sums.shift;
        // u = R(−rotation) (p − c) / side.
        let by_centre = [
            -(gx * self.cos - gy * self.sin) / self.side,
            -(gx * self.sin + gy * self.cos) / self.side,
        ];
        let mut side = sums.side - sums.stretch / self.side;
        let mut rotation = sums.turn;
        // c = middle + position · max(0, middle − extent).
        let by_extent = [0, 1].map(|k| match self.free[k] > 0.0 {
            true => -by_centre[k] * self.position[k],
            false => 0.0,
        });
        side += (by_extent[0] * self.extent[0] + by_extent[1] * self.extent[1]) / self.side;
        let [a, b] = self.half;
        let by_cos = self.side * (by_extent[0] * a + by_extent[1] * b);
        let by_sin = self.side * (by_extent[0] * b + by_extent[1] * a);
        rotation += by_sin * sign(self.sin) * self.cos - by_cos * sign(self.cos) * self.sin;
        let (s, c) = (self.sin.abs(), self.cos.abs());
        WarpGradient {
            scale: if self.held {
                0.0
            } else {
                side * self.size as f64
            },
            position: [0, 1].map(|k| by_centre[k] * self.free[k]),
            rotation,
            half: [
                self.side * (by_extent[0] * c + by_extent[1] * s),
                self.side * (by_extent[0] * s + by_extent[1] * c),
            ],
        }
    }
}

/// −1, 0 or 1.
fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

/// A bilinear sample of a distance image with its slopes.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// In units of the glyph.
    pub distance: f32,
    /// Change of the distance per node along x and y.
    pub slope: [f32; 2],
    /// Number of the first of the four nodes around.
    pub first: usize,
    /// Way from that node, 0 to 1, along x and y.
    pub way: [f32; 2],
}

impl Sample {
    /// Samples `grid` at a place in nodes, as [`super::render::sample`] does: outside of the grid it is the value at
    /// the rim plus the way there along both axes. On a node the slope is that of the cell to the right or below.
    #[inline(always)]
    pub fn new(grid: &[f32; GRID * GRID], place: [f32; 2]) -> Self {
        const LAST: f32 = (GRID - 1) as f32;
        let inner = place.map(|v| v.clamp(0.0, LAST));
        let cell = inner.map(|v| (v as usize).min(GRID - 2));
        let way = [0, 1].map(|k| inner[k] - cell[k] as f32);
        let first = cell[1] * GRID + cell[0];
        let [a, b] = [grid[first], grid[first + 1]];
        let [c, d] = [grid[first + GRID], grid[first + GRID + 1]];
        let (top, bottom) = (a + way[0] * (b - a), c + way[0] * (d - c));
        let across = (b - a) + way[1] * ((d - c) - (b - a));
        let beyond = [0, 1].map(|k| (place[k] - inner[k]) * SPACING);
        let along = |k: usize, inside: f32| match beyond[k] {
            0.0 => inside,
            outside => SPACING.copysign(outside),
        };
        Self {
            distance: top + way[1] * (bottom - top) + beyond[0].abs() + beyond[1].abs(),
            slope: [along(0, across), along(1, bottom - top)],
            first,
            way,
        }
    }

    /// Adds what a gradient by the distance means for the four nodes.
    #[inline(always)]
    pub fn scatter(&self, nodes: &mut [f64; GRID * GRID], gradient: f64) {
        let [x, y] = self.way.map(f64::from);
        let (top, bottom) = (gradient * (1.0 - y), gradient * y);
        nodes[self.first] += top * (1.0 - x);
        nodes[self.first + 1] += top * x;
        nodes[self.first + GRID] += bottom * (1.0 - x);
        nodes[self.first + GRID + 1] += bottom * x;
    }
}
