//! The hub path against a server on the loopback interface: download, cache, offline, failures.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foil::tensor::{Array, StateDict};
use foil::weights::formats::write_safetensors;
use foil::weights::{Card, Hub, Location, Places, Registry, sha256};
use tempfile::TempDir;

#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// As the hub answers.
    Good,
    /// Other bytes than the ETag states.
    Forged,
    NotFound,
    /// Hangs up after the headers and half of the file.
    Short,
    /// Says nothing.
    Silent,
    /// A redirect to nowhere.
    Senseless,
}

/// A server that lives as long as the test process.
struct Server {
    endpoint: String,
    requests: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
}

fn serve(answer: Answer, file: Vec<u8>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server {
        endpoint: format!("http://{}", listener.local_addr().unwrap()),
        requests: Arc::new(AtomicUsize::new(0)),
        heads: Arc::new(Mutex::new(Vec::new())),
    };
    let (requests, heads) = (Arc::clone(&server.requests), Arc::clone(&server.heads));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            requests.fetch_add(1, Ordering::SeqCst);
            let head = head_of(&stream);
            heads.lock().unwrap().push(head.clone());
            let _ = respond(stream, &head, answer, &file);
        }
    });
    server
}

fn head_of(stream: &TcpStream) -> String {
    let mut head = String::new();
    let mut lines = BufReader::new(stream);
    while lines.read_line(&mut head).is_ok_and(|n| n > 2) {}
    head
}

fn respond(mut out: TcpStream, head: &str, answer: Answer, file: &[u8]) -> std::io::Result<()> {
    let wanted = head.starts_with("GET /owner/name/resolve/main/net.safetensors ");
    match answer {
        Answer::Silent => {
            std::thread::sleep(Duration::from_secs(5));
            return Ok(());
        }
        Answer::Senseless => {
            return out.write_all(
                b"HTTP/1.1 302 Found\r\nETag: \"x\"\r\nX-Repo-Commit: c\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
        _ if answer == Answer::NotFound || !wanted => {
            return out.write_all(
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
        _ => {}
    }
    let range = head
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("range: bytes=")
                .map(str::to_owned)
        })
        .unwrap_or("0-".into());
    let (first, last) = range.split_once('-').unwrap();
    let first: usize = first.parse().unwrap();
    let last = last.parse().map_or(file.len(), |last: usize| last + 1);
    let etag = match answer {
        Answer::Forged => sha256(b"something else"),
        _ => sha256(file),
    };
    let part = &file[first..last.min(file.len())];
    write!(
        out,
        "HTTP/1.1 206 Partial Content\r\nETag: \"{etag}\"\r\nX-Repo-Commit: 0123abc\r\n\
         Content-Range: bytes {first}-{}/{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        last - 1,
        file.len(),
        part.len()
    )?;
    let sent = if answer == Answer::Short && part.len() > 1 {
        &part[..part.len() / 2]
    } else {
        part
    };
    out.write_all(sent)
}

struct Client {
    home: TempDir,
    places: Places,
}

fn client(endpoint: &str) -> Client {
    let home = tempfile::tempdir().unwrap();
    let places = Places {
        hub: Hub {
            cache: Some(home.path().join("hub")),
            endpoint: endpoint.into(),
            ..Hub::default()
        },
        ..Places::default()
    };
    Client { home, places }
}

impl Client {
    fn registry(&self) -> Registry {
        Registry::at(self.places.clone()).unwrap()
    }

    fn card(&self, more: &str) -> Card {
        let path = self.home.path().join("net.toml");
        let text = format!(
            "name = \"net\"\narchitecture = \"resnet18\"\nfile = \"net.safetensors\"\n\
             hub = {{ repo = \"owner/name\", file = \"net.safetensors\" }}\n{more}\n"
        );
        fs::write(&path, text).unwrap();
        Card::read(&path).unwrap()
    }
}

fn network() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let mut dict = StateDict::new();
    dict.insert("w", Array::new([1000], vec![0.25; 1000]).unwrap());
    write_safetensors(&dict, &path, &BTreeMap::new()).unwrap();
    fs::read(path).unwrap()
}

#[test]
fn a_file_is_downloaded_once_and_then_taken_from_the_cache() {
    let server = serve(Answer::Good, network());
    let mut client = client(&server.endpoint);
    client.places.hub.token = Some("a-word".into());
    let card = client.card("");
    let registry = client.registry();
    assert!(registry.find(&card).unwrap().is_none());
    let loaded = registry.load(&card).unwrap();
    assert_eq!(loaded.sha256, sha256(&network()));
    assert_eq!(loaded.dict.get("w").unwrap().len(), 1000);
    let asked = server.requests.load(Ordering::SeqCst);
    assert!(asked >= 2);
    for head in server.heads.lock().unwrap().iter() {
        assert!(head.contains("Authorization: Bearer a-word"), "{head}");
        assert!(head.contains("foil/"), "{head}");
    }
    // The layout is the one of the Python client.
    let kept = client
        .home
        .path()
        .join("hub/models--owner--name/snapshots/0123abc/net.safetensors");
    assert_eq!(fs::read(&kept).unwrap(), network());
    assert_eq!(registry.find(&card).unwrap(), Some(Location::Hub(kept)));
    registry.load(&card).unwrap();
    assert_eq!(server.requests.load(Ordering::SeqCst), asked);
}

#[test]
fn offline_uses_the_cache_and_never_the_network() {
    let server = serve(Answer::Good, network());
    let client = client(&server.endpoint);
    let card = client.card("");
    let offline = Registry::at(client.places.clone().offline()).unwrap();
    let error = offline.load(&card).unwrap_err().to_string();
    assert!(
        error.contains("--offline") && error.contains("net.safetensors"),
        "{error}"
    );
    assert_eq!(server.requests.load(Ordering::SeqCst), 0);
    client.registry().get(&card).unwrap();
    assert_eq!(offline.load(&card).unwrap().dict.len(), 1);
}

#[test]
fn a_commit_without_a_reference_is_found_in_the_cache() {
    let client = client("http://127.0.0.1:9");
    let card = client.card("");
    let folder = client
        .home
        .path()
        .join("hub/models--owner--name/snapshots/main");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("net.safetensors"), network()).unwrap();
    assert_eq!(client.registry().load(&card).unwrap().dict.len(), 1);
}

