//! The parts around a screen: machine, verdict, tabs, available keys, and the CPU time and memory of gds-top.

use crate::core::units::NS_PER_S;
use crate::core::{LogLevel, Metric, Route, Status};
use crate::present::labels::proof;
use crate::present::verdict;
use crate::session::{REAL_TIME, State};
use crate::tui::clicks::Spot;
use crate::tui::context::Context;
use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::Binding;
use crate::tui::pen::{Pen, Run, runs_width, width, wrap};
use crate::tui::screen::Tab;
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;
use crate::tui::words::unchecked;

/// Width of the clock with its sign in columns.
const CLOCK: usize = 9;

/// Draws the machine in the first line and the tabs in the second line. Returns the number of rows.
pub(crate) fn header(pen: &mut Pen<'_>, state: &State, ctx: &Context, shown: Tabs<'_>, theme: &Theme) -> u16 {
    let (w, h) = (pen.width(), pen.height());
    if h < 20 {
        tabs(&mut pen.part(0, 0, w, 1), state, ctx, shown, true, theme);
        return 1;
    }
    let mut top = pen.part(0, 0, w, 3);
    top.frame(&[], theme.faint);
    let badge = badge(state, ctx, theme);
    let badge_width = runs_width(&badge) as u16 + 2;
    if badge_width + 16 < w {
        let start = w - badge_width - 2;
        top.text(start, 0, " ", theme.faint);
        let end = top.runs(start + 1, 0, &badge);
        top.text(end, 0, " ", theme.faint);
        let room = usize::from(start.saturating_sub(3));
        let mut title: Vec<Run> = vec![(" gds-top".to_owned(), theme.accent)];
        for part in machine_parts(state) {
            if runs_width(&title) + width(&part) + 4 > room {
                break;
            }
            title.push((" ─ ".to_owned(), theme.faint));
            title.push((part, theme.dim));
        }
        title.push((" ".to_owned(), theme.faint));
        top.runs(2, 0, &title);
    }
    scrub(&mut top.part(2, 2, w.saturating_sub(4), 1), state, ctx, theme);
    tabs(&mut top.part(1, 1, w.saturating_sub(2), 1), state, ctx, shown, false, theme);
    3
}

/// Draws the progress bar of a replay: the time, the length, and a tick for each load.
fn scrub(pen: &mut Pen<'_>, state: &State, ctx: &Context, theme: &Theme) {
    let Some(timeline) = ctx.timeline.as_ref().filter(|timeline| timeline.end_ns > 0) else { return };
    let now = ctx.position_ns(state).min(timeline.end_ns);
    let minutes = |ns: u64| format!("{:02}:{:02}", ns / NS_PER_S / 60, ns / NS_PER_S % 60);
    let loads = match timeline.loads.len() {
        0 => String::new(),
        all => format!("  load {} of {all}", timeline.load_at(now)),
    };
    let right = format!(" {}{loads} ", minutes(timeline.end_ns));
    let from = pen.text(0, 0, &format!(" {} ", minutes(now)), theme.text);
    let columns = pen.width().saturating_sub(from + width(&right) as u16);
    if columns < 10 {
        return;
    }
    let column = |ns: u64| ((ns as f64 / timeline.end_ns as f64) * f64::from(columns - 1)) as u16;
    let head = column(now);
    for x in 0..columns {
        let (glyph, style) = if x < head { ('━', theme.accent) } else { ('─', theme.faint) };
        pen.cell(from + x, 0, glyph, style);
    }
    for load in &timeline.loads {
        let x = column(load.start_ns);
        pen.cell(from + x, 0, if x < head { '┿' } else { '┼' }, if x < head { theme.accent } else { theme.dim });
    }
    pen.cell(from + head, 0, '●', theme.accent);
    pen.hit(0, from, columns, Spot::Scrub);
    pen.text(from + columns, 0, &right, theme.dim);
}

/// The current screen, and the tabs of all screens.
type Tabs<'a> = (ScreenId, &'a [(ScreenId, Tab)]);

