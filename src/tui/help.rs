//! The help: all available keys, and the meaning of terms and units.

use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::Binding;
use crate::tui::keys::key::Key;
use crate::tui::keys::rows::{close, down, up};
use crate::tui::keys::table::{Row, always};
use crate::tui::pen::{Pen, Run, wrap};
use crate::tui::screen::Tab;
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;
use crate::tui::widgets::scroll::Scroll;
use crate::tui::widgets::sheet;

/// The keys of the help.
pub(crate) const TABLE: &[Row<()>] = &[up(always), down(always), close(always)];

/// Maximum width of the sheet in columns.
const WIDEST: u16 = 84;
/// Width in columns of the keys and of the explained terms.
const HEAD: usize = 11;

const WORDS: [(&str, &str); 8] = [
    ("marks", "✔ pass   ● good to know   ▲ warning   ✖ failure   – does not apply here, or could not be examined"),
    ("cuFile", "NVIDIA's library for GPUDirect Storage: libcufile, configured by cufile.json"),
    (
        "direct",
        "the disk writes into GPU memory without a copy in host memory; the four such routes are nvidia-fs, P2PDMA, C2C and RDMA",
    ),
    (
        "compat",
        "cuFile reads into host memory and copies the bytes from there to the GPU; the bytes are correct, but the route is not direct",
    ),
    ("proven", "counters of cuFile or of the kernel module showed the route; otherwise it is inferred from the checks"),
    (
        "clock",
        "the time of a load begins when the context is open and nothing is pinned, and ends when all bytes are on the target; start-up and verification are not part of it",
    ),
    (
        "set-up",
        "░ before the bar of a run: the start-up of its process, on the scale of the bars; ╱╱ marks one that is too long for that",
    ),
    (
        "units",
        "sizes are binary: 1 GiB is 2³⁰ bytes; rates are decimal: 1 GB/s is 10⁹ bytes per second; a missing value is a gap or –",
    ),
];

/// The explanations of the columns on the System screen.
const COLUMNS: [(&str, &str); 3] = [
    ("storage", "bytes per second that disks delivered to a process, including mapped files"),
    ("calls", "bytes per second that it read by system calls, including those from the page cache"),
    ("by", "the evidence for the route: mapped libraries and open files, observed from outside; it is not a proof"),
];

/// Whether a key has the same effect on every screen.
const fn is_everywhere(action: Action) -> bool {
    use Action as A;
    matches!(
        action,
        A::Up
            | A::Down
            | A::PageUp
            | A::PageDown
            | A::First
            | A::Last
            | A::Screen(_)
            | A::Export
            | A::Copy
            | A::Redraw
            | A::Suspend
            | A::Interrupt
            | A::Help
            | A::Quit
    )
}

/// Draws the help on top of a screen with these bindings. `tab` returns the tab of a screen.
pub(crate) fn draw(
    pen: &mut Pen<'_>,
    (screen, tab): (ScreenId, &dyn Fn(ScreenId) -> Tab),
    bindings: &[&Binding],
    scroll: &Scroll,
    theme: &Theme,
) {
    let room = WIDEST.min(pen.width().saturating_sub(2)).saturating_sub(8);
    let (mut here, mut everywhere): (Vec<Vec<Run>>, Vec<Vec<Run>>) = (Vec::new(), Vec::new());
    let mut named = Vec::new();
    // In a replay the brackets change the speed and do not move the charts.
    let is_taken = |key: &Key| bindings.iter().any(|binding| binding.keys.first() == Some(key));
    for binding in bindings {
        // Some actions are in the table twice, because of their position in the footer.
        if named.contains(&binding.action) {
            continue;
        }
        named.push(binding.action);
        let lines = if is_everywhere(binding.action) { &mut everywhere } else { &mut here };
        let text = match binding.action {
            Action::Screen(other) => of_screen(tab(other), binding.help),
            _ => binding.help.to_owned(),
        };
        let others: Vec<String> =
            binding.keys.iter().skip(1).filter(|key| !is_taken(key)).map(|key| key.shown()).collect();
        let text = if others.is_empty() { text } else { format!("{text} (also {})", others.join(", ")) };
        lines.extend(explained(first(&binding.label), &text, room, theme));
    }
    let mut lines: Vec<Vec<Run>> = Vec::new();
    let words: Vec<Vec<Run>> = WORDS.iter().flat_map(|(word, meaning)| explained(word, meaning, room, theme)).collect();
    let mouse = "The mouse works too: the wheel moves the area under the pointer, a click selects, a second click opens, and keys that are shown on the screen can be clicked.";
    for (head, part) in [(format!("On {}", tab(screen).title), here), ("Everywhere".to_owned(), everywhere)] {
        if !part.is_empty() {
            lines.push(vec![(head, theme.strong)]);
            lines.extend(part);
            lines.push(Vec::new());
        }
    }
    lines.extend(wrap(mouse, room).into_iter().map(|line| vec![(line, theme.dim)]));
    lines.push(Vec::new());
    lines.push(vec![("Words".to_owned(), theme.strong)]);
    lines.extend(words);
    if screen == ScreenId::System {
        lines.extend(COLUMNS.iter().flat_map(|(word, meaning)| explained(word, meaning, room, theme)));
    }
    let head = [("Keys and words".to_owned(), theme.strong)];
    let keys = [("? Esc".to_owned(), theme.accent), (" close".to_owned(), theme.dim)];
    scroll.drawn(sheet::draw(pen, &head, &lines, &keys, scroll.at(), WIDEST, theme));
}

/// The text for the key of a screen: the title of its tab and its content. `help` is the usual content.
pub(crate) fn of_screen(tab: Tab, help: &str) -> String {
    format!("{}: {}", tab.title, tab.about.unwrap_or(help))
}

/// A key or a term, with its meaning wrapped next to it.
fn explained(word: &str, meaning: &str, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let lines = wrap(meaning, room.saturating_sub(HEAD as u16));
    let head = |n: usize| if n == 0 { format!("  {word:<w$}", w = HEAD - 2) } else { " ".repeat(HEAD) };
    lines.into_iter().enumerate().map(|(n, line)| vec![(head(n), theme.accent), (line, theme.text)]).collect()
}

/// The first key of a label. The footer combines the keys of a pair, but the help has one line for each.
fn first(label: &str) -> &str {
    if let Some((first, _)) = label.split_once(' ') {
        return first;
    }
    match label {
        "↑↓" => "↑",
        "←→" => "←",
        label => label,
    }
}
