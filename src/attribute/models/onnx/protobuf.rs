//! The little of protobuf's wire format that ONNX needs.

/// A field: its number and content.
pub enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Word([u8; 4]),
    Long([u8; 8]),
}

/// The fields of a message, in order; none if the bytes are no message.
pub fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Content<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let content = match key & 7 {
            0 => Content::Number(varint(&mut bytes)?),
            1 => Content::Long(take(&mut bytes, 8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                Content::Bytes(take(&mut bytes, length)?)
            }
            5 => Content::Word(take(&mut bytes, 4)?.try_into().ok()?),
            _ => return None,
        };
        found.push((key >> 3, content));
    }
    Some(found)
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(first)
}

/// A number of seven bits to the byte.
pub fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
