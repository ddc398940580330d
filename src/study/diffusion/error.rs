//! Why a study cannot be run.

use std::path::{Path, PathBuf};

use crate::explain::diffusion::GenerateError;
use crate::folder::FolderError;
use crate::glyphs::GlyphError;
use crate::images::ImageError;
use crate::score::ScoreError;
use crate::study::tables::TablesError;
use crate::tensor::DeviceError;
use crate::weights::WeightsError;

/// Why a study cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The configuration asks for something that makes no sense.
    #[error("{file}: {what}")]
    Config { file: String, what: String },
    #[error("{}: expected an empty or new folder, found files in it: --resume goes on with an earlier study, --out names another folder", path.display())]
    Filled { path: PathBuf },
    #[error("{}: {what}", path.display())]
    File { path: PathBuf, what: String },
    #[error("{run}: {source}")]
    Generate {
        run: String,
        source: Box<GenerateError>,
    },
    #[error("{run}: {source}")]
    Score {
        run: String,
        source: Box<ScoreError>,
    },
    #[error("{run}, group {group}: no {column}: {why}")]
    NoScore {
        run: String,
        group: String,
        column: String,
        why: String,
    },
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Glyph(#[from] GlyphError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("{0}")]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Tables(#[from] Box<TablesError>),
    #[error("{0}")]
    Folder(#[from] FolderError),
}

pub type Result<T> = std::result::Result<T, StudyError>;

impl StudyError {
    pub(super) fn file(path: &Path, what: impl ToString) -> Self {
        Self::File {
            path: path.into(),
            what: what.to_string(),
        }
    }
}
