//! What has been decoded of an image: gathers the samples or coefficients of its scans,
//! tells what is missing, and turns all of it into RGB pixels.

use super::JpegError;
use super::bits::BitReader;
use super::colour::Coding;
use super::frame::{Frame, Units};
use super::huffman::HuffTable;
use super::markers::{Hints, ScanHeader, Segment, Tables, read_scan_header};
use super::progressive::{self, Ac, DcFirst, DcRefine, Store};
use super::sequential::{Part, Sequential};
use super::upsample::{Plane, Upsampler};

/// Most scans a file may have.
const MAX_SCANS: usize = 500;
/// Most visits to a block, on average over all blocks, that the scans may ask for.
const MAX_VISITS: usize = 100;

/// What has been decoded of an image.
pub struct Image {
    /// The frame.
    pub frame: Frame,
    /// What the components code; known from the first scan on.
    pub coding: Option<Coding>,
    /// Samples, of a sequential frame from its first scan on.
    planes: Vec<Plane>,
    /// Coefficients, of a progressive frame from its first scan on.
    stores: Vec<Store>,
    /// Per component: whether a scan held it.
    seen: Vec<bool>,
    scans: usize,
    /// Blocks visited by all scans.
    visits: usize,
}

/// The Huffman table number `id` of `tables`.
fn table<'t>(
    tables: &'t [Option<Box<HuffTable>>; 4],
    id: u8,
    kind: &'static str,
) -> Result<&'t HuffTable, JpegError> {
    tables[usize::from(id)]
        .as_deref()
        .ok_or(JpegError::MissingTable { kind, id })
}

/// The DC table number `id`.
fn dc_table<'t>(
    tables: &'t Tables,
    id: u8,
    segment: &Segment<'_>,
) -> Result<&'t HuffTable, JpegError> {
    let found = table(&tables.dc, id, "DC Huffman")?;
    if found.fits_dc() {
        Ok(found)
    } else {
        Err(segment.bad(
            "DC coefficients of at most 15 bits",
            format!("longer ones in DC Huffman table {id}"),
        ))
    }
}

impl Image {
    /// An image of which no scan is decoded yet.
    pub fn new(frame: Frame) -> Self {
        Self {
            seen: vec![false; frame.components.len()],
            frame,
            coding: None,
            planes: Vec::new(),
            stores: Vec::new(),
            scans: 0,
            visits: 0,
        }
    }

    /// Whether no scan has begun.
    pub fn is_new(&self) -> bool {
        self.scans == 0
    }

    /// Decodes the scan of the header `segment` in the file `bytes`; returns the offset
    /// behind its data.
    pub fn scan(
        &mut self,
        bytes: &[u8],
        segment: &Segment<'_>,
        tables: &Tables,
        hints: &Hints,
    ) -> Result<usize, JpegError> {
        let header = read_scan_header(segment, &self.frame)?;
        if self.scans == MAX_SCANS {
            return Err(segment.bad(format!("at most {MAX_SCANS} scans"), "more"));
        }
        self.scans += 1;
        self.coding
            .get_or_insert_with(|| Coding::guess(&self.frame, hints));
        for &(index, _, _) in &header.parts {
            let component = &mut self.frame.components[index];
            if component.quant.is_none() {
                let id = component.quant_id;
                let table = tables.quant[usize::from(id)].ok_or(JpegError::MissingTable {
                    kind: "quantisation",
                    id,
                })?;
                // The products are taken modulo 2^16, so the sign does not matter.
                component.quant = Some(table.map(|q| q as i16));
            }
            if self.seen[index] && !self.frame.progressive {
                return Err(segment.bad(
                    "every component in one scan",
                    format!("component {} in a second one", component.id),
                ));
            }
            self.seen[index] = true;
        }
        let reader = BitReader::new(bytes, segment.end());
        if self.frame.progressive {
            self.progressive_scan(&header, segment, tables, reader)
        } else {
            self.sequential_scan(&header, segment, tables, reader)
        }
    }

    /// Whether the pixels are complete, so that the rest of the file does not matter.
    pub fn complete(&self) -> bool {
        self.seen.iter().all(|&s| s) && self.stores.iter().all(Store::complete)
    }

    /// Checks that nothing is missing where the file ends at byte `at`, with an end marker
    /// or without.
    pub fn check_end(&self, at: usize, marked: bool) -> Result<(), JpegError> {
        let truncated = |expected: String| Err(JpegError::TruncatedFile { at, expected });
        if let Some(index) = self.seen.iter().position(|&s| !s) {
            return truncated(format!(
                "a scan of component {}, found {} scans of others",
                self.frame.components[index].id, self.scans
            ));
        }
        // Encoders may leave out bits of high frequencies, but then they mark the end.
        let settled = |store: &Store| store.complete() || (marked && store.low_complete());
        if !self.stores.iter().all(settled) {
            return truncated(format!(
                "more progressive scans, found {}, which leave out bits of coefficients",
                self.scans
            ));
        }
        Ok(())
    }

