//! The thread that answers what would hold a frame up.

use super::study::{Answer, Question};
use crossbeam_channel::{Receiver, Sender, never, unbounded};

/// Starts with the first question: most sessions never ask one.
#[derive(Debug)]
pub(crate) struct Worker {
    questions: Option<Sender<Question>>,
    pub(crate) answers: Receiver<Answer>,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self { questions: None, answers: never() }
    }

    /// Asks; where there is no thread to be had, the answer comes at once.
    pub(crate) fn ask(&mut self, question: Question) -> Option<Answer> {
        if self.questions.is_none() {
            let (questions, asked): (Sender<Question>, Receiver<Question>) = unbounded();
            let (sender, answers) = unbounded();
            let started = std::thread::Builder::new().name("study".to_owned()).spawn(move || {
                for question in asked {
                    if sender.send(question.answer()).is_err() {
                        break;
                    }
                }
            });
            if started.is_ok() {
                self.questions = Some(questions);
                self.answers = answers;
            }
        }
        match &self.questions {
            Some(questions) => questions.send(question).err().map(|unsent| unsent.0.answer()),
            None => Some(question.answer()),
        }
    }
}
