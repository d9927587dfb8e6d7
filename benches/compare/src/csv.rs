//! The figures in a form for other programs. Values that were not measured are empty. A system without figures in a row
//! has no line for that row.

use crate::figures::Row;
use std::fmt::Write;

const HEADER: &str =
    "system,workload,workers,ns_per_op,p50_ns,p99_ns,peak_rss_kib,bytes_per_process,p999_ns,load_per_second";

/// Formats all rows as CSV. No field needs quotes, since names contain neither commas nor quotes.
pub fn to_csv(rows: &[Row]) -> String {
    let mut text = format!("{HEADER}\n");
    for row in rows {
        for (system, cell) in &row.cells {
            let Some(figures) = cell.figures() else { continue };
            let fields = [
                system.to_string(),
                row.case.name.clone(),
                row.workers.to_string(),
                format!("{:.2}", figures.ns_per_op),
                whole(figures.p50_ns),
                whole(figures.p99_ns),
                whole(figures.peak_rss_kib),
                figures.bytes_per_process.map_or_else(String::new, |bytes| format!("{bytes:.1}")),
                whole(figures.p999_ns),
                whole(figures.load_per_second),
            ];
            let _ = writeln!(text, "{}", fields.join(","));
        }
    }
    text
}

fn whole(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::workloads;
    use crate::lines::tests::row;
    use crate::plan::Workload;
    use crate::sizes::Scale;
    use crate::sweeps::Sweep;

    #[test]
    fn a_line_for_each_system_that_has_figures() {
        let rows = [row(Workload::PingPong, 2, [Some(16.0), None, Some(80.125)])];
        let expected = "\
system,workload,workers,ns_per_op,p50_ns,p99_ns,peak_rss_kib,bytes_per_process,p999_ns,load_per_second
postroom,ping_pong,2,16.00,,,1024,,,
actix,ping_pong,2,80.12,,,1024,,,
";
        assert_eq!(to_csv(&rows), expected);
    }

    #[test]
    fn no_name_needs_quotes() {
        let sweeps = Sweep::ALL.iter().flat_map(|sweep| sweep.cases(Scale::Full));
        assert!(workloads().into_iter().chain(sweeps).all(|case| !case.name.contains([',', '"', '\n'])));
    }
}