    /// The pixels: red, green and blue of each, row by row.
    pub fn rgb(&self) -> Vec<u8> {
        let frame = &self.frame;
        let made: Vec<Plane> = frame
            .components
            .iter()
            .zip(&self.stores)
            .map(|(component, store)| store.samples(component))
            .collect();
        let planes = if frame.progressive {
            &made
        } else {
            &self.planes
        };
        let mut upsamplers: Vec<Upsampler<'_>> = planes
            .iter()
            .zip(&frame.components)
            .map(|(plane, component)| Upsampler::new(plane, component, frame))
            .collect();
        let coding = self.coding.unwrap_or(Coding::Grey);
        let mut rgb = vec![0; frame.width * frame.height * 3];
        for (y, out) in rgb.chunks_exact_mut(frame.width * 3).enumerate() {
            let mut rows: [&[u8]; 4] = [&[]; 4];
            for (row, upsampler) in rows.iter_mut().zip(&mut upsamplers) {
                *row = upsampler.row(y);
            }
            coding.row(&rows, out);
        }
        rgb
    }

    /// Decodes a sequential scan; returns the offset behind its data.
    fn sequential_scan(
        &mut self,
        header: &ScanHeader,
        segment: &Segment<'_>,
        tables: &Tables,
        mut reader: BitReader<'_>,
    ) -> Result<usize, JpegError> {
        if self.planes.is_empty() {
            self.planes = self.frame.components.iter().map(Plane::new).collect();
        }
        let mut parts = Vec::with_capacity(header.parts.len());
        for &(index, dc, ac) in &header.parts {
            parts.push(Part {
                dc: dc_table(tables, dc, segment)?,
                ac: table(&tables.ac, ac, "AC Huffman")?,
                quant: self.frame.components[index].quant.unwrap_or([1; 64]),
                index,
                previous: 0,
            });
        }
        let mut decoder = Sequential {
            parts,
            planes: &mut self.planes,
        };
        Units::new(&self.frame, header.parts.iter().map(|p| p.0)).walk(
            &mut reader,
            tables.restart_interval,
            self.scans,
            &mut decoder,
        )?;
        Ok(reader.position())
    }

    /// Decodes a progressive scan; returns the offset behind its data.
    fn progressive_scan(
        &mut self,
        header: &ScanHeader,
        segment: &Segment<'_>,
        tables: &Tables,
        mut reader: BitReader<'_>,
    ) -> Result<usize, JpegError> {
        let components = &self.frame.components;
        if self.stores.is_empty() {
            self.stores = components.iter().map(Store::new).collect();
        }
        progressive::note_scan(header, segment, &self.frame, &mut self.stores)?;
        let visits: usize = header.parts.iter().map(|p| components[p.0].blocks()).sum();
        let all: usize = components.iter().map(|c| c.blocks()).sum();
        self.visits += visits;
        if self.visits > all.saturating_mul(MAX_VISITS) {
            return Err(segment.bad(
                format!("at most {MAX_VISITS} scans of the whole image"),
                "more",
            ));
        }
        let units = Units::new(&self.frame, header.parts.iter().map(|p| p.0));
        let (interval, scan) = (tables.restart_interval, self.scans);
        let stores = &mut self.stores[..];
        let refine = header.high != 0;
        if header.first != 0 {
            let (index, _, ac) = header.parts[0];
            let mut decoder = Ac {
                store: &mut stores[index],
                table: table(&tables.ac, ac, "AC Huffman")?,
                first: usize::from(header.first),
                last: usize::from(header.last),
                low: header.low,
                refine,
                empty_run: 0,
            };
            units.walk(&mut reader, interval, scan, &mut decoder)?;
        } else if refine {
            let mut decoder = DcRefine {
                parts: header.parts.iter().map(|p| p.0).collect(),
                stores,
                low: header.low,
            };
            units.walk(&mut reader, interval, scan, &mut decoder)?;
        } else {
            let mut parts = Vec::with_capacity(header.parts.len());
            for &(index, dc, _) in &header.parts {
                parts.push((index, dc_table(tables, dc, segment)?, 0));
            }
            let mut decoder = DcFirst {
                parts,
                stores,
                low: header.low,
            };
            units.walk(&mut reader, interval, scan, &mut decoder)?;
        }
        Ok(reader.position())
    }
}
