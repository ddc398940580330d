//! Weight files of every format, cards, the store, the hub and `foil weights`.

mod cli;
mod formats;
mod hostile;
#[cfg(feature = "hub")]
mod hub;
mod real_formats;
mod real_import;
mod registry;
mod store;
