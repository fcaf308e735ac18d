//! Errors of the operating system as text.

use std::fmt::Display;

/// The text of an error of the operating system without the suffix ` (os error N)` that Rust adds.
#[must_use]
pub fn os_error(error: &impl Display) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_an_error_is_left_out() {
        assert_eq!(os_error(&"Permission denied (os error 13)"), "Permission denied");
        assert_eq!(os_error(&"no such device"), "no such device");
    }
}
