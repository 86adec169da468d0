//! Cutting text to the limits of the API without breaking a character.

/// The longest start of `text` of at most `max` bytes that ends between two characters.
#[must_use]
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_kept() {
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn a_multi_byte_character_at_the_limit_is_left_out() {
        let text = format!("{}é tail", "x".repeat(511));
        assert_eq!(cut(&text, 512), "x".repeat(511));
    }
}
