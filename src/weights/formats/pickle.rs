//! A pickle reader that cannot run anything.
//!
//! Pickle is a program for a small stack machine, and Python's machine may import and call any
//! function. This one has no such ability: it turns opcodes of protocols 2 to 5 into inert
//! [`Node`]s. A name such as `os.system` becomes the two words `os` and `system`, and a "call"
//! becomes a note that the file wanted one ([`Call`]). The readers of tensors then look for the
//! few notes they know (`torch._utils._rebuild_tensor_v2`, numpy's `_reconstruct`, …) and ignore
//! every other.
//!
//! Nodes live in one flat list and refer to each other by number, so mutual references cost
//! nothing, and neither parsing nor dropping ever recurses. Work is linear in the input, and the
//! number of nodes, memo entries and marks is bounded.

use super::error::{Result, Source};
use super::values::{Call, Id, Node, Pickle};
use std::collections::HashMap;

/// Most nodes, stack places, memo entries or marks; a network of 50 000 tensors needs less.
const MAX_NODES: usize = 4_000_000;

/// Reads one pickle from the start of `bytes`; also returns how many bytes it took.
pub(super) fn parse<'a>(bytes: &'a [u8], file: Source<'a>) -> Result<(Pickle<'a>, usize)> {
    Machine {
        bytes,
        at: 0,
        file,
        nodes: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    }
    .run()
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    file: Source<'a>,
    nodes: Vec<Node<'a>>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    fn run(mut self) -> Result<(Pickle<'a>, usize)> {
        loop {
            let start = self.at;
            let op = self.array::<1>()?[0];
            if op == b'.' {
                let root = self.pop()?;
                let pickle = Pickle {
                    nodes: self.nodes,
                    root,
                };
                return Ok((pickle, self.at));
            }
            self.step(op, start)?;
            let largest = self.nodes.len().max(self.stack.len());
            if largest.max(self.memo.len()).max(self.marks.len()) > MAX_NODES {
                return Err(self
                    .file
                    .limit("a pickle with too many values", MAX_NODES as u64));
            }
        }
    }

    fn step(&mut self, op: u8, start: usize) -> Result<()> {
        match op {
            0x80 => {
                let [version] = self.array()?;
                if !(2..=5).contains(&version) {
                    return Err(self.file.unsupported(
                        format!("pickle protocol {version}"),
                        "Protocols 2 to 5 are read: save the file again",
                    ));
                }
            }
            0x95 => drop(self.array::<8>()?), // FRAME: only a hint about buffering
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'J' => {
                let value = i32::from_le_bytes(self.array()?);
                self.push(Node::Int(value.into()));
            }
            b'K' => {
                let [value] = self.array()?;
                self.push(Node::Int(value.into()));
            }
            b'M' => {
                let value = u16::from_le_bytes(self.array()?);
                self.push(Node::Int(value.into()));
            }
            0x8a => {
                let length = self.length::<1>()?;
                self.long(length)?;
            }
            0x8b => {
                let length = self.length::<4>()?;
                self.long(length)?;
            }
            b'G' => {
                let value = f64::from_be_bytes(self.array()?);
                self.push(Node::Float(value));
            }
            0x8c => self.text::<1>()?,
            b'X' => self.text::<4>()?,
            0x8d => self.text::<8>()?,
            b'C' => self.blob::<1>(Node::Bytes)?,
            b'B' => self.blob::<4>(Node::Bytes)?,
            0x8e | 0x96 => self.blob::<8>(Node::Bytes)?,
            b'U' => self.blob::<1>(Node::OldStr)?,
            b'T' => self.blob::<4>(Node::OldStr)?,
            0x98 => {} // READONLY_BUFFER
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_mark()?),
            b'2' => {
                let top = self.pop()?;
                self.stack.extend([top, top]);
            }
            b']' | 0x8f => self.push(Node::List(Vec::new())),
            b')' => self.push(Node::Tuple(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            0x85..=0x87 => {
                let mut parts = vec![0; usize::from(op - 0x84)];
                for part in parts.iter_mut().rev() {
                    *part = self.pop()?;
                }
                self.push(Node::Tuple(parts));
            }
            b't' => {
                let parts = self.pop_mark()?;
                self.push(Node::Tuple(parts));
            }
            b'l' | 0x91 => {
                let parts = self.pop_mark()?;
                self.push(Node::List(parts));
            }
            b'd' => {
                let parts = self.pop_mark()?;
                let pairs = self.pairs(&parts)?;
                self.push(Node::Dict(pairs));
            }
            b'a' => {
                let value = self.pop()?;
                self.append(&[value])?;
            }
            b'e' | 0x90 => {
                let values = self.pop_mark()?;
                self.append(&values)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(vec![(key, value)])?;
            }
            b'u' => {
                let parts = self.pop_mark()?;
                let pairs = self.pairs(&parts)?;
                self.set_items(pairs)?;
            }
            b'c' => {
                let module = self.line()?;
                let name = self.line()?;
                self.push(Node::Global { module, name });
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (&self.nodes[module as usize], &self.nodes[name as usize]) {
                    (&Node::Text(module), &Node::Text(name)) => {
                        self.push(Node::Global { module, name });
                    }
                    _ => return Err(self.bad("an imported name that is not text", start)),
                }
            }
            b'R' | 0x81 => {
                let (args, callable) = (self.pop()?, self.pop()?);
                self.call(callable, args);
            }
            0x92 => {
                let (_keywords, args, callable) = (self.pop()?, self.pop()?, self.pop()?);
                self.call(callable, args);
            }
            b'b' => {
                let state = self.pop()?;
                let object = self.top()?;
                if let Node::Call(call) = &mut self.nodes[object as usize] {
                    call.state = Some(state);
                }
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Node::Persistent(id));
            }
            b'q' => {
                let [slot] = self.array()?;
                self.remember(slot.into())?;
            }
            b'r' => {
                let slot = u32::from_le_bytes(self.array()?);
                self.remember(slot)?;
            }
            0x94 => self.remember(self.memo.len() as u32)?,
            b'h' => {
                let [slot] = self.array()?;
                self.recall(slot.into(), start)?;
            }
            b'j' => {
                let slot = u32::from_le_bytes(self.array()?);
                self.recall(slot, start)?;
            }
            _ => {
                return Err(self.file.unsupported(
                    format!("pickle opcode 0x{op:02x} at byte {start}"),
                    "It does not occur in weight files of protocols 2 to 5: save the file again, \
                     best as .safetensors",
                ));
            }
        }
        Ok(())
    }

    // ---- input

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(found) = rest.get(..count) else {
            return Err(self.bad(
                &format!("{count} bytes expected, only {} left", rest.len()),
                self.at,
            ));
        };
        self.at += count;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// A little-endian length of N bytes.
    fn length<const N: usize>(&mut self) -> Result<usize> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(self.take(N)?);
        usize::try_from(u64::from_le_bytes(wide)).map_err(|_| self.bad("absurd length", self.at))
    }

    fn line(&mut self) -> Result<&'a str> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&b| b == b'\n');
        let line = end.and_then(|end| std::str::from_utf8(&rest[..end]).ok());
        let Some(line) = line else {
            return Err(self.bad("a name without end", self.at));
        };
        self.at += line.len() + 1;
        Ok(line)
    }

    fn text<const N: usize>(&mut self) -> Result<()> {
        let start = self.at;
        let length = self.length::<N>()?;
        let Ok(text) = std::str::from_utf8(self.take(length)?) else {
            return Err(self.bad("text that is not UTF-8", start));
        };
        self.push(Node::Text(text));
        Ok(())
    }

    fn blob<const N: usize>(&mut self, make: fn(&'a [u8]) -> Node<'a>) -> Result<()> {
        let length = self.length::<N>()?;
        let bytes = self.take(length)?;
        self.push(make(bytes));
        Ok(())
    }

    fn long(&mut self, length: usize) -> Result<()> {
        let bytes = self.take(length)?;
        if length > 8 {
            self.push(Node::Big(bytes));
            return Ok(());
        }
        let negative = bytes.last().is_some_and(|&b| b >= 0x80);
        let mut wide = if negative { [0xff; 8] } else { [0; 8] };
        wide[..length].copy_from_slice(bytes);
        self.push(Node::Int(i64::from_le_bytes(wide)));
        Ok(())
    }

    // ---- stack and memo

    fn push(&mut self, node: Node<'a>) {
        self.stack.push(self.nodes.len() as Id);
        self.nodes.push(node);
    }

    fn call(&mut self, callable: Id, args: Id) {
        self.push(Node::Call(Box::new(Call {
            callable,
            args,
            state: None,
            items: Vec::new(),
        })));
    }

    fn top(&self) -> Result<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(&id) if self.stack.len() > floor => Ok(id),
            _ => Err(self.bad("an operation without operand", self.at)),
        }
    }

    fn pop(&mut self) -> Result<Id> {
        let id = self.top()?;
        self.stack.pop();
        Ok(id)
    }

    /// Everything above the last mark.
    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => Err(self.bad("a missing mark", self.at)),
        }
    }

    fn pairs(&self, parts: &[Id]) -> Result<Vec<(Id, Id)>> {
        let (pairs, rest) = parts.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(self.bad("a key without value", self.at));
        }
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    }

    fn append(&mut self, values: &[Id]) -> Result<()> {
        let target = self.top()?;
        match &mut self.nodes[target as usize] {
            Node::List(list) => list.extend_from_slice(values),
            Node::Call(_) => {} // a list-like object; nothing known needs its content
            _ => return Err(self.bad("appending to something that is no list", self.at)),
        }
        Ok(())
    }

    fn set_items(&mut self, pairs: Vec<(Id, Id)>) -> Result<()> {
        let target = self.top()?;
        match &mut self.nodes[target as usize] {
            Node::Dict(items) => items.extend(pairs),
            Node::Call(call) => call.items.extend(pairs),
            _ => return Err(self.bad("storing into something that is no dictionary", self.at)),
        }
        Ok(())
    }

    fn remember(&mut self, slot: u32) -> Result<()> {
        let top = self.top()?;
        self.memo.insert(slot, top);
        Ok(())
    }

    fn recall(&mut self, slot: u32, start: usize) -> Result<()> {
        let Some(&id) = self.memo.get(&slot) else {
            return Err(self.bad("a reference to nothing", start));
        };
        self.stack.push(id);
        Ok(())
    }

    fn bad(&self, what: &str, at: usize) -> super::FormatError {
        self.file.damaged(format!("pickle byte {at}: {what}"))
    }
}
