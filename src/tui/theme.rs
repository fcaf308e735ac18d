//! Maps roles to styles. Only the palette and the colours of the terminal determine a style.

use crate::config::{Background, ColourDepth, Ink, Markers, Palette, Taste, ThemeName};
use crate::core::{Engine, LaneInks, Phase, Status, heat_colour};
use ratatui::style::{Color, Modifier, Style};
use std::borrow::Cow;

/// The requested theme, and the terminal's background if it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) taste: Taste,
    pub(crate) palette: Option<Palette>,
    pub(crate) markers: Option<Markers>,
    /// The initial theme and its colours from a file, if the user has chosen another theme since.
    pub(crate) asked: Option<(ThemeName, Option<Palette>)>,
}

impl Look {
    pub(crate) fn theme(&self) -> Theme {
        Theme::with(self.taste, self.palette.as_ref(), self.markers)
    }

    /// Whether the colours depend on the terminal's background.
    pub(crate) fn depends_on_background(&self) -> bool {
        self.taste.theme == ThemeName::Auto && self.palette.is_none()
    }

    /// Switches to a theme. If it is the initial theme, its colours from a file are used again.
    pub(crate) fn set_theme(&mut self, name: ThemeName) {
        let (theme, palette) = *self.asked.get_or_insert((self.taste.theme, self.palette));
        self.taste.theme = name;
        self.palette = palette.filter(|_| name == theme);
    }

    pub(crate) fn set_background(&mut self, background: Background) {
        self.taste.background = Some(background);
    }
}

/// Styles by role.
#[derive(Clone, Debug)]
pub(crate) struct Theme {
    /// The empty screen.
    pub(crate) ground: Style,
    /// Text.
    pub(crate) text: Style,
    /// Headlines and answers.
    pub(crate) strong: Style,
    /// Less important text.
    pub(crate) dim: Style,
    /// Borders and the empty parts of bars.
    pub(crate) faint: Style,
    /// The accent colour: keys, focus and the current tab.
    pub(crate) accent: Style,
    /// Added to the style of the selected row.
    pub(crate) selected: Style,
    /// Lines that a fix adds.
    pub(crate) added: Style,
    /// Lines that a fix removes.
    pub(crate) removed: Style,
    /// Whether there are no colours. Patterns and weight are used instead.
    pub(crate) mono: bool,
    /// Whether only ASCII characters are sent to the terminal.
    pub(crate) ascii: bool,
    /// The characters for lines in charts.
    pub(crate) markers: Markers,
    depth: ColourDepth,
    status: [Style; 5],
    lanes: [Style; 11],
    inks: LaneInks,
    phases: [Style; 12],
    on_fill: Option<Color>,
    on_accent: Option<Color>,
}

impl Theme {
    /// The theme for the user's choices.
    #[must_use]
    pub(crate) fn new(taste: Taste) -> Self {
        Self::with(taste, None, None)
    }

    /// The theme for the user's choices, optionally with the colours of a theme file and with other characters for
    /// charts.
    #[must_use]
    pub(crate) fn with(taste: Taste, palette: Option<&Palette>, markers: Option<Markers>) -> Self {
        let theme = match palette.copied().or_else(|| Palette::on(taste.theme, taste.background)) {
            Some(palette) => Self::coloured(&palette, taste),
            None => Self::mono(taste.ascii),
        };
        let markers = if taste.ascii { Markers::Ascii } else { markers.unwrap_or_default() };
        Self { markers, ..theme }
    }

    fn coloured(p: &Palette, taste: Taste) -> Self {
        let fg = |ink: Ink| Style::new().fg(colour(ink, taste.depth));
        let heavy = |style: Style| {
            if taste.theme == ThemeName::HighContrast { style.add_modifier(Modifier::BOLD) } else { style }
        };
        // With sixteen colours, few pairs are readable on the selection colour. So the selected row has one text
        // colour, and its marks differ only in shape.
        let row = Style::new().bg(colour(p.selected, taste.depth));
        // The terminal's foreground may have any colour, so the row uses a foreground colour of the theme.
        let selected = match (taste.depth, p.strong) {
            (_, None) => row.patch(fg(p.on_accent)),
            (ColourDepth::Ansi16, Some(strong)) => row.patch(fg(strong)),
            _ => row,
        };
        let (text, strong) = (p.text.map(fg).unwrap_or_default(), p.strong.map(fg).unwrap_or_default());
        Self {
            ground: p.ground.map_or_else(Style::new, |ink| Style::new().bg(colour(ink, taste.depth)).patch(text)),
            text: heavy(text),
            strong: strong.add_modifier(Modifier::BOLD),
            dim: fg(p.dim),
            faint: fg(p.faint),
            accent: fg(p.accent).add_modifier(Modifier::BOLD),
            selected,
            added: fg(p.status[0]),
            removed: fg(p.status[3]),
            mono: false,
            ascii: taste.ascii,
            markers: Markers::Braille,
            depth: taste.depth,
            status: p.status.map(|ink| heavy(fg(ink))),
            lanes: p.lanes.map(fg),
            inks: LaneInks::default(),
            phases: p.phases.map(fg),
            on_fill: Some(colour(p.on_fill, taste.depth)),
            on_accent: Some(colour(p.on_accent, taste.depth)),
        }
    }

