//! Postroom beside its peers. In one run, each system does the same workloads with the same semantics.
//!
//! The program starts itself again for each measurement ([`child`]). The parent drives ([`drive`]), verifies
//! ([`expected`]) and reports ([`table`], [`probe_table`], [`csv`], [`chart`]).

mod absences;
mod cases;
mod chart;
mod child;
mod csv;
mod drive;
mod expected;
mod features;
mod figures;
mod lines;
mod machine;
mod options;
mod probe_table;
mod report;
mod sizes;
mod sweeps;
mod system;
mod table;
mod targets;
mod wire;

use compare_frame::{kernel, names, plan};
use options::Order;
use std::process::ExitCode;

/// The exit status for invalid options.
const MISUSE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned()).collect();
    if let Some(status) = child::serve(&arguments) {
        return status;
    }
    let options = match options::parse(arguments) {
        Ok(Order::Compare(options)) => options,
        Ok(Order::Help) => {
            println!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(MISUSE);
        }
    };
    match report::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
