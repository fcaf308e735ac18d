//! Tests of jobs for another thread: each is sent once, and its result is the same as without a thread.

use super::{app, learn, tensors};
use crate::session::State;
use crate::tui::jobs::queue::Job;
use crate::tui::off_screen::OffScreen;
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata;

#[test]
fn a_job_is_sent_out_once_and_ends_in_what_would_have_been_computed_at_once() {
    let state = testdata::many_tensors(300);
    let mut at_once = app(ScreenId::Tensors);
    at_once.prepare(&state);
    let mut ui = app(ScreenId::Tensors);
    ui.jobs.at_once = 0;
    ui.prepare(&state);
    let jobs = std::mem::take(&mut ui.jobs.out);
    assert!(!jobs.is_empty() && ui.jobs.is_waiting());
    ui.prepare(&state);
    assert!(ui.jobs.out.is_empty() && tensors(&mut ui).order.is_empty(), "asked once, and nothing is known yet");
    for job in jobs {
        ui.take(job.run());
    }
    ui.prepare(&state);
    assert!(!ui.jobs.is_waiting());
    assert_eq!(tensors(&mut ui).order.len(), 300);
    assert_eq!(tensors(&mut ui).order, tensors(&mut at_once).order);
    assert_eq!(ui.ctx.stats.advice(), at_once.ctx.stats.advice());
}

#[test]
fn the_recordings_of_the_lesson_are_never_read_between_two_frames() {
    let mut ui = app(ScreenId::Learn);
    ui.prepare(&State::default());
    assert!(learn(&mut ui).lesson.is_none());
    let jobs = std::mem::take(&mut ui.jobs.out);
    assert!(matches!(jobs.as_slice(), [Job::Lesson]));
    jobs.into_iter().for_each(|job| ui.take(job.run()));
    assert!(matches!(learn(&mut ui).lesson, Some(Ok(_))));
}

#[test]
fn an_unchanged_frame_differs_in_nothing_and_a_key_in_something() {
    let state = testdata::many_tensors(500);
    let mut shown = OffScreen::new(ScreenId::Tensors, 120, 36);
    let first = shown.frame(&state);
    shown.settle();
    assert!(first + shown.frame(&state) > 500);
    assert_eq!(shown.frame(&state), 0);
    shown.key('s', &state);
    assert!(shown.frame(&state) > 20);
    for key in "/blocks.49\n".chars() {
        shown.key(key, &state);
    }
    assert!(shown.frame(&state) > 20);
    assert!(shown.svg("tensors").contains("11 of 500"));
}
