//! A result: a PNG, and beside it a record of how it was made.

use std::path::{Path, PathBuf};

use image::ImageEncoder;
use image::codecs::png::PngEncoder;
use serde::{Deserialize, Serialize};

use super::{GenerateError, Result, Task};
use crate::diffusion::Guided;
use crate::folder::write_whole;
use crate::weights::sha256;

/// What was met on the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Met {
    /// Smallest, mean and largest angle between the two gradients, in degrees.
    pub angles: Option<[f64; 3]>,
    /// Steps with an angle.
    pub angled: usize,
    /// Steps that went without guidance, because a gradient was zero or not a number.
    pub unguided: usize,
    /// Steps in which the robust classifier's gradient was, so that the explained one's was taken alone.
    #[serde(default)]
    pub without_robust: usize,
    /// Log-probability of the target in the first and the last step, at what the classifier looked at; of the last attempt
    /// of a search.
    pub log_probability: Option<[f64; 2]>,
    /// Weight of the classifier's gradient in the last attempt of a search for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
}

impl Met {
    /// Takes note of image `i` of a step.
    pub fn add(&mut self, step: &Guided, i: usize) {
        if let Some(angle) = step.angles[i] {
            let n = self.angled as f64;
            let [low, mean, high] = self.angles.unwrap_or([angle; 3]);
            self.angles = Some([
                low.min(angle),
                (mean * n + angle) / (n + 1.0),
                high.max(angle),
            ]);
            self.angled += 1;
        }
        self.unguided += usize::from(step.without[i]);
        self.without_robust += usize::from(step.without_robust[i]);
        self.told(step.log_probability[i]);
    }

    /// Takes note of what the classifier says of the target.
    pub fn told(&mut self, now: f64) {
        if now.is_finite() {
            self.log_probability = Some([self.log_probability.map_or(now, |l| l[0]), now]);
        }
    }
}

/// How a counterfactual was made and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub settings: serde_json::Value,
    /// Path of the original below its folder, without extension; the noise belongs to it.
    pub original: String,
    /// Of the original's file.
    pub original_sha256: String,
    pub sample: usize,
    pub target: usize,
    /// Class and probability by the classifier, of the original and of the counterfactual as it is stored; none where it gives
    /// no numbers.
    pub before: Option<(usize, f64)>,
    pub after: Option<(usize, f64)>,
    /// 0 where it gives no numbers.
    pub target_probability: f64,
    /// The classifier calls it the target, and: it called the original something else.
    pub reached: bool,
    pub flipped: bool,
    /// Not kept, because the classifier does not call it the target.
    pub rejected: bool,
    /// Of the image, unless it was rejected.
    pub image_sha256: Option<String>,
    /// Mean absolute difference to the original, of values from −1 to 1.
    pub change: f64,
    /// Share of values beyond the range of pixels, which were cut off.
    pub out_of_range: f64,
    pub met: Met,
}

/// Where a result lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub image: PathBuf,
    record: PathBuf,
    sample: usize,
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub at: Place,
    pub record: Record,
}

impl Made {
    /// What a user should know of it.
    pub fn note(&self) -> Option<String> {
        let Met {
            unguided,
            without_robust,
            ..
        } = self.record.met;
        let mut said = Vec::new();
        let mut steps = |count: usize, what: &str| match count {
            0 => {}
            1 => said.push(format!("1 step {what}")),
            n => said.push(format!("{n} steps {what}")),
        };
        steps(
            unguided,
            "without guidance, where a gradient was zero or not a number",
        );
        steps(
            without_robust,
            "without the robust classifier, whose gradient was zero or not a number",
        );
        if self.record.before.is_none() {
            said.push("the classifier gives no numbers for the original".into());
        }
        if self.record.after.is_none() {
            said.push(
                "the classifier gives no numbers for the result, so that it counts as not reached"
                    .into(),
            );
        }
        let image = self.at.image.display();
        (!said.is_empty()).then(|| format!("{image}: {}", said.join("; ")))
    }
}

impl Place {
    /// Of a result of this name.
    pub fn new(out: &Path, name: &str, sample: usize, samples: usize) -> Self {
        let stem = match samples {
            1 => name.to_owned(),
            _ => format!("{name}.{sample}"),
        };
        Self {
            image: out.join(format!("{stem}.png")),
            record: out.join(format!("{stem}.json")),
            sample,
        }
    }

    /// The target that the record of an earlier run states, if there is one.
    pub fn recorded_target(&self) -> Option<usize> {
        let text = std::fs::read(&self.record).ok()?;
        let record: Record = serde_json::from_slice(&text).ok()?;
        Some(record.target)
    }

    /// The record of an earlier run of the same settings and the same original; one of others is an error.
    pub fn earlier(
        &self,
        settings: &serde_json::Value,
        task: &Task,
        original_sha256: &str,
    ) -> Result<Option<Record>> {
        let text = std::fs::read(&self.record);
        if !self.image.exists() && text.is_err() {
            return Ok(None);
        }
        let Ok(text) = text else {
            return Err(GenerateError::File {
                path: self.image.clone(),
                what: "there is an image, but no record of how it was made: name another --out"
                    .into(),
            });
        };
        let wrong = |what: String| GenerateError::File {
            path: self.record.clone(),
            what,
        };
        let record: Record = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("not a record of foil generate: {error}")))?;
        let same = record.settings == *settings
            && (record.sample, record.target) == (self.sample, task.target)
            && record.original == task.noise;
        if !same {
            return Err(wrong(
                "made with other settings, networks or targets: give the same ones, or another --out"
                    .into(),
            ));
        }
        if record.original_sha256 != original_sha256 {
            return Err(wrong(format!(
                "the original {} is another one now than when this was made: bring it back, remove this record and its \
                 image to make them anew, or name another --out",
                task.original.display()
            )));
        }
        // The record is written first: without its image the work was interrupted.
        let Some(expected) = &record.image_sha256 else {
            return Ok(Some(record));
        };
        match std::fs::read(&self.image) {
            Ok(bytes) if sha256(&bytes) == *expected => Ok(Some(record)),
            Ok(_) => Err(GenerateError::File {
                path: self.image.clone(),
                what: "not the image that was made: it is damaged or was changed; remove it to make it anew".into(),
            }),
            Err(_) => Ok(None),
        }
    }

    /// Writes the record, then the image: an image that is there is whole. A rejected one leaves its record only.
    pub fn write(&self, pixels: &[u8], size: usize, mut record: Record) -> Result<Record> {
        let fail = |path: &Path, error: String| GenerateError::File {
            path: path.to_owned(),
            what: format!("cannot write: {error}"),
        };
        let mut png = Vec::new();
        if !record.rejected {
            let side = size as u32;
            PngEncoder::new(&mut png)
                .write_image(pixels, side, side, image::ExtendedColorType::Rgb8)
                .map_err(|e| fail(&self.image, e.to_string()))?;
            record.image_sha256 = Some(sha256(&png));
        }
        if let Some(folder) = self.image.parent() {
            std::fs::create_dir_all(folder).map_err(|e| fail(folder, e.to_string()))?;
        }
        let text = serde_json::to_string_pretty(&record);
        let text = text.map_err(|e| fail(&self.record, e.to_string()))? + "\n";
        write_whole(&self.record, text.as_bytes())?;
        if !record.rejected {
            write_whole(&self.image, &png)?;
        }
        Ok(record)
    }
}