/// The known facts about the machine: host, GPU, driver, CUDA and libcufile.
fn machine_parts(state: &State) -> Vec<String> {
    let Some(machine) = &state.machine else { return Vec::new() };
    let mut parts = vec![machine.host.clone()];
    match machine.gpus.as_slice() {
        [] => parts.push("no GPU".to_owned()),
        [gpu] => parts.push(gpu.name.clone()),
        [gpu, rest @ ..] if rest.iter().all(|g| g.name == gpu.name) => {
            parts.push(format!("{}× {}", rest.len() + 1, gpu.name));
        }
        [gpu, rest @ ..] => parts.push(format!("{} and {} more", gpu.name, rest.len())),
    }
    parts.extend(machine.driver.as_ref().map(|v| format!("driver {v}")));
    parts.extend(machine.cuda.as_ref().map(|v| format!("CUDA {v}")));
    parts.extend(
        machine.libcufile.as_ref().map(|lib| format!("libcufile {}", lib.version.as_deref().unwrap_or("found"))),
    );
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// A short form of the verdict.
fn badge(state: &State, ctx: &Context, theme: &Theme) -> Vec<Run> {
    let Some(verdict) = state.verdicts.first() else {
        if unchecked(state, ctx) {
            return vec![("– not checked".to_owned(), theme.dim)];
        }
        // A lesson runs checks only if it measures.
        let words = match (state.checks_took_ns, state.checks.is_empty()) {
            (Some(_), _) => "– no verdict",
            (None, true) => "– not checked yet",
            (None, false) => "● checking",
        };
        return vec![(words.to_owned(), theme.dim)];
    };
    if verdict::no_gpu(verdict) {
        return vec![("– HOST MEMORY".to_owned(), theme.status(Status::Na)), ("  no GPU".to_owned(), theme.dim)];
    }
    let status = verdict::status(verdict);
    let word = match verdict.route {
        Route::None => "NO ROUTE".to_owned(),
        route => route.to_string().to_uppercase(),
    };
    let style = theme.status(status).add_modifier(ratatui::style::Modifier::BOLD);
    vec![(format!("{} {word}", status.mark()), style), (format!("  {}", proof(verdict.proven)), theme.dim)]
}

fn tabs(pen: &mut Pen<'_>, state: &State, ctx: &Context, (current, tabs): Tabs<'_>, with_badge: bool, theme: &Theme) {
    let room = usize::from(pen.width());
    // The titles as far as they fit: all titles, all short titles, or only the current one. The text on the right is
    // next to them, in its long or short form.
    type Title = fn(ScreenId, &Tab) -> &'static str;
    let long: Title = |_, tab| tab.title;
    let short: Title = |id, tab| if tab.title == id.title() { id.short_title() } else { tab.title };
    let needs = |gap: usize, title: Title| {
        tabs.iter().map(|(screen, tab)| width(title(*screen, tab)) + 2 + gap).sum::<usize>() + 1
    };
    let status_runs = |brief| if with_badge { badge(state, ctx, theme) } else { clock(state, ctx, brief, theme) };
    let variants: [(usize, Title, bool); 3] = [(3, long, false), (1, long, false), (1, long, true)];
    // The columns of the clock are reserved when it is not shown, so that the tabs do not move.
    let right = |brief| runs_width(&status_runs(brief)).max(CLOCK);
    let fits = |(gap, title, brief): &(usize, Title, bool)| needs(gap + 1, *title) + right(*brief) < room;
    let alone: (usize, Title, bool) = match room {
        room if needs(4, long) <= room => (3, long, true),
        room if needs(2, long) <= room => (1, long, true),
        _ => (1, short, true),
    };
    let (gap, title, brief) = variants.into_iter().find(fits).unwrap_or(alone);
    let gap = gap as u16;
    let bare = needs(2, title) > room;
    let mut x = 1;
    for (screen, tab) in tabs {
        let (start, screen) = (x, *screen);
        if screen == current {
            let end = pen.text(x + 1, 0, &format!("{} {}", screen.number(), title(screen, tab)), theme.accent);
            pen.restyle(x, 0, (end + 1).saturating_sub(x), 1, theme.selected);
            x = end + gap;
        } else {
            // A screen without content can be opened. It then shows why it is empty.
            let (number, name) =
                if tab.is_empty { (theme.dim, theme.faint_text()) } else { (theme.accent, theme.text) };
            let end = pen.text(x + 1, 0, &screen.number().to_string(), number);
            x = if bare { end } else { pen.text(end + 1, 0, title(screen, tab), name) } + gap;
        }
        pen.hit(0, start, x.saturating_sub(start), Spot::Screen(screen));
    }
    let right = status_runs(brief);
    let start = pen.width().saturating_sub(runs_width(&right) as u16 + 1);
    if start > x {
        pen.runs(start, 0, &right);
    }
}

/// The time since the session began and the state of a replay. The short form uses symbols.
fn clock(state: &State, ctx: &Context, brief: bool, theme: &Theme) -> Vec<Run> {
    let seconds = ctx.clock_ns.max(state.now_ns) / 1_000_000_000;
    let mut runs: Vec<Run> = Vec::new();
    if ctx.replay {
        let (mark, word) = match (ctx.over, ctx.paused) {
            (true, _) => ("■", "replay, at its end".to_owned()),
            (false, true) => ("‖", "replay, paused".to_owned()),
            (false, false) => ("▶", format!("replay {}", speed_word(ctx.speed))),
        };
        let speed = if ctx.over || ctx.paused || ctx.speed == 0 {
            String::new()
        } else {
            format!(" {}", speed_word(ctx.speed))
        };
        runs.push((if brief { format!("{mark}{speed} ") } else { format!("{mark} {word}   ") }, theme.accent));
    } else if let Some(interrupted) = state.ended.filter(|_| !brief) {
        runs.push((if interrupted { "stopped   " } else { "done   " }.to_owned(), theme.dim));
    } else if state.running_lane().is_some() || (state.checks_took_ns.is_none() && !state.checks.is_empty()) {
        runs.push((format!("{}   ", ctx.spinner()), theme.accent));
    }
    // The progress bar of a replay already shows the time. At rest no frame is drawn, so the time would be wrong.
    let runs_on = ctx.replay || state.ended.is_some() || !runs.is_empty();
    if ctx.timeline.is_none() && runs_on {
        runs.push((format!("{:02}:{:02}", seconds / 60, seconds % 60), theme.dim));
    }
    runs
}

/// The speed of a replay as text: `2×`, `1/4×`.
pub(crate) fn speed_word(sixteenths: u32) -> String {
    match sixteenths {
        0 => "at full speed".to_owned(),
        n if n >= REAL_TIME => format!("{}×", n / REAL_TIME),
        n => format!("1/{}×", REAL_TIME / n.max(1)),
    }
}

/// Draws a question of gds-top or a new message of the session, in the lines above the keys.
pub(crate) fn notice(pen: &mut Pen<'_>, state: &State, ctx: &Context, theme: &Theme) {
    let Some((text, style)) = message(state, ctx, theme) else { return };
    let (w, h) = (pen.width(), pen.height());
    let lines = wrap(&text, w.saturating_sub(2));
    let rows = lines.len().min(3) as u16;
    let mut place = pen.part(0, h.saturating_sub(rows), w, rows);
    place.wipe(theme.ground);
    for (y, line) in lines.iter().take(3).enumerate() {
        place.text(1, y as u16, line, style);
    }
}

/// Draws the available keys, and on the right the resource use of gds-top. While a filter is typed, it replaces the
/// keys.
pub(crate) fn footer(
    pen: &mut Pen<'_>,
    state: &State,
    ctx: &Context,
    (bindings, filter): (&[&Binding], &str),
    theme: &Theme,
) {
    let w = pen.width();
    let all: usize = bindings.iter().map(|b| width(&b.label) + width(b.short) + 3).sum();
    // If both do not fit, only the keys are shown.
    let cost = own_cost(state, ctx);
    let cost = if all + width(&cost) + 3 > usize::from(w) && w < 100 { String::new() } else { cost };
    let room = w.saturating_sub(width(&cost) as u16 + 2);
    if ctx.filtering {
        let end = pen.text(1, 0, "/", theme.accent);
        let end = pen.text(end, 0, filter, theme.strong);
        let end = pen.text(end, 0, "▏", theme.accent);
        pen.text(end + 2, 0, "⏎ keep   Esc clear", theme.dim);
        return;
    }
    // Commands, help and quit always work, so their space is reserved.
    let wide = |b: &Binding| (width(&b.label) + width(b.short) + 3) as u16;
    let (last, first): (Vec<&Binding>, Vec<&Binding>) =
        bindings.iter().partition(|b| matches!(b.action, Action::Commands | Action::Help | Action::Quit));
    let kept: u16 = last.iter().map(|b| wide(b)).sum();
    let mut left = room.saturating_sub(kept + 1);
    let mut x = 1;
    for binding in first {
        if wide(binding) <= left {
            left -= wide(binding);
            x = key(pen, x, binding, theme);
        }
    }
    for binding in last {
        x = key(pen, x, binding, theme);
    }
    if x < room.saturating_add(1) {
        pen.right(w.saturating_sub(1), 0, &cost, theme.dim);
    }
}

fn key(pen: &mut Pen<'_>, x: u16, binding: &Binding, theme: &Theme) -> u16 {
    let end = pen.text(x, 0, &binding.label, theme.accent);
    let end = pen.text(end + 1, 0, binding.short, theme.dim);
    // A label with several keys stands for several actions, so a click on it would be ambiguous.
    if binding.action.joined().is_empty() {
        pen.hit(0, x, end.saturating_sub(x), Spot::Key(binding.action));
    }
    end + 2
}

/// The resource use of gds-top: `gds-top 0.4 % cpu 11 MiB`. Missing values are left out. A replay shows nothing,
/// because the recorded values belong to the process that recorded them.
fn own_cost(state: &State, ctx: &Context) -> String {
    if ctx.replay {
        return String::new();
    }
    let last = |metric| state.samples.iter().rev().take(64).find_map(|s| s.get(metric));
    let mut parts = Vec::new();
    if let Some(cpu) = last(Metric::SelfCpuPercent) {
        parts.push(format!("{cpu:.1} % cpu"));
    }
    if let Some(rss) = last(Metric::SelfRssBytes) {
        parts.push(format!("{:.0} MiB", rss / (1024.0 * 1024.0)));
    }
    if parts.is_empty() { String::new() } else { format!("gds-top {}", parts.join(" ")) }
}

/// A question of gds-top, or the newest message of the session while it is shown.
fn message(state: &State, ctx: &Context, theme: &Theme) -> Option<(String, ratatui::style::Style)> {
    if let Some(notice) = &ctx.notice {
        return Some((notice.clone(), theme.status(Status::Warn)));
    }
    let fresh = state.messages.get(ctx.messages_seen..).unwrap_or_default();
    let (_, level, text) = fresh.iter().rev().find(|(_, level, _)| *level > LogLevel::Info)?;
    let status = if *level == LogLevel::Error { Status::Fail } else { Status::Warn };
    Some((format!("{} {text}", status.mark()), theme.status(status)))
}
