//! From stored pixels to a network's input: resize, crop, channel order, scale, mean and standard deviation.
//!
//! `input = (pixel · scale − mean) / std` per channel, after resize (Pillow's filters, 8-bit) and centre crop.

use serde::{Deserialize, Serialize, Serializer};

use crate::images::{self, Image, ImageError};
use crate::tensor::PixelPass;

/// Pillow's resampling filters.
pub const FILTERS: [&str; 6] = [
    "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos",
];
const LARGEST: usize = 16_384;

/// What happens to an image before a network sees it. The default is torchvision's for ImageNet: shorter side to
/// 256 (bilinear), centre crop 224, RGB in 0..1, ImageNet mean and standard deviation.
///
/// In a card, `resize = "none"` and `crop = "none"` turn a step off; who gives one of the two gives both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Given")]
pub struct Preprocessing {
    #[serde(serialize_with = "or_none")]
    pub resize: Option<Resize>,
    /// Height and width of the centre crop.
    #[serde(serialize_with = "or_none")]
    pub crop: Option<[usize; 2]>,
    pub channels: Channels,
    /// Factor of the stored 0..255 value: 1/255, or 1 for Caffe's networks.
    pub scale: f32,
    /// In the order of `channels`.
    pub mean: [f32; 3],
    /// In the order of `channels`.
    pub std: [f32; 3],
}

/// A resize step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    pub size: ResizeTo,
    /// One of [`FILTERS`].
    #[serde(default = "bilinear")]
    pub filter: String,
}

/// The size after resizing: `256` (shorter side, aspect kept) or `[260, 260]` (height, width).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResizeTo {
    ShorterSide(usize),
    Exact([usize; 2]),
}

impl ResizeTo {
    /// Height and width of what an image of this height and width becomes.
    pub fn of(self, [height, width]: [usize; 2]) -> [usize; 2] {
        match self {
            ResizeTo::Exact(size) => size,
            // torchvision: the shorter side becomes n, the other is cut to a whole number.
            ResizeTo::ShorterSide(n) if width <= height => [n * height / width.max(1), n],
            ResizeTo::ShorterSide(n) => [n, n * width / height.max(1)],
        }
    }
}

/// Order of the colour channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channels {
    #[default]
    Rgb,
    Bgr,
    /// One channel. Colour images become their luma first, as Pillow's `convert("L")`.
    Grey,
}

impl Default for Preprocessing {
    fn default() -> Self {
        Self {
            resize: Some(Resize {
                size: ResizeTo::ShorterSide(256),
                filter: bilinear(),
            }),
            crop: Some([224, 224]),
            channels: Channels::Rgb,
            scale: 1.0 / 255.0,
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
        }
    }
}

impl Preprocessing {
    /// Resizes and crops one image.
    pub fn fit(&self, image: &Image) -> Result<Image, ImageError> {
        let mut image = image.clone();
        if let Some(resize) = &self.resize {
            let filter = resize.filter.parse()?;
            let [height, width] = resize.size.of([image.height, image.width]);
            if [height, width] != [image.height, image.width] {
                image = images::resize(&image, width, height, filter);
            }
        }
        if self.channels == Channels::Grey {
            image.pixels = image.pixels.chunks_exact(3).flat_map(luma).collect();
        }
        match self.crop {
            Some([height, width]) => images::center_crop(&image, width, height),
            None => Ok(image),
        }
    }

    /// The passes of [`Preprocessing::fit`] for images of this height and width, where a device resizes and crops.
    pub fn passes(&self, size: [usize; 2]) -> Result<Vec<PixelPass>, ImageError> {
        let (to, filter) = match &self.resize {
            Some(resize) => (resize.size.of(size), resize.filter.parse()?),
            None => (size, images::Filter::Nearest),
        };
        let window = match self.crop {
            Some(crop) => images::Window::middle(to, crop)?,
            None => images::Window::whole(to),
        };
        Ok(images::passes(size, to, filter, window))
    }

    /// Which channels of an RGB image the network takes, in order.
    pub fn channel_order(&self) -> &'static [usize] {
        match self.channels {
            Channels::Rgb => &[0, 1, 2],
            Channels::Bgr => &[2, 1, 0],
            Channels::Grey => &[0],
        }
    }

    /// Height and width that reach the network, if they do not depend on the image.
    pub fn input_size(&self) -> Option<[usize; 2]> {
        self.crop.or(match self.resize {
            Some(Resize {
                size: ResizeTo::Exact(size),
                ..
            }) => Some(size),
            _ => None,
        })
    }
}

/// Pillow's luma (ITU-R 601 in 16 bits), in all three channels.
fn luma(rgb: &[u8]) -> [u8; 3] {
    let weights = [19595u32, 38470, 7471];
    let sum: u32 = rgb
        .iter()
        .zip(weights)
        .map(|(&v, w)| u32::from(v) * w)
        .sum();
    [((sum + 0x8000) >> 16) as u8; 3]
}

fn bilinear() -> String {
    "bilinear".into()
}