    fn mono(ascii: bool) -> Self {
        let plain = Style::new();
        let bold = plain.add_modifier(Modifier::BOLD);
        let dim = plain.add_modifier(Modifier::DIM);
        Self {
            ground: plain,
            text: plain,
            strong: bold,
            dim,
            faint: dim,
            accent: bold.add_modifier(Modifier::UNDERLINED),
            selected: plain.add_modifier(Modifier::REVERSED),
            added: bold,
            removed: dim,
            mono: true,
            ascii,
            markers: Markers::Braille,
            depth: ColourDepth::Ansi16,
            status: [plain, plain, bold, bold.add_modifier(Modifier::UNDERLINED), dim],
            lanes: [plain; 11],
            inks: LaneInks::default(),
            phases: [plain; 12],
            on_fill: None,
            on_accent: None,
        }
    }

    /// The style of the screen behind a sheet.
    #[must_use]
    pub(crate) fn behind(&self) -> Style {
        let (ink, ground) = (self.faint.fg.unwrap_or(Color::Reset), self.ground.bg.unwrap_or(Color::Reset));
        self.faint.fg(ink).bg(ground)
    }

    /// The style of a status mark and its word.
    #[must_use]
    pub(crate) fn status(&self, status: Status) -> Style {
        self.status[match status {
            Status::Pass => 0,
            Status::Info => 1,
            Status::Warn => 2,
            Status::Fail => 3,
            Status::Na => 4,
        }]
    }

    /// The theme for a session with these engines. Engines without a fixed colour get one each.
    #[must_use]
    pub(crate) fn among<'e>(&self, engines: impl IntoIterator<Item = &'e Engine>) -> Cow<'_, Self> {
        let inks = LaneInks::of(engines);
        if inks.is_plain() { Cow::Borrowed(self) } else { Cow::Owned(Self { inks, ..self.clone() }) }
    }

    /// The style of an engine, which is the same in every table and chart.
    #[must_use]
    pub(crate) fn lane(&self, engine: &Engine) -> Style {
        self.lanes[self.inks.place(engine)]
    }

    /// The marker of an engine next to its name. Name, colour and marker distinguish engines.
    #[must_use]
    pub(crate) fn marker(&self, engine: &Engine) -> char {
        self.inks.marker(engine)
    }

    /// The style of a cell in a heat map. `warmth` (0 to 1) determines the background or, without colours, the
    /// weight.
    #[must_use]
    pub(crate) fn heat(&self, warmth: f64) -> Style {
        if self.mono {
            return if warmth > 0.9 {
                self.strong
            } else if warmth > 0.6 {
                self.text
            } else {
                self.dim
            };
        }
        if self.depth == ColourDepth::Ansi16 {
            // With sixteen colours, the scale is magenta, blue, cyan, yellow, which has the order of the full scale.
            let (ground, ink) = [(5, 15), (4, 15), (6, 0), (3, 0)][((warmth * 4.0) as usize).min(3)];
            return Style::new().bg(Color::Indexed(ground)).fg(Color::Indexed(ink));
        }
        let (r, g, b) = heat_colour(warmth);
        let light = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b) > 140.0;
        let ground = Ink { rgb: u32::from(r) << 16 | u32::from(g) << 8 | u32::from(b), ansi: 0 };
        let ink = Ink { rgb: if light { 0x10_1018 } else { 0xf0_f0f5 }, ansi: 0 };
        Style::new().bg(colour(ground, self.depth)).fg(colour(ink, self.depth))
    }

    /// Less important text, between dim and faint.
    #[must_use]
    pub(crate) fn faint_text(&self) -> Style {
        self.dim.add_modifier(Modifier::DIM)
    }

    /// The style of a series that is not an engine. `index` selects one of the colours that common engines do not
    /// use.
    #[must_use]
    pub(crate) fn series(&self, index: usize) -> Style {
        const ORDER: [usize; 4] = [6, 4, 0, 5];
        self.lanes[ORDER[index % ORDER.len()]]
    }

    /// The text style of a phase, and the fill character that distinguishes it without colour.
    #[must_use]
    pub(crate) fn phase(&self, phase: Phase) -> (Style, char) {
        let fill = match phase {
            Phase::Transfer => '█',
            Phase::Copy => '▓',
            Phase::Idle => '░',
            Phase::Open => '▗',
            Phase::Map => '▝',
            Phase::Allocate => '▄',
            Phase::RegisterHandle => '▌',
            Phase::RegisterBuffer => '▒',
            Phase::Submit => '▞',
            Phase::Sync => '▂',
            Phase::Deregister => '▚',
            Phase::Release => '▀',
        };
        (self.phases[phase as usize], if self.mono { fill } else { '█' })
    }

    /// The style of text on a fill with the colour of `style`. Without colour, the text is bold and interrupts the
    /// fill.
    #[must_use]
    pub(crate) fn on(&self, style: Style) -> Style {
        // The colour of idle is similar to the background, so the text has the style of text on the background.
        let idle = style.fg.is_some() && style.fg == self.phases[Phase::Idle as usize].fg;
        on(self.text.fg.filter(|_| idle).or(self.on_fill), style)
    }

    /// The style of text on a fill with the accent or a status colour.
    #[must_use]
    pub(crate) fn on_accent(&self, style: Style) -> Style {
        on(self.on_accent, style)
    }
}

fn on(ink: Option<Color>, style: Style) -> Style {
    match (ink, style.fg) {
        (Some(ink), Some(fill)) => Style::new().fg(ink).bg(fill).add_modifier(Modifier::BOLD),
        _ => Style::new().add_modifier(Modifier::BOLD),
    }
}

fn colour(ink: Ink, depth: ColourDepth) -> Color {
    match depth {
        ColourDepth::True => Color::Rgb((ink.rgb >> 16) as u8, (ink.rgb >> 8) as u8, ink.rgb as u8),
        ColourDepth::Ansi256 => Color::Indexed(ink.ansi256()),
        ColourDepth::Ansi16 => Color::Indexed(ink.ansi),
    }
}
