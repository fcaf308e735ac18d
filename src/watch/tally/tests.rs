//! Tests of the limits of a report, see `tally.rs`.

use super::*;
use crate::watch::rings::Totals;

fn call(tally: &mut Tally, function: Function, process: u32, object: u64) {
    let record =
        Record { head: Record::head(function as u16, 0, 0), object, base: object, size: 1, ..Record::default() };
    tally.take(&Group { process, thread: process, is_visible: false, record, parts: Vec::new() });
}

#[test]
fn handles_and_buffers_without_end_take_bounded_memory_and_are_counted_as_lost() {
    let mut tally = Tally::default();
    for number in 0..MOST_REGISTERED as u64 {
        let function = if number % 2 == 0 { Function::HandleRegister } else { Function::BufRegister };
        call(&mut tally, function, number as u32 % 7, number);
    }
    assert_eq!((tally.registered, tally.not_kept), (MOST_REGISTERED, 0));
    call(&mut tally, Function::HandleRegister, 8, 4);
    call(&mut tally, Function::BufRegister, 8, 5);
    // A handle that is registered again takes the place of the earlier one.
    call(&mut tally, Function::HandleRegister, 0, 0);
    assert_eq!((tally.registered, tally.not_kept), (MOST_REGISTERED, 2));
    assert_eq!(tally.report(&Totals::default()).lost_events, 2);
    call(&mut tally, Function::HandleDeregister, 0, 0);
    call(&mut tally, Function::BufDeregister, 1, 1);
    call(&mut tally, Function::BufDeregister, 1, 1);
    assert_eq!(tally.registered, MOST_REGISTERED - 2);
    call(&mut tally, Function::HandleRegister, 8, 4);
    assert_eq!((tally.registered, tally.not_kept), (MOST_REGISTERED - 1, 2));
}
