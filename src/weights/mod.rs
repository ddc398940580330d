//! The weights of networks: which are known, where they are, and that they are what they claim to be.
//!
//! [`Registry`] knows the cards ([`Card`]) of `weights/registry.toml` and of the user's `$FOIL_WEIGHTS` folder.
//! A card's file is looked for, in this order: inside the program; where the card says (a path); in
//! `$FOIL_WEIGHTS`; in foil's store (`$FOIL_HOME/weights`, filled by `foil weights import`); in the hub's cache;
//! on the hub. What is found is compared with its SHA-256, read without running code ([`formats`]), brought to
//! public tensor names and searched for NaN and infinities. What is not found is an error that says which file to
//! put where; nothing else is ever used in its place.
//!
//! ```no_run
//! let registry = foil::weights::Registry::open()?;
//! let card = registry.card("squeezenet1_1_caffe")?;
//! let weights = registry.load(&card)?;
//! println!("{} tensors, sha256 {}", weights.dict.len(), weights.sha256);
//! # Ok::<(), foil::weights::WeightsError>(())
//! ```

mod card;
mod checksum;
mod embedded;
mod error;
pub mod formats;
mod hub;
mod load;
mod locate;
mod lpips;
mod places;
mod preprocessing;
mod random;
mod registry;
mod store;
mod verify;

pub use card::{Alternative, Card, DiffusionConfig, HubFile, Role};
pub use checksum::{content_sha256, sha256};
pub use embedded::bytes as shipped_file;
pub use error::WeightsError;
pub use load::Loaded;
pub use locate::Location;
pub use lpips::{LpipsWeights, lpips_from_dict};
pub use places::{Hub, Places};
pub use preprocessing::{Channels, FILTERS, Preprocessing, Resize, ResizeTo};
pub use random::RandomWeights;
pub use registry::{Registry, Shipped};
pub use store::{Imported, Record};
