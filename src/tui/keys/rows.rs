//! Rows that several key tables have in common, with their keys and texts. Each table adds the condition.

use super::action::Action;
use super::key::{letter, plain};
use super::table::{Row, When, bind};
use crossterm::event::KeyCode;

/// Defines a constructor for each row.
macro_rules! rows {
    ($($(#[doc = $doc:literal])* $name:ident: $action:ident [$($key:expr),*] $label:literal $short:literal $help:literal;)*) => {
        $(
            $(#[doc = $doc])*
            pub(crate) const fn $name<S>(when: When<S>) -> Row<S> {
                bind!(Action::$action, [$($key),*], $label, $short, $help, when)
            }
        )*
    };
}

rows! {
    /// Moves up. Its entry in the footer stands for both directions.
    up: Up [plain(KeyCode::Up), letter('k')] "↑↓" "move" "move up";
    /// Moves down.
    down: Down [plain(KeyCode::Down), letter('j')] "↓" "" "move down";
    /// Goes to the next pane.
    next_pane: NextPane [plain(KeyCode::Tab)] "Tab" "pane" "go to the next pane of the screen";
    /// Opens the selected line.
    open: Open [plain(KeyCode::Enter)] "⏎" "open"
        "open or fold a group; on a check, go to its details; on a process or a tensor, show only this one";
    /// Closes a sheet.
    close: Close [plain(KeyCode::Esc)] "Esc" "close" "close a sheet, end a filter";
    /// Sorts a table.
    sort: Sort [letter('s')] "s" "sort" "sort by the next column";
    /// Reverses the order of a table.
    reverse: Reverse [letter('S')] "S" "" "reverse the order";
    /// Filters a table.
    filter: Filter [letter('/')] "/" "filter" "show only entries that contain a text";
    /// Copies the answer.
    copy: Copy [letter('y')] "y" "copy" "copy the answer and the selected line to the clipboard, over SSH too";
    /// Copies commands.
    copy_commands: CopyCommands [letter('y')] "y" "copy" "in a fix or the checklist: copy its commands";
    /// Stops a race.
    cancel_race: CancelRace [letter('c')] "c" "stop" "stop the race";
    /// Shows the next fix.
    fix: Fix [letter('f')] "f" "next fix" "show the next fix that is still to be applied, and in a fix the one after it";
    /// Undoes a fix, or shows one that can be undone.
    undo: Undo [letter('u')] "u" "undo"
        "show the applied fix of the selected check, or else the fix that was applied last; in its sheet, the same key undoes it";
    /// Moves the cursor of the charts to the left.
    chart_left: Left [plain(KeyCode::Left), letter('h')] "←→" "read chart" "move the cursor in the charts";
    /// Moves the cursor of the charts to the right.
    chart_right: Right [plain(KeyCode::Right), letter('l')] "→" "" "move the cursor in the charts";
    /// Zooms into the charts.
    zoom_in: ZoomIn [letter('+'), letter('=')] "+ - 0" "zoom" "show a shorter time in the charts, around the cursor";
    /// Zooms out of the charts.
    zoom_out: ZoomOut [letter('-')] "-" "" "show a longer time in the charts";
    /// Shows the complete time in the charts.
    zoom_all: ZoomAll [letter('0')] "0" "" "show the complete time in the charts";
    /// Moves the charts to an earlier time.
    pan_back: PanBack [letter(','), letter('[')] ", ." "pan"
        "move the charts to an earlier time; at the right end they follow the session";
    /// Moves the charts to a later time.
    pan_forward: PanForward [letter('.'), letter(']')] "." "" "move the charts to a later time";
    /// Holds the charts.
    hold: Hold [letter(' ')] "space" "hold" "hold the charts while the session continues, or release them";
    /// Shows one chart on the full screen.
    expand: Expand [letter('e')] "e" "expand" "one chart on the full screen, and back";
}
