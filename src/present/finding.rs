//! A finding as labelled texts. Screens, the text of `check` and reports arrange these texts.

use crate::core::{Evidence, Finding, Status};

/// A text and its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `Found`, `Why` or another label of one word.
    pub label: &'static str,
    /// The text. It can contain several lines.
    pub text: String,
}

/// The texts of a finding. Its name and its summary are fields of the finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingView<'f> {
    /// The mark and the word of its status: `✖ fail`.
    pub result: String,
    /// The check that causes it.
    pub cause: Option<Part>,
    /// The label of the evidence, which each front end combines with its source.
    pub found: &'static str,
    /// The observations, each with its source.
    pub evidence: &'f [Evidence],
    /// The reason why it is relevant.
    pub why: Option<Part>,
    /// The routes that it blocks.
    pub blocks: Option<Part>,
    /// The command line that fixes it.
    pub command: Option<Part>,
    /// The advice. If there is also a fix, it is the alternative to it.
    pub advice: Option<Part>,
}

impl<'f> FindingView<'f> {
    /// The texts of a finding.
    #[must_use]
    pub fn of(finding: &'f Finding) -> Self {
        let part = |label, text: &str| (!text.is_empty()).then(|| Part { label, text: text.to_owned() });
        let is_problem = matches!(finding.status, Status::Warn | Status::Fail);
        let routes: Vec<String> = finding.blocks.iter().filter(|_| is_problem).map(ToString::to_string).collect();
        let cause =
            finding.cause.map(|cause| if is_problem { format!("{cause}; fix it first") } else { cause.to_string() });
        let command = finding.fix.map(|fix| match &finding.command {
            Some(command) => command.clone(),
            None => format!("sudo gds-top fix {fix}"),
        });
        let advice_label = match () {
            () if finding.fix.is_some() => "Or",
            () if is_problem && !finding.permanent => "Fix",
            () => "Advice",
        };
        Self {
            result: result(finding.status),
            cause: part("Cause", &cause.unwrap_or_default()),
            found: "Found",
            evidence: &finding.evidence,
            why: part("Why", &finding.why),
            blocks: part("Blocks", &routes.join(", ")),
            command: part("Fix", &command.unwrap_or_default()),
            advice: part(advice_label, finding.advice.as_deref().unwrap_or_default()),
        }
    }
}

/// The mark and the word of a status: `✖ fail`.
#[must_use]
pub fn result(status: Status) -> String {
    format!("{} {}", status.mark(), status.word())
}
