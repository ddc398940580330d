//! The inert values of a [`Pickle`], and questions about them: is this a text, a list of sizes, a
//! dictionary, some bytes? Dictionaries and byte strings come in several disguises.

use std::borrow::Cow;

/// Position of a node in its [`Pickle`].
pub(super) type Id = u32;

/// One inert value.
#[derive(Debug)]
pub(super) enum Node<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer beyond 64 bits, little-endian two's complement.
    Big(#[allow(dead_code, reason = "kept so that the value can be told apart")] &'a [u8]),
    Float(#[allow(dead_code, reason = "no tensor needs a float argument")] f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// `str` of Python 2: text or bytes, as the reader needs it.
    OldStr(&'a [u8]),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// An imported name. Only a name.
    Global {
        module: &'a str,
        name: &'a str,
    },
    /// An object kept outside of the pickle (torch storages).
    Persistent(Id),
    Call(Box<Call>),
}

/// A call or object construction that the file asked for and that did not happen.
#[derive(Debug)]
pub(super) struct Call {
    pub callable: Id,
    /// A tuple.
    pub args: Id,
    /// What `BUILD` would have passed to `__setstate__`.
    pub state: Option<Id>,
    /// What `SETITEM(S)` would have stored.
    pub items: Vec<(Id, Id)>,
}

/// The nodes of one pickle.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    pub nodes: Vec<Node<'a>>,
    pub root: Id,
}

impl<'a> Pickle<'a> {
    pub fn node(&self, id: Id) -> &Node<'a> {
        &self.nodes[id as usize]
    }

    pub fn text(&self, id: Id) -> Option<&'a str> {
        match *self.node(id) {
            Node::Text(text) => Some(text),
            Node::OldStr(raw) => std::str::from_utf8(raw).ok(),
            _ => None,
        }
    }

    pub fn int(&self, id: Id) -> Option<i64> {
        match *self.node(id) {
            Node::Int(value) => Some(value),
            Node::Bool(value) => Some(value.into()),
            _ => None,
        }
    }

    pub fn size(&self, id: Id) -> Option<usize> {
        usize::try_from(self.int(id)?).ok()
    }

    /// Elements of a list or tuple.
    pub fn sequence(&self, id: Id) -> Option<&[Id]> {
        match self.node(id) {
            Node::List(parts) | Node::Tuple(parts) => Some(parts),
            _ => None,
        }
    }

    pub fn call(&self, id: Id) -> Option<&Call> {
        match self.node(id) {
            Node::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Module and name of an imported name.
    pub fn global(&self, id: Id) -> Option<(&'a str, &'a str)> {
        match *self.node(id) {
            Node::Global { module, name } => Some((module, name)),
            _ => None,
        }
    }

    /// A call of an imported name: module, name, arguments.
    pub fn named_call(&self, id: Id) -> Option<(&'a str, &'a str, &[Id])> {
        let call = self.call(id)?;
        let (module, name) = self.global(call.callable)?;
        Some((module, name, self.sequence(call.args)?))
    }

    /// A sequence of non-negative integers, also as `torch.Size`.
    pub fn sizes(&self, id: Id) -> Option<Vec<usize>> {
        let inner = match self.named_call(id) {
            Some(("torch", "Size", &[inner])) => inner,
            _ => id,
        };
        self.sequence(inner)?
            .iter()
            .map(|&part| self.size(part))
            .collect()
    }

    /// Key-value pairs of a dictionary: a plain one, or a `collections.OrderedDict`,
    /// `defaultdict` or `dict` built from pairs.
    pub fn pairs(&self, id: Id) -> Option<Cow<'_, [(Id, Id)]>> {
        if let Node::Dict(pairs) = self.node(id) {
            return Some(Cow::Borrowed(pairs));
        }
        let call = self.call(id)?;
        let (module, name) = self.global(call.callable)?;
        if !matches!(
            (module, name),
            ("collections", "OrderedDict" | "defaultdict")
                | ("builtins" | "__builtin__", "dict")
                | ("torch.jit._pickle", "build_dict")
        ) {
            return None;
        }
        let mut pairs = Vec::new();
        for &arg in self.sequence(call.args)? {
            match self.node(arg) {
                Node::Dict(inner) => pairs.extend_from_slice(inner),
                Node::List(parts) | Node::Tuple(parts) => {
                    for &part in parts {
                        let &[key, value] = self.sequence(part)? else {
                            return None;
                        };
                        pairs.push((key, value));
                    }
                }
                _ => {} // the factory of a defaultdict
            }
        }
        pairs.extend_from_slice(&call.items);
        Some(Cow::Owned(pairs))
    }

    /// Value of a text key.
    pub fn value(&self, pairs: &[(Id, Id)], key: &str) -> Option<Id> {
        pairs
            .iter()
            .find(|&&(k, _)| self.text(k) == Some(key))
            .map(|&(_, value)| value)
    }

    /// A byte string: as such, as `str` of Python 2, as `_codecs.encode(text, "latin1")` (how
    /// Python 3 writes bytes in protocol 2), or as `bytearray`/`bytes` of one of these.
    pub fn bytes(&self, id: Id) -> Option<Cow<'a, [u8]>> {
        match *self.node(id) {
            Node::Bytes(bytes) | Node::OldStr(bytes) => return Some(Cow::Borrowed(bytes)),
            _ => {}
        }
        match self.named_call(id)? {
            ("_codecs", "encode", &[text, ref codec @ ..]) => {
                let codec = codec.first().map_or(Some("utf-8"), |&c| self.text(c))?;
                let text = self.text(text)?;
                match codec {
                    "latin1" | "latin-1" | "iso-8859-1" => latin1(text).map(Cow::Owned),
                    "utf-8" | "utf8" | "ascii" => Some(Cow::Borrowed(text.as_bytes())),
                    _ => None,
                }
            }
            ("builtins" | "__builtin__", "bytes" | "bytearray", args) => match *args {
                [] => Some(Cow::Borrowed(&[])),
                [inner] => match *self.node(inner) {
                    Node::Bytes(bytes) | Node::OldStr(bytes) => Some(Cow::Borrowed(bytes)),
                    _ => None,
                },
                // bytearray of Python 2 and 3 in protocol 2: (text, "latin-1")
                [text, codec] => match self.text(codec)? {
                    "latin1" | "latin-1" => latin1(self.text(text)?).map(Cow::Owned),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// What kind of thing this is, for messages.
    pub fn describe(&self, id: Id) -> String {
        match self.node(id) {
            Node::None => "None".into(),
            Node::Bool(_) => "a truth value".into(),
            Node::Int(_) | Node::Big(_) => "an integer".into(),
            Node::Float(_) => "a float".into(),
            Node::Text(_) | Node::Bytes(_) | Node::OldStr(_) => "text or bytes".into(),
            Node::List(_) => "a list".into(),
            Node::Tuple(_) => "a tuple".into(),
            Node::Dict(pairs) => {
                let keys: Vec<String> = pairs
                    .iter()
                    .take(5)
                    .filter_map(|&(key, _)| Some(super::error::shorten(self.text(key)?)))
                    .collect();
                format!("a dictionary with keys {keys:?}…")
            }
            Node::Global { module, name } => format!("the name {module}.{name}"),
            Node::Persistent(_) => "a bare storage".into(),
            Node::Call(call) => match self.global(call.callable) {
                Some((module, name)) => format!("an object of {module}.{name}"),
                None => "an object".into(),
            },
        }
    }
}

/// Characters 0–255 back to bytes.
fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c as u32).ok()).collect()
}