/// A step as a card gives it: a value, or the word "none".
#[derive(Deserialize)]
#[serde(untagged)]
enum Step<T> {
    Value(T),
    Word(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Crop {
    Square(usize),
    Exact([usize; 2]),
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Given {
    resize: Option<Step<Resize>>,
    crop: Option<Step<Crop>>,
    channels: Channels,
    scale: f32,
    mean: [f32; 3],
    std: [f32; 3],
}

impl Default for Given {
    fn default() -> Self {
        let Preprocessing {
            channels,
            scale,
            mean,
            std,
            ..
        } = Preprocessing::default();
        Self {
            resize: None,
            crop: None,
            channels,
            scale,
            mean,
            std,
        }
    }
}

impl TryFrom<Given> for Preprocessing {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        let default = Preprocessing::default();
        let (resize, crop) = match (given.resize, given.crop) {
            (None, None) => (default.resize, default.crop),
            (Some(resize), Some(crop)) => {
                let crop = chosen(crop, "crop")?.map(|crop| match crop {
                    Crop::Square(side) => [side; 2],
                    Crop::Exact(size) => size,
                });
                (chosen(resize, "resize")?, crop)
            }
            (Some(_), None) => return Err(alone("resize", "crop", "[224, 224]")),
            (None, Some(_)) => return Err(alone("crop", "resize", "{ size = 256 }")),
        };
        let checked = Self {
            resize,
            crop,
            channels: given.channels,
            scale: given.scale,
            mean: given.mean,
            std: given.std,
        };
        checked.check().map(|()| checked)
    }
}

fn chosen<T>(step: Step<T>, name: &str) -> Result<Option<T>, String> {
    match step {
        Step::Value(value) => Ok(Some(value)),
        Step::Word(word) if word == "none" => Ok(None),
        Step::Word(word) => Err(format!(
            "{name} = {word:?}: give a size, or \"none\" to leave this step out"
        )),
    }
}

fn alone(given: &str, missing: &str, example: &str) -> String {
    format!("`{given}` without `{missing}`: add {missing} = {example} or {missing} = \"none\"")
}

impl Preprocessing {
    fn check(&self) -> Result<(), String> {
        let side = |n: usize| (1..=LARGEST).contains(&n);
        let mut held = None;
        if let Some(Resize { size, filter }) = &self.resize {
            if !FILTERS.contains(&filter.as_str()) {
                return Err(format!(
                    "filter {filter:?} is not known; use {}",
                    FILTERS.join(", ")
                ));
            }
            let [h, w] = match *size {
                ResizeTo::ShorterSide(n) => [n; 2],
                ResizeTo::Exact(size) => size,
            };
            if !side(h) || !side(w) {
                return Err(format!("resize to {h}x{w}: sides go from 1 to {LARGEST}"));
            }
            held = Some([h, w]);
        }
        if let Some([h, w]) = self.crop {
            if !side(h) || !side(w) {
                return Err(format!("crop to {h}x{w}: sides go from 1 to {LARGEST}"));
            }
            if let Some([rh, rw]) = held.filter(|[rh, rw]| h > *rh || w > *rw) {
                return Err(format!(
                    "crop {h}x{w} is larger than what resize leaves ({rh}x{rw})"
                ));
            }
        }
        let numbers = [self.scale].into_iter().chain(self.mean).chain(self.std);
        if numbers.into_iter().any(|x| !x.is_finite()) {
            return Err("scale, mean and std must be finite".into());
        }
        if self.scale == 0.0 || self.std.iter().any(|&x| x <= 0.0) {
            return Err("scale must not be 0 and every std must be above 0".into());
        }
        Ok(())
    }
}

/// `None` is written as "none", which is how it is read.
fn or_none<T: Serialize, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => value.serialize(to),
        None => to.serialize_str("none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Preprocessing, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn nothing_given_is_torchvisions_imagenet() {
        assert_eq!(read("").unwrap(), Preprocessing::default());
    }

    #[test]
    fn steps_can_be_sized_and_left_out() {
        let exact = read("resize = { size = [260, 250], filter = \"bicubic\" }\ncrop = \"none\"");
        let exact = exact.unwrap();
        assert_eq!(exact.input_size(), Some([260, 250]));
        assert_eq!(exact.crop, None);
        let none = read("resize = \"none\"\ncrop = 224\nchannels = \"bgr\"").unwrap();
        assert_eq!(
            (none.resize, none.crop, none.channels),
            (None, Some([224; 2]), Channels::Bgr)
        );
    }

    #[test]
    fn networks_of_grey_images_see_the_luma() {
        let grey = read("resize = \"none\"\ncrop = \"none\"\nchannels = \"grey\"").unwrap();
        assert_eq!(grey.channel_order(), [0]);
        let image = Image {
            width: 3,
            height: 1,
            pixels: vec![255, 0, 0, 77, 77, 77, 0, 255, 0],
        };
        // Pillow's convert("L") of red, of a grey and of green.
        let fitted = grey.fit(&image).unwrap();
        assert_eq!(fitted.pixels, [76, 76, 76, 77, 77, 77, 150, 150, 150]);
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "",
            "resize = \"none\"\ncrop = \"none\"\nscale = 1.0",
            "resize = { size = [9, 8], filter = \"box\" }\ncrop = [8, 8]",
        ] {
            let before = read(text).unwrap();
            let json = serde_json::to_string(&before).unwrap();
            assert_eq!(
                serde_json::from_str::<Preprocessing>(&json).unwrap(),
                before
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("resize = { size = 256 }", "without `crop`"),
            ("crop = 224", "without `resize`"),
            ("crop = 224\nresize = \"no\"", "\"none\""),
            (
                "crop = 224\nresize = { size = 256, filter = \"cubic\" }",
                "bicubic",
            ),
            ("crop = 300\nresize = { size = 256 }", "larger"),
            ("crop = 0\nresize = { size = 256 }", "from 1"),
            ("std = [0.0, 1.0, 1.0]", "above 0"),
            ("means = [0.0, 1.0, 1.0]", "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
