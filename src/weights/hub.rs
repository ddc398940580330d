//! Files of the Hugging Face hub: its cache on disk, and download through hf-hub's synchronous client.
//!
//! The cache has the layout of the Python client (`models--owner--name/{blobs,refs,snapshots}`), so both share it.

use std::path::{Path, PathBuf};

use super::card::HubFile;
use super::error::{Result, WeightsError};
use super::places::Hub;

/// The file in the cache, if it is there.
pub(super) fn cached(hub: &Hub, wanted: &HubFile) -> Option<PathBuf> {
    let folder = format!("models--{}", wanted.repo).replace('/', "--");
    let repo = hub.cache.as_ref()?.join(folder);
    let at_ref = std::fs::read_to_string(repo.join("refs").join(&wanted.revision));
    let commit = at_ref.map_or(wanted.revision.clone(), |text| text.trim().to_owned());
    let path = repo.join("snapshots").join(commit).join(&wanted.file);
    path.is_file().then_some(path)
}

/// The SHA-256 that the hub itself states for a cached file: large files are stored under it.
pub(super) fn stated_sha256(path: &Path) -> Option<String> {
    let blob = std::fs::canonicalize(path).ok()?;
    let name = blob.file_name()?.to_str()?;
    let digits = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    (name.len() == 64 && name.chars().all(digits)).then(|| name.to_owned())
}

/// Where the file is on the hub, for people.
pub(super) fn address(hub: &Hub, wanted: &HubFile) -> String {
    format!(
        "{}/{}/resolve/{}/{}",
        hub.endpoint, wanted.repo, wanted.revision, wanted.file
    )
}

/// Downloads into the cache.
#[cfg(feature = "hub")]
pub(super) fn download(hub: &Hub, wanted: &HubFile) -> Result<PathBuf> {
    let failed = |reason: String, todo: &str| WeightsError::Hub {
        address: address(hub, wanted),
        reason,
        todo: todo.into(),
    };
    let Some(cache) = hub.cache.clone() else {
        return Err(failed(
            "there is no folder to keep it in".into(),
            "Set HF_HOME to a folder",
        ));
    };
    if !hub.endpoint.starts_with("https://") && !hub.endpoint.starts_with("http://") {
        return Err(failed(
            "its address is not http(s)".into(),
            "Correct HF_ENDPOINT",
        ));
    }
    transfer::run(hub, wanted, cache).map_err(|reason| {
        failed(
            reason,
            "Check the network, HF_ENDPOINT, HF_TOKEN (for private files) and proxy settings; what was transferred \
             is kept and continued",
        )
    })
}

/// Says that this build cannot.
#[cfg(not(feature = "hub"))]
pub(super) fn download(hub: &Hub, wanted: &HubFile) -> Result<PathBuf> {
    Err(WeightsError::Hub {
        address: address(hub, wanted),
        reason: "this build of foil has no hub support".into(),
        todo: "Build it with the feature `hub`, or fetch the file yourself".into(),
    })
}

#[cfg(feature = "hub")]
mod transfer {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    use hf_hub::api::{Progress, sync::ApiBuilder};
    use hf_hub::{Cache, Repo, RepoType};
    use indicatif::ProgressBar;

    use super::{Hub, HubFile};

    /// A progress bar (on a terminal) that also counts signs of life.
    struct Watched {
        bar: ProgressBar,
        life: Arc<AtomicU64>,
    }

    impl Progress for Watched {
        fn init(&mut self, size: usize, file: &str) {
            self.bar.init(size, file);
        }

        fn update(&mut self, bytes: usize) {
            self.life.fetch_add(1, Ordering::Relaxed);
            self.bar.inc(bytes as u64);
        }

        fn finish(&mut self) {
            self.bar.finish_and_clear();
        }
    }

    /// hf-hub sets no read timeout, so the transfer runs in a thread of its own that is left behind if it stalls.
    pub fn run(hub: &Hub, wanted: &HubFile, cache: PathBuf) -> Result<PathBuf, String> {
        let mut builder = ApiBuilder::from_cache(Cache::new(cache))
            .with_endpoint(hub.endpoint.clone())
            .with_user_agent("foil", env!("CARGO_PKG_VERSION"));
        if hub.token.is_some() {
            builder = builder.with_token(hub.token.clone());
        }
        let api = builder.build().map_err(|error| error.to_string())?;
        let repo = Repo::with_revision(
            wanted.repo.clone(),
            RepoType::Model,
            wanted.revision.clone(),
        );
        let (file, life) = (wanted.file.clone(), Arc::new(AtomicU64::new(0)));
        let watched = Watched {
            bar: if hub.progress {
                ProgressBar::new(0)
            } else {
                ProgressBar::hidden()
            },
            life: Arc::clone(&life),
        };
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = send.send(api.repo(repo).download_with_progress(&file, watched));
        });
        let (mut seen, mut since) = (0, Instant::now());
        let pause = (hub.patience / 4).min(Duration::from_secs(1));
        loop {
            match receive.recv_timeout(pause) {
                Ok(done) => return done.map_err(|error| error.to_string()),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err("the server's answer makes no sense".into());
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let now = life.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() >= hub.patience {
                return Err(format!("no byte arrived for {:?}", hub.patience));
            }
        }
    }
}
