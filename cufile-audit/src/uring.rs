//! Records how many requests the rings of io_uring completed, before the process ends or starts another program. gds-top
//! reads the same counters, but too seldom for a process that exists for a few milliseconds.

use crate::layout::{Record, kind};
use crate::rings::Writer;
use crate::system;

/// The name of a ring's descriptor.
const NAME: &[u8] = b"anon_inode:[io_uring]";

/// The positions of the length and the name in `struct linux_dirent64`.
const LENGTH: usize = 16;
const TEXT: usize = 19;

/// Records the counters of all open rings.
#[inline(never)]
#[cold]
pub(crate) fn end() {
    let folder = if system::is_filtered() { -1 } else { system::own_descriptors() };
    if folder < 0 {
        return;
    }
    let mut room = system::Entries([0; 2048]);
    loop {
        let bytes = system::read_entries(folder, &mut room);
        let Some(mut rest) = room.0.get(..bytes).filter(|entries| !entries.is_empty()) else { break };
        while let Some([low, high]) = rest.get(LENGTH..LENGTH + 2) {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            if let Some(fd) = rest.get(TEXT..).and_then(number) {
                record(fd);
            }
            rest = rest.get(length.max(1)..).unwrap_or(&[]);
        }
    }
    system::close_descriptor(folder);
}

fn record(fd: i32) {
    let mut link = [0; 32];
    let length = system::path_of_descriptor(fd, &mut link);
    if link.get(..length) != Some(NAME) {
        return;
    }
    let mut text = [0; 2048];
    let length = system::facts_of_descriptor(fd, &mut text);
    let text = text.get(..length).unwrap_or(&[]);
    let Some(completed) = value(text, b"CqTail:") else { return };
    // Each ring has another inode, which shows the same ring in the child of a fork.
    let inode = value(text, b"ino:").unwrap_or(0);
    let Some(mut writer) = Writer::take_uncounted().filter(|writer| writer.has_room(1)) else { return };
    let now = system::now_ns();
    let object = u64::from(fd.cast_unsigned());
    let head = Record::head(kind::URING, 0, 0);
    let record =
        Record { head, start_ns: now, end_ns: now, object, offset: inode, size: completed, ..Record::default() };
    writer.put(&record);
    writer.publish();
}

/// The number in a line of fdinfo, for example `CqTail: 300`.
fn value(text: &[u8], name: &[u8]) -> Option<u64> {
    let value = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    let digits = value.iter().filter(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number: u64, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))))
}

/// The number of which a text that ends with a zero byte consists. `None` for other texts.
fn number(text: &[u8]) -> Option<i32> {
    let mut digits = text.iter().take_while(|byte| **byte != 0).peekable();
    digits.peek()?;
    let add = |sum: i32, digit: &u8| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(i32::from(digit))
    };
    digits.try_fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_descriptors_are_numbers_and_fdinfo_has_the_completed_requests() {
        assert_eq!(
            (number(b"12\0\0"), number(b"..\0"), number(b"\0"), number(b"99999999999\0")),
            (Some(12), None, None, None)
        );
        let text = b"pos:\t0\nino:\t51\nCachedCqTail:\t8\nCqTail:\t7\n";
        assert_eq!(
            (value(text, b"CqTail:"), value(text, b"ino:"), value(b"pos:\t0\n", b"ino:")),
            (Some(7), Some(51), None)
        );
    }
}
