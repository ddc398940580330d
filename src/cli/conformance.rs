//! `foil conformance`: golden cases on this machine and device.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::UsageError;
use crate::conformance::{self, AREAS, AreaReport, Case, Source, default_source};
use crate::metrics::MetricBackend;
use crate::tensor::{Device, Opened, Precision};

/// Runs every golden case of a folder and says which pass.
#[derive(Args)]
pub struct ConformanceArgs {
    /// vision, weights, nets, bex, diffusion, hvilshoj, attribution, tabular, or all.
    #[arg(value_name = "AREA|all")]
    area: String,

    /// Folder of the area's layout, or one that holds a folder per area.
    /// Default: $FOIL_REFERENCE, ../shared/reference or tests/golden, else a small set inside the program.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// auto, cpu, wgpu, wgpu:N, wgpu:software or cuda[:N]; see `foil devices`.
    #[arg(long, value_name = "D", default_value = "auto")]
    device: Device,

    /// List every case, not only groups and failures.
    #[arg(long)]
    verbose: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// True if every area passed.
pub fn run(args: &ConformanceArgs) -> anyhow::Result<bool> {
    let opened = args.device.open(Precision::F32);
    match opened.map_err(|e| UsageError(e.to_string()))?.1 {
        Opened::Cpu(cpu) => run_on(args, &cpu),
        Opened::Gpu(gpu) => run_on(args, &gpu),
    }
}

fn run_on<B: MetricBackend + 'static>(args: &ConformanceArgs, backend: &B) -> anyhow::Result<bool> {
    let mut reports = Vec::new();
    let (mut passed, mut absent) = (true, 0);
    for (area, source) in plan(args)? {
        let started = Instant::now();
        let report = conformance::run(area, source, backend)?;
        let seconds = started.elapsed().as_secs_f64();
        passed &= report.passed();
        absent += report.absent.len();
        if args.json {
            reports.push(as_json(&report, seconds));
        } else {
            super::print(&as_text(&report, seconds, args.verbose))?;
        }
    }
    if args.json {
        let document = json!({
            "schema": "foil.conformance/1",
            "version": env!("CARGO_PKG_VERSION"),
            "device": backend.describe(),
            "passed": passed,
            "absent": absent,
            "areas": reports,
        });
        super::print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    } else {
        let verdict = if passed { "passed" } else { "FAILED" };
        super::print(&format!(
            "{verdict} on {}{}\n",
            backend.describe(),
            skipped(absent)
        ))?;
    }
    Ok(passed)
}

/// What a verdict does not cover.
fn skipped(absent: usize) -> String {
    match absent {
        0 => String::new(),
        1 => "; 1 file or group of cases was absent and skipped (see above)".into(),
        n => format!("; {n} files or groups of cases were absent and skipped (see above)"),
    }
}

/// Which areas to run, and on what.
fn plan(args: &ConformanceArgs) -> anyhow::Result<Vec<(&'static str, Source)>> {
    let all = args.area == "all";
    let areas: Vec<&'static str> = AREAS
        .into_iter()
        .filter(|a| all || *a == args.area)
        .collect();
    if areas.is_empty() {
        let known = AREAS.join(", ");
        let message = format!("unknown area {:?}; use {known}, or all", args.area);
        return Err(UsageError(message).into());
    }
    let Some(data) = &args.data else {
        return Ok(areas.into_iter().map(|a| (a, default_source(a))).collect());
    };
    if !all {
        let (area, inner) = (areas[0], data.join(areas[0]));
        let folder = if inner.is_dir() { inner } else { data.clone() };
        return Ok(vec![(area, Source::Folder(folder))]);
    }
    let found: Vec<_> = areas
        .into_iter()
        .map(|a| (a, data.join(a)))
        .filter(|(_, folder)| folder.is_dir())
        .map(|(a, folder)| (a, Source::Folder(folder)))
        .collect();
    if found.is_empty() {
        let known = AREAS.join(", ");
        let message = format!("{} holds no folder named {known}", data.display());
        return Err(UsageError(message).into());
    }
    Ok(found)
}

fn as_json(report: &AreaReport, seconds: f64) -> serde_json::Value {
    let unused: Vec<_> = report
        .unused
        .iter()
        .map(|(file, reason)| json!({"file": file, "reason": reason}))
        .collect();
    json!({
        "area": report.area,
        "data": report.data,
        "passed": report.passed(),
        "seconds": seconds,
        "groups": report.groups(),
        "cases": report.cases,
        "used": report.used,
        "unused": unused,
        "absent": report.absent,
        "unknown": report.unknown,
    })
}

fn as_text(report: &AreaReport, seconds: f64, verbose: bool) -> String {
    let mut text = format!("{} (data: {})\n", report.area, report.data);
    let failures: Vec<&Case> = report.failures().collect();
    list_cases(&mut text, "  failed", &failures);
    list(
        &mut text,
        "unknown (no case here knows how to run it)",
        &report.unknown,
    );
    if verbose {
        let passing: Vec<&Case> = report.cases.iter().filter(|c| c.pass).collect();
        list_cases(&mut text, "  passed", &passing);
    }
    let title = |name: &str| name.len().max(5);
    let groups = report.groups();
    let width = groups.iter().map(|g| title(&g.group)).max().unwrap_or(5);
    let _ = writeln!(
        text,
        "  {:<width$} {:>6} {:>7} {:>13}  worst case",
        "group", "cases", "failed", "error/allowed"
    );
    for group in &groups {
        let _ = writeln!(
            text,
            "  {:<width$} {:>6} {:>7} {:>13}  {}",
            group.group,
            group.cases,
            group.failed,
            share(group.worst_share),
            group.worst
        );
    }
    list(&mut text, "absent (cases skipped)", &report.absent);
    let unused: Vec<String> = report
        .unused
        .iter()
        .map(|(file, reason)| format!("{file}: {reason}"))
        .collect();
    list(&mut text, "unused", &unused);
    if verbose {
        list(&mut text, "used", &report.used);
    }
    let _ = writeln!(
        text,
        "  {} cases, {} failed, {} unknown, {} files used, {seconds:.1} s\n",
        report.cases.len(),
        failures.len(),
        report.unknown.len(),
        report.used.len()
    );
    text
}

fn list(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {title}:");
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
}

/// One line per case: what, expected, got, error, tolerance.
fn list_cases(text: &mut String, title: &str, cases: &[&Case]) {
    if cases.is_empty() {
        return;
    }
    let _ = writeln!(text, "{title}:");
    for case in cases {
        let number = |v: Option<f64>| v.map_or("exact".into(), |v| format!("{v:.2e}"));
        let _ = writeln!(
            text,
            "    [{}] {}: expected {}, got {}, error {}, allowed {}",
            case.group,
            case.what,
            case.expected,
            case.got,
            case.error.map_or("-".into(), |e| format!("{e:.2e}")),
            number(case.tolerance)
        );
    }
}

fn share(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        v if v.is_infinite() => "not equal".into(),
        v => format!("{v:.1e}"),
    }
}
