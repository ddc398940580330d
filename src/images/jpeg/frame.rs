//! The geometry of a frame: how many samples and 8x8 blocks each component has, and how
//! a scan walks over them.

use super::bits::BitReader;
use super::error::{JpegError, Progress};
use super::huffman::NoSuchCode;

/// One colour component of the frame.
pub struct Component {
    /// Its identifier.
    pub id: u8,
    /// Horizontal sampling factor.
    pub h: usize,
    /// Vertical sampling factor.
    pub v: usize,
    /// Number of its quantisation table.
    pub quant_id: u8,
    /// The quantisation table in force at its first scan.
    pub quant: Option<[i16; 64]>,
    /// Width in samples.
    pub width: usize,
    /// Height in samples.
    pub height: usize,
    /// Width in blocks.
    pub blocks_x: usize,
    /// Height in blocks.
    pub blocks_y: usize,
}

impl Component {
    /// A component whose sizes are still to be worked out.
    pub fn new(id: u8, h: u8, v: u8, quant_id: u8) -> Self {
        Self {
            id,
            h: usize::from(h),
            v: usize::from(v),
            quant_id,
            quant: None,
            width: 0,
            height: 0,
            blocks_x: 0,
            blocks_y: 0,
        }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks_x * self.blocks_y
    }
}

/// A frame: the image's size and its components.
pub struct Frame {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Whether the scans are progressive.
    pub progressive: bool,
    /// Largest horizontal sampling factor.
    pub max_h: usize,
    /// Largest vertical sampling factor.
    pub max_v: usize,
    /// The components, in the order of the file.
    pub components: Vec<Component>,
}

impl Frame {
    /// Works out the sizes of the components.
    pub fn new(
        width: usize,
        height: usize,
        progressive: bool,
        mut components: Vec<Component>,
    ) -> Self {
        let max_h = components.iter().map(|c| c.h).max().unwrap_or(1);
        let max_v = components.iter().map(|c| c.v).max().unwrap_or(1);
        for c in &mut components {
            c.width = (width * c.h).div_ceil(max_h);
            c.height = (height * c.v).div_ceil(max_v);
            c.blocks_x = (width * c.h).div_ceil(max_h * 8);
            c.blocks_y = (height * c.v).div_ceil(max_v * 8);
        }
        Self {
            width,
            height,
            progressive,
            max_h,
            max_v,
            components,
        }
    }
}

/// What went wrong inside a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A bit pattern that is no Huffman code.
    Code,
    /// A coefficient past the end of its block or band.
    Place,
    /// A refined coefficient that is not of one bit.
    Refinement,
}

impl From<NoSuchCode> for Fault {
    fn from(_: NoSuchCode) -> Self {
        Self::Code
    }
}

impl Fault {
    /// The fault in words.
    fn text(self) -> &'static str {
        match self {
            Self::Code => "expected a Huffman code, found bits that are none",
            Self::Place => "expected a coefficient within its block, found one past the end",
            Self::Refinement => "expected a refined coefficient of one bit, found a longer one",
        }
    }
}

/// Decodes the blocks of a scan.
pub trait BlockDecoder {
    /// Decodes the block at column `x` and row `y` of the scan's component number `part`.
    /// Blocks outside the component only fill up a coding unit.
    fn block(
        &mut self,
        reader: &mut BitReader<'_>,
        part: usize,
        x: usize,
        y: usize,
    ) -> Result<(), Fault>;

    /// Forgets what earlier blocks left behind.
    fn restart(&mut self);
}

/// The coding units of a scan.
pub struct Units {
    /// Per component of the scan: blocks of a unit horizontally and vertically.
    sizes: Vec<(usize, usize)>,
    units_x: usize,
    units_y: usize,
}

impl Units {
    /// The units of a scan of the components `indices`: single blocks where there is but
    /// one component, otherwise as many blocks of each as its sampling factors say.
    pub fn new(frame: &Frame, indices: impl ExactSizeIterator<Item = usize>) -> Self {
        let alone = indices.len() == 1;
        let (mut units_x, mut units_y) = (
            frame.width.div_ceil(frame.max_h * 8),
            frame.height.div_ceil(frame.max_v * 8),
        );
        let sizes = indices
            .map(|index| {
                let c = &frame.components[index];
                if alone {
                    (units_x, units_y) = (c.blocks_x, c.blocks_y);
                    (1, 1)
                } else {
                    (c.h, c.v)
                }
            })
            .collect();
        Self {
            sizes,
            units_x,
            units_y,
        }
    }

    /// Number of units.
    pub fn total(&self) -> usize {
        self.units_x * self.units_y
    }

    /// Runs `decoder` over all blocks of the scan number `scan`, in the order of the file.
    pub fn walk<D: BlockDecoder>(
        &self,
        reader: &mut BitReader<'_>,
        restart_interval: usize,
        scan: usize,
        decoder: &mut D,
    ) -> Result<(), JpegError> {
        let mut done = 0;
        let mut until_restart = restart_interval;
        let mut next_restart = 0;
        let total = self.total();
        let progress = |done| Progress { scan, done, total };
        for unit_y in 0..self.units_y {
            for unit_x in 0..self.units_x {
                if restart_interval != 0 {
                    if until_restart == 0 {
                        reader.pass_restart(next_restart).map_err(|found| {
                            bad_restart(next_restart, found, reader.position(), progress(done))
                        })?;
                        decoder.restart();
                        next_restart = (next_restart + 1) % 8;
                        until_restart = restart_interval;
                    }
                    until_restart -= 1;
                }
                let result = self.unit(reader, unit_x, unit_y, decoder);
                if reader.overrun() {
                    return Err(JpegError::TruncatedScan {
                        at: reader.position(),
                        progress: progress(done),
                    });
                }
                result.map_err(|fault| JpegError::Corrupt {
                    what: fault.text().to_owned(),
                    progress: progress(done),
                })?;
                done += 1;
            }
        }
        Ok(())
    }

    /// Decodes one coding unit.
    #[inline]
    fn unit<D: BlockDecoder>(
        &self,
        reader: &mut BitReader<'_>,
        unit_x: usize,
        unit_y: usize,
        decoder: &mut D,
    ) -> Result<(), Fault> {
        for (part, &(h, v)) in self.sizes.iter().enumerate() {
            for y in 0..v {
                for x in 0..h {
                    decoder.block(reader, part, unit_x * h + x, unit_y * v + y)?;
                }
            }
        }
        Ok(())
    }
}

/// The error of a restart marker that is not there.
fn bad_restart(expected: u8, found: Option<u8>, at: usize, progress: Progress) -> JpegError {
    match found {
        None => JpegError::TruncatedScan { at, progress },
        Some(marker) => JpegError::Corrupt {
            what: format!("expected restart marker {expected}, found marker FF {marker:02X}"),
            progress,
        },
    }
}