#[test]
fn a_file_beside_the_card_comes_before_the_hub() {
    let server = serve(Answer::Good, network());
    let client = client(&server.endpoint);
    let card = client.card("");
    fs::write(client.home.path().join("net.safetensors"), network()).unwrap();
    client.registry().load(&card).unwrap();
    assert_eq!(server.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn forged_content_is_refused() {
    let wrong = sha256(b"what the card wants");
    for (answer, more) in [
        (Answer::Forged, String::new()),
        (Answer::Good, format!("sha256 = \"{wrong}\"")),
    ] {
        let server = serve(answer, network());
        let client = client(&server.endpoint);
        let card = client.card(&more);
        let error = client.registry().load(&card).unwrap_err().to_string();
        assert!(error.contains("expected sha256"), "{error}");
        assert!(error.contains(&sha256(&network())), "{error}");
    }
}

#[test]
fn a_server_that_fails_is_an_error_that_names_the_address() {
    for answer in [Answer::NotFound, Answer::Short, Answer::Senseless] {
        let server = serve(answer, network());
        let client = client(&server.endpoint);
        let card = client.card("");
        let error = client.registry().load(&card).unwrap_err().to_string();
        let address = format!(
            "{}/owner/name/resolve/main/net.safetensors",
            server.endpoint
        );
        assert!(error.contains(&address), "{error}");
        assert!(client.registry().find(&card).unwrap().is_none());
    }
}

#[test]
fn an_interrupted_download_is_continued() {
    let file = network();
    let server = serve(Answer::Short, file.clone());
    let mut client = client(&server.endpoint);
    let card = client.card("");
    assert!(client.registry().load(&card).is_err());
    let server = serve(Answer::Good, file.clone());
    client.places.hub.endpoint = server.endpoint.clone();
    assert_eq!(client.registry().load(&card).unwrap().sha256, sha256(&file));
    let resumed = format!("bytes={}-", file.len() / 2);
    let heads = server.heads.lock().unwrap();
    assert!(
        heads.iter().any(|head| head.contains(&resumed)),
        "{heads:?}"
    );
}

#[test]
fn a_silent_server_is_given_up() {
    let server = serve(Answer::Silent, network());
    let mut client = client(&server.endpoint);
    client.places.hub.patience = Duration::from_millis(400);
    let card = client.card("");
    let start = Instant::now();
    let error = client.registry().load(&card).unwrap_err().to_string();
    assert!(error.contains("no byte arrived"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn no_server_and_no_address_are_errors() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    for endpoint in [endpoint.as_str(), "ftp://127.0.0.1"] {
        let client = client(endpoint);
        let error = client.registry().load(&client.card("")).unwrap_err();
        assert!(error.to_string().contains(endpoint), "{error}");
    }
    let mut client = client("http://127.0.0.1:9");
    client.places.hub.cache = None;
    let error = client.registry().load(&client.card("")).unwrap_err();
    assert!(error.to_string().contains("HF_HOME"), "{error}");
}

/// The server speaks no TLS; what matters is that the client does.
#[test]
fn https_is_spoken() {
    let server = serve(Answer::Good, network());
    let client = client(&server.endpoint.replace("http:", "https:"));
    let error = client.registry().load(&client.card("")).unwrap_err();
    let error = error.to_string().to_ascii_lowercase();
    assert!(!error.contains("no tls backend"), "{error}");
    assert!(server.requests.load(Ordering::SeqCst) >= 1, "{error}");
}
