//! The graph of an ONNX file: its nodes and constants.

use std::collections::HashMap;

use super::protobuf::{Content, fields, varint};

/// Shape and values.
type Tensor = (Vec<usize>, Vec<f64>);

pub struct Graph {
    pub nodes: Vec<Node>,
    pub input: String,
    pub output: String,
    constants: HashMap<String, Tensor>,
}

#[derive(Default)]
pub struct Node {
    pub operation: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    attributes: HashMap<String, Attribute>,
}

#[derive(Default)]
struct Attribute {
    float: Option<f64>,
    int: Option<i64>,
    text: Option<String>,
    tensor: Option<Tensor>,
    floats: Vec<f64>,
    ints: Vec<i64>,
    strings: Vec<String>,
}

impl Node {
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attributes.get(name)?.int
    }

    pub fn float(&self, name: &str) -> Option<f64> {
        self.attributes.get(name)?.float
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.attributes.get(name)?.text.clone()
    }

    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        Some(self.attributes.get(name)?.ints.clone())
    }

    pub fn strings(&self, name: &str) -> Option<&[String]> {
        Some(&self.attributes.get(name)?.strings)
    }

    /// A list of numbers, or the same in double precision under `NAME_as_tensor`.
    pub fn floats(&self, name: &str) -> Option<Vec<f64>> {
        if let Some(tensor) = self.attributes.get(&format!("{name}_as_tensor")) {
            return tensor.tensor.as_ref().map(|(_, v)| v.clone());
        }
        Some(self.attributes.get(name)?.floats.clone())
    }
}

impl Graph {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let model = fields(bytes)?;
        let graph = model.iter().find_map(|(number, content)| match content {
            Content::Bytes(b) if *number == 7 => Some(*b),
            _ => None,
        })?;
        let mut found = Self {
            nodes: Vec::new(),
            input: String::new(),
            output: String::new(),
            constants: HashMap::new(),
        };
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (number, content) in fields(graph)? {
            let Content::Bytes(bytes) = content else {
                continue;
            };
            match number {
                1 => found.nodes.push(node(bytes)?),
                5 => {
                    let (name, shape, values) = tensor(bytes)?;
                    found.constants.insert(name, (shape, values));
                }
                11 => inputs.push(name_of(bytes)?),
                12 => outputs.push(name_of(bytes)?),
                _ => {}
            }
        }
        let constants: Vec<(String, Tensor)> = found
            .nodes
            .iter()
            .filter(|n| n.operation == "Constant")
            .filter_map(|n| {
                let value = n.attributes.get("value")?.tensor.clone()?;
                Some((n.outputs.first()?.clone(), value))
            })
            .collect();
        found.constants.extend(constants);
        found.nodes.retain(|n| n.operation != "Constant");
        inputs.retain(|name| !found.constants.contains_key(name));
        found.input = inputs.first()?.clone();
        found.output = outputs.first()?.clone();
        Some(found)
    }

    /// Shape and values of a constant.
    pub fn constant(&self, name: &str) -> Option<Tensor> {
        self.constants.get(name).cloned()
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn name_of(bytes: &[u8]) -> Option<String> {
    fields(bytes)?
        .iter()
        .find_map(|(number, content)| match content {
            Content::Bytes(b) if *number == 1 => text(b),
            _ => None,
        })
}

fn node(bytes: &[u8]) -> Option<Node> {
    let mut node = Node::default();
    for (number, content) in fields(bytes)? {
        let Content::Bytes(bytes) = content else {
            continue;
        };
        match number {
            1 => node.inputs.push(text(bytes)?),
            2 => node.outputs.push(text(bytes)?),
            4 => node.operation = text(bytes)?,
            5 => {
                let (name, attribute) = attribute(bytes)?;
                node.attributes.insert(name, attribute);
            }
            _ => {}
        }
    }
    Some(node)
}

fn attribute(bytes: &[u8]) -> Option<(String, Attribute)> {
    let mut name = String::new();
    let mut found = Attribute::default();
    for (number, content) in fields(bytes)? {
        match (number, content) {
            (1, Content::Bytes(b)) => name = text(b)?,
            (2, Content::Word(w)) => found.float = Some(f32::from_le_bytes(w).into()),
            (3, Content::Number(v)) => found.int = Some(v as i64),
            (4, Content::Bytes(b)) => found.text = text(b),
            (5, Content::Bytes(b)) => {
                let (_, shape, values) = tensor(b)?;
                found.tensor = Some((shape, values));
            }
            (7, Content::Word(w)) => found.floats.push(f32::from_le_bytes(w).into()),
            (7, Content::Bytes(b)) => found.floats.extend(floats(b)),
            (8, Content::Number(v)) => found.ints.push(v as i64),
            (8, Content::Bytes(b)) => found.ints.extend(ints(b)?),
            (9, Content::Bytes(b)) => found.strings.push(text(b)?),
            _ => {}
        }
    }
    Some((name, found))
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    let chunks = bytes.as_chunks::<4>().0;
    chunks.iter().map(|b| f32::from_le_bytes(*b).into())
}

fn ints(mut bytes: &[u8]) -> Option<Vec<i64>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(varint(&mut bytes)? as i64);
    }
    Some(found)
}

/// Name, shape and values; whole numbers and floats of both precisions.
fn tensor(bytes: &[u8]) -> Option<(String, Vec<usize>, Vec<f64>)> {
    let (mut name, mut shape, mut values) = (String::new(), Vec::new(), Vec::new());
    let (mut kind, mut raw): (u64, &[u8]) = (1, &[]);
    for (number, content) in fields(bytes)? {
        match (number, content) {
            (1, Content::Number(v)) => shape.push(usize::try_from(v).ok()?),
            (1, Content::Bytes(b)) => {
                for v in ints(b)? {
                    shape.push(usize::try_from(v).ok()?);
                }
            }
            (2, Content::Number(v)) => kind = v,
            (4, Content::Bytes(b)) => values.extend(floats(b)),
            (4, Content::Word(w)) => values.push(f32::from_le_bytes(w).into()),
            (5 | 7, Content::Bytes(b)) => values.extend(ints(b)?.iter().map(|&v| v as f64)),
            (5 | 7, Content::Number(v)) => values.push(v as i64 as f64),
            (8, Content::Bytes(b)) => name = text(b)?,
            (9, Content::Bytes(b)) => raw = b,
            (10, Content::Bytes(b)) => {
                let chunks = b.as_chunks::<8>().0;
                values.extend(chunks.iter().map(|b| f64::from_le_bytes(*b)));
            }
            (10, Content::Long(w)) => values.push(f64::from_le_bytes(w)),
            _ => {}
        }
    }
    match kind {
        1 => values.extend(floats(raw)),
        7 => {
            let chunks = raw.as_chunks::<8>().0;
            values.extend(chunks.iter().map(|b| i64::from_le_bytes(*b) as f64));
        }
        11 => {
            let chunks = raw.as_chunks::<8>().0;
            values.extend(chunks.iter().map(|b| f64::from_le_bytes(*b)));
        }
        _ => {}
    }
    (shape.iter().product::<usize>() == values.len()).then_some((name, shape, values))
}
