//! The lines as a drawing (SVG). There is a panel for each number of workers, with a row for each line. In a row, each
//! system has a mark at its cost as a multiple of Postroom's cost, on a logarithmic scale.

use crate::figures::count_workers;
use crate::lines::Line;
use crate::system::System;
use crate::table::number;
use std::fmt::Write;

const TITLE: &str = "Cost relative to Postroom (logarithmic scale; further right is slower)";

/// Dimensions in pixels. The names are on the left, Postroom's own figure is on the right, and the scale is in between.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = 90.0;
const ROW: f64 = 19.0;
const HEAD: f64 = 64.0;
const PANEL_HEAD: f64 = 34.0;
const PANEL_FOOT: f64 = 30.0;

/// Ticks of the scale, which is limited to their range.
const TICKS: [f64; 13] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0];

/// Returns a colour that colour-blind readers can distinguish, too (Okabe and Ito), and a shape that is about ten
/// pixels wide.
fn mark(system: System) -> (&'static str, &'static str) {
    match system {
        System::Postroom => ("#000000", "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z"),
        System::Tokio => ("#56b4e9", "M-4,-4h8v8h-8z"),
        System::Actix => ("#e69f00", "M0,-5.5L5,4H-5z"),
        System::Kameo => ("#009e73", "M0,5.5L5,-4H-5z"),
        System::Ractor => ("#cc79a7", "M0,-5.5L5.5,0L0,5.5L-5.5,0z"),
        System::Xtra => ("#d55e00", "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"),
        System::Stakker => ("#0072b2", "M-5,-1.5h10v3h-10z"),
        System::Nexosim => ("#f0e442", "M-1.5,-5h3v10h-3z"),
        System::Kanal => ("#999999", "M-3,-5.5h6v11h-6z"),
        System::LocalSync => ("#332288", "M-5.5,-3h11v6h-11z"),
    }
}

/// The scale of all panels.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    /// Returns a scale that includes all ratios within the range of [`TICKS`].
    fn of(lines: &[Line]) -> Self {
        let mut scale = Self { least: 0.5, most: 10.0 };
        for ratio in lines.iter().flat_map(ratios).map(|(_, ratio)| ratio) {
            scale.least = scale.least.min(ratio * 0.9).max(TICKS[0]);
            scale.most = scale.most.max(ratio * 1.1).min(TICKS[TICKS.len() - 1]);
        }
        scale
    }

    /// Returns the position of a ratio. A ratio that is off the scale is at its edge.
    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio.clamp(self.least, self.most) / self.least).ln() / (self.most / self.least).ln();
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        TICKS.into_iter().filter(|tick| (self.least..=self.most).contains(tick))
    }
}

/// Returns the ratio of each system. Postroom is last, so that its mark is on top.
fn ratios(line: &Line) -> Vec<(System, f64)> {
    let Some(own) = line.value(System::Postroom) else { return Vec::new() };
    let mut ratios: Vec<_> =
        line.values.iter().filter_map(|(system, value)| Some((*system, (*value)? / own))).collect();
    ratios.sort_by_key(|(system, _)| std::cmp::Reverse(*system));
    ratios
}

/// Draws the lines, and writes `notes` below them.
pub fn to_svg(lines: &[Line], systems: &[System], notes: &[String]) -> String {
    let scale = Scale::of(lines);
    let mut workers: Vec<usize> = lines.iter().map(|line| line.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    let mut body = String::new();
    let mut y = HEAD;
    for workers in workers {
        let panel: Vec<&Line> = lines.iter().filter(|line| line.workers == workers).collect();
        y = draw_panel(&mut body, &scale, workers, &panel, y);
    }
    for note in notes {
        y += ROW;
        text(&mut body, 12.0, y, "start", "#555555", note);
    }
    let height = y + ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    text(&mut svg, 12.0, 22.0, "start", "#000000", TITLE);
    draw_key(&mut svg, systems);
    svg + &body + "</svg>\n"
}

fn draw_key(svg: &mut String, systems: &[System]) {
    for (index, &system) in systems.iter().enumerate() {
        let x = 20.0 + 100.0 * index as f64;
        draw_mark(svg, system, x, 44.0, system.name());
        text(svg, x + 10.0, 48.0, "start", "#000000", system.name());
    }
}

/// Draws the panel of one number of workers below `top`, and returns its lower edge.
fn draw_panel(svg: &mut String, scale: &Scale, workers: usize, lines: &[&Line], top: f64) -> f64 {
    let first = top + PANEL_HEAD;
    let bottom = first + ROW * lines.len() as f64;
    text(svg, 12.0, top + 20.0, "start", "#000000", &count_workers(workers));
    text(svg, WIDTH - 12.0, top + 20.0, "end", "#000000", "Postroom");
    for tick in scale.ticks() {
        let (x, colour) = (scale.x(tick), if tick == 1.0 { "#000000" } else { "#dddddd" });
        let _ = writeln!(svg, "<path d=\"M{x:.1},{first:.1}V{bottom:.1}\" stroke=\"{colour}\"/>");
        text(svg, x, bottom + 16.0, "middle", "#555555", &format!("{tick}×"));
    }
    for (index, line) in lines.iter().enumerate() {
        let y = first + ROW * (index as f64 + 0.5);
        text(svg, LEFT - 12.0, y + 4.0, "end", "#000000", &line.name);
        for (system, ratio) in ratios(line) {
            let value = line.value(system).unwrap_or_default();
            draw_mark(svg, system, scale.x(ratio), y, &format!("{system}: {} ({ratio:.2}×)", number(value)));
        }
        let unit = if line.name.ends_with(" bytes") { "B" } else { "ns" };
        let own =
            line.value(System::Postroom).map_or_else(|| "–".to_string(), |value| format!("{} {unit}", number(value)));
        text(svg, WIDTH - 12.0, y + 4.0, "end", "#000000", &own);
    }
    bottom + PANEL_FOOT
}

fn draw_mark(svg: &mut String, system: System, x: f64, y: f64, title: &str) {
    let (colour, shape) = mark(system);
    let place = format!("transform=\"translate({x:.1},{y:.1})\"");
    let _ = writeln!(svg, "<path {place} d=\"{shape}\" fill=\"{colour}\"><title>{}</title></path>", escaped(title));
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, colour: &str, content: &str) {
    let content = escaped(content);
    let _ =
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{content}</text>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::lines;
    use crate::lines::tests::row;
    use crate::plan::Workload;

    #[test]
    fn a_mark_for_each_figure_and_each_name_in_the_key() {
        let systems = [System::Postroom, System::Tokio, System::Actix];
        let rows = [
            row(Workload::PingPong, 1, [Some(16.0), Some(64.0), None]),
            row(Workload::Big, 2, [None, Some(8.0), Some(8.0)]),
        ];
        let svg = to_svg(&lines(&rows), &systems, &["a < b & c".to_string()]);
        assert_eq!(svg.matches("<title>").count(), systems.len() + 2);
        assert!(svg.contains("<title>tokio: 64.0 (4.00×)</title>") && svg.contains(">2 workers</text>"));
        assert!(svg.contains("a &lt; b &amp; c") && svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn the_scale_holds_its_ends_and_grows_to_the_right() {
        let scale = Scale { least: 0.5, most: 50.0 };
        assert_eq!((scale.x(0.5), scale.x(50.0)), (LEFT, WIDTH - RIGHT));
        assert!(scale.x(5.0) > scale.x(1.0) && scale.x(1e9) == scale.x(50.0));
    }
}
