//! Where weights are looked for on this machine.

use std::{env, path::PathBuf, time::Duration};

/// Folders and hub settings; [`Places::from_env`] reads them from the environment.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `$FOIL_WEIGHTS`: the user's folder of cards and files.
    pub folder: Option<PathBuf>,
    /// Where `foil weights import` puts files: `$FOIL_HOME/weights`, else `foil/weights` in the data folder of the
    /// user (`$XDG_DATA_HOME`, `~/.local/share`, `%LOCALAPPDATA%`).
    pub store: Option<PathBuf>,
    pub hub: Hub,
}

/// How the Hugging Face hub is reached.
#[derive(Clone)]
pub struct Hub {
    /// `$HF_HUB_CACHE`, `$HF_HOME/hub` or `~/.cache/huggingface/hub`.
    pub cache: Option<PathBuf>,
    /// `$HF_ENDPOINT` or the public hub.
    pub endpoint: String,
    /// `$HF_TOKEN`; without it the token file in `$HF_HOME` is used by hf-hub.
    pub token: Option<String>,
    /// Why the network must not be used, if it must not.
    pub offline: Option<String>,
    /// A transfer without a byte for so long is given up.
    pub patience: Duration,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("cache", &self.cache)
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("offline", &self.offline)
            .field("patience", &self.patience)
            .finish()
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            cache: None,
            endpoint: "https://huggingface.co".into(),
            token: None,
            offline: None,
            patience: Duration::from_secs(60),
        }
    }
}

impl Places {
    pub fn from_env() -> Self {
        let home = path("HOME").or_else(|| path("USERPROFILE"));
        let data = path("XDG_DATA_HOME")
            .or_else(|| path("LOCALAPPDATA"))
            .or_else(|| home.as_ref().map(|home| home.join(".local/share")));
        let store = match path("FOIL_HOME") {
            Some(home) => Some(home.join("weights")),
            None => data.map(|data| data.join("foil/weights")),
        };
        let cache = path("HF_HUB_CACHE")
            .or_else(|| path("HF_HOME").map(|home| home.join("hub")))
            .or_else(|| home.map(|home| home.join(".cache/huggingface/hub")));
        let mut hub = Hub {
            cache,
            token: text("HF_TOKEN"),
            ..Hub::default()
        };
        if let Some(endpoint) = text("HF_ENDPOINT") {
            hub.endpoint = endpoint.trim_end_matches('/').to_owned();
        }
        hub.offline = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
            .into_iter()
            .find(|name| is_on(name))
            .map(|name| format!("{name} is set"));
        Self {
            folder: path("FOIL_WEIGHTS"),
            store,
            hub,
        }
    }

    /// The same without the network.
    pub fn offline(mut self) -> Self {
        self.hub.offline = Some("--offline".into());
        self
    }
}

fn text(name: &str) -> Option<String> {
    let value = env::var(name).ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The words that huggingface_hub takes for true.
fn is_on(name: &str) -> bool {
    let value = text(name).unwrap_or_default().to_ascii_lowercase();
    ["1", "true", "yes", "on"].contains(&value.as_str())
}
