//! The images of a batch on the device: the bytes of each go up once, and every network is fed from there.

use std::cell::OnceCell;

use super::judges::by_size;
use crate::images::Image;
use crate::nets::NetError;
use crate::tensor::Backend;

/// Images of any sizes, uploaded when the first network asks for them.
pub struct Shown<'a, B: Backend> {
    images: Vec<&'a Image>,
    sizes: Vec<OfSize<B>>,
}

/// Images of one height and width.
struct OfSize<B: Backend> {
    size: [usize; 2],
    members: Vec<usize>,
    pixels: OnceCell<B::Tensor>,
}

/// Images of one size, as pixels 0..255 on the device.
pub struct Batch<B: Backend> {
    pub size: [usize; 2],
    /// Their places in what was asked for.
    pub places: Vec<usize>,
    pub pixels: B::Tensor,
}

impl<'a, B: Backend> Shown<'a, B> {
    pub fn new(images: Vec<&'a Image>) -> Self {
        let sizes = by_size(&images)
            .into_iter()
            .map(|(size, members)| OfSize {
                size,
                members,
                pixels: OnceCell::new(),
            })
            .collect();
        Self { images, sizes }
    }

    pub fn images(&self) -> &[&'a Image] {
        &self.images
    }

    /// All of them.
    pub fn all(&self) -> Vec<usize> {
        (0..self.images.len()).collect()
    }

    /// Some of the images, by their sizes. What is on the device is not uploaded again; where uploading costs nothing
    /// that is worth keeping, a part of the images is.
    pub fn batches(&self, backend: &B, which: &[usize]) -> Result<Vec<Batch<B>>, NetError> {
        let mut batches = Vec::new();
        for of_size in &self.sizes {
            let (places, images): (Vec<usize>, Vec<usize>) = which
                .iter()
                .enumerate()
                .filter(|(_, image)| of_size.members.contains(image))
                .unzip();
            if images.is_empty() {
                continue;
            }
            let pixels = if images == of_size.members {
                self.uploaded(backend, of_size)?.clone()
            } else if backend.keeps_pixels() {
                let all = self.uploaded(backend, of_size)?;
                let at = |image: &usize| of_size.members.iter().position(|m| m == image);
                let chosen = images.iter().filter_map(at);
                let chosen: Vec<B::Tensor> = chosen.map(|i| backend.select(all, i)).collect();
                backend.stack(&chosen)?
            } else {
                self.upload(backend, of_size.size, &images)?
            };
            batches.push(Batch {
                size: of_size.size,
                places,
                pixels,
            });
        }
        Ok(batches)
    }

    fn uploaded<'b>(&self, backend: &B, of_size: &'b OfSize<B>) -> Result<&'b B::Tensor, NetError> {
        if let Some(pixels) = of_size.pixels.get() {
            return Ok(pixels);
        }
        let pixels = self.upload(backend, of_size.size, &of_size.members)?;
        Ok(of_size.pixels.get_or_init(|| pixels))
    }

    fn upload(
        &self,
        backend: &B,
        [height, width]: [usize; 2],
        images: &[usize],
    ) -> Result<B::Tensor, NetError> {
        let pixels: Vec<&[u8]> = images.iter().map(|&i| &self.images[i].pixels[..]).collect();
        Ok(backend.upload_pixels(&pixels, height, width)?)
    }
}

/// What was made of some images, with their places in what was asked for.
pub type Placed<T> = (Vec<usize>, T);

/// Rows of several batches, each with the places of its rows, as one tensor in the order of the places; `None` without
/// a row.
pub fn in_order<B: Backend>(
    backend: &B,
    mut parts: Vec<Placed<B::Tensor>>,
) -> Result<Option<B::Tensor>, NetError> {
    if parts.len() <= 1 && parts.iter().all(|(places, _)| places.is_sorted()) {
        return Ok(parts.pop().map(|(_, rows)| rows));
    }
    let mut rows: Vec<(usize, B::Tensor)> = Vec::new();
    for (places, part) in &parts {
        let own = places.iter().enumerate();
        rows.extend(own.map(|(at, &place)| (place, backend.select(part, at))));
    }
    rows.sort_by_key(|(place, _)| *place);
    let rows: Vec<B::Tensor> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(Some(backend.stack(&rows)?))
}
