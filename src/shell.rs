//! Commands as one types them in a shell.

/// One word of a command, in quotes where a shell would take it apart or change it.
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(word("nets/a-1.safetensors"), "nets/a-1.safetensors");
        assert_eq!(word("my nets"), "'my nets'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word("$HOME"), "'$HOME'");
        assert_eq!(word(""), "''");
    }
}
