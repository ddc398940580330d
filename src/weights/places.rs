//! Where weights are looked for on this machine.

use std::{env, ffi::OsString, path::PathBuf, time::Duration};

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
    /// Whether a progress bar may be drawn (on a terminal).
    pub progress: bool,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("cache", &self.cache)
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("offline", &self.offline)
            .field("patience", &self.patience)
            .field("progress", &self.progress)
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
            progress: true,
        }
    }
}

impl Places {
    pub fn from_env() -> Self {
        Self::from_variables(&|name| env::var_os(name))
    }

    fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let text = |name: &str| {
            let value = variable(name)?.into_string().ok()?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        // The words that huggingface_hub takes for true.
        let is_on = |name: &&str| {
            let value = text(name).unwrap_or_default().to_ascii_lowercase();
            ["1", "true", "yes", "on"].contains(&value.as_str())
        };
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
        let default = Hub::default();
        let endpoint = text("HF_ENDPOINT").map(|text| text.trim_end_matches('/').to_owned());
        let hub = Hub {
            cache,
            endpoint: endpoint.unwrap_or(default.endpoint.clone()),
            token: text("HF_TOKEN"),
            offline: ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
                .into_iter()
                .find(is_on)
                .map(|name| format!("{name} is set")),
            ..default
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> Places {
        Places::from_variables(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn folders_come_from_the_most_specific_variable() {
        let plain = places(&[("HOME", "/h")]);
        assert_eq!(plain.store, Some("/h/.local/share/foil/weights".into()));
        assert_eq!(plain.hub.cache, Some("/h/.cache/huggingface/hub".into()));
        assert_eq!(plain.hub.endpoint, "https://huggingface.co");
        assert!(plain.folder.is_none() && plain.hub.offline.is_none());
        let given = places(&[
            ("HOME", "/h"),
            ("XDG_DATA_HOME", "/x"),
            ("FOIL_HOME", "/f"),
            ("FOIL_WEIGHTS", "/w"),
            ("HF_HOME", "/hf"),
            ("HF_ENDPOINT", "http://127.0.0.1:1/"),
        ]);
        assert_eq!(given.store, Some("/f/weights".into()));
        assert_eq!(given.folder, Some("/w".into()));
        assert_eq!(given.hub.cache, Some("/hf/hub".into()));
        assert_eq!(given.hub.endpoint, "http://127.0.0.1:1");
        let cache = places(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/c")])
            .hub
            .cache;
        assert_eq!(cache, Some("/c".into()));
        let empty = places(&[
            ("XDG_DATA_HOME", "/x"),
            ("FOIL_HOME", ""),
            ("FOIL_WEIGHTS", ""),
        ]);
        assert_eq!(empty.store, Some("/x/foil/weights".into()));
        assert!(empty.folder.is_none());
    }

    #[test]
    fn offline_is_what_the_python_client_takes_for_true() {
        for name in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"] {
            for (value, offline) in [("1", true), ("ON", true), ("0", false), ("", false)] {
                let hub = places(&[(name, value)]).hub;
                assert_eq!(hub.offline.is_some(), offline, "{name}={value}");
            }
        }
    }

    #[test]
    fn a_token_is_not_shown_in_debug_output() {
        let shown = format!("{:?}", places(&[("HF_TOKEN", "secret")]));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
