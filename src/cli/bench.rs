//! `trainer bench`: what a training step of a config costs on this machine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bench::{self, Spread, Training};
use crate::run::{Fault, Phases};
use crate::ui::{Table, Tone, bytes, count, printable};

use super::args::Bench;
use super::json::{self, FORMAT};
use super::load::load;
use super::outcome::{CommandResult, Outcome};
use super::screen::Screen;

/// Longest file of an earlier measurement.
const AGAINST_BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize)]
struct BenchJson<'a> {
    format: u32,
    name: &'a str,
    config_sha256: &'a str,
    device: &'a str,
    parameters: u64,
    steps: u64,
    warmup: u64,
    samples_per_step: f64,
    tokens_per_step: f64,
    step_ms: SpreadJson,
    phases_ms: PhasesJson,
    samples_per_s: f64,
    tokens_per_s: f64,
    peak_bytes: u64,
    gflop_per_step: f64,
    gflop_per_s: f64,
    gb_per_step: f64,
    gb_per_s: f64,
    limits: LimitsJson,
    limit_share: f64,
    against: Option<&'a Comparison>,
}

#[derive(Serialize, Deserialize)]
struct SpreadJson {
    median: f64,
    p10: f64,
    p90: f64,
}

#[derive(Serialize)]
struct PhasesJson {
    data: f64,
    forward: f64,
    backward: f64,
    reduce: f64,
    optimizer: f64,
}

#[derive(Serialize)]
struct LimitsJson {
    gflop_per_s: f64,
    gb_per_s: f64,
}

/// What is needed of an earlier measurement.
#[derive(Deserialize)]
struct Earlier {
    format: u32,
    config_sha256: String,
    step_ms: SpreadJson,
}

/// This measurement beside an earlier one.
#[derive(Serialize)]
struct Comparison {
    file: String,
    same_config: bool,
    step_ms: SpreadJson,
    /// Median of now over median of then.
    ratio: f64,
}

/// Trains without a run, and prints what the steps cost.
pub(super) fn bench(args: &Bench, out: &mut dyn Write) -> CommandResult {
    let config = load(&args.config, &args.set.set)?.config;
    // A mistake in it is told before the measurement, not after.
    let earlier = args.against.as_deref().map(read_earlier).transpose()?;
    let found = bench::training(&config, args.warmup, args.steps)?;
    let sha256 = config.sha256();
    let against = earlier.zip(args.against.as_ref()).map(|(earlier, file)| {
        let ratio = milliseconds(found.seconds.median) / earlier.step_ms.median;
        Comparison {
            file: file.display().to_string(),
            same_config: earlier.config_sha256 == sha256,
            step_ms: earlier.step_ms,
            ratio,
        }
    });
    if args.json {
        let shown = BenchJson {
            name: &config.name,
            config_sha256: &sha256,
            steps: args.steps,
            warmup: args.warmup,
            against: against.as_ref(),
            ..in_json(&found)
        };
        json::pretty(&shown, out)?;
    } else {
        print(args, &config.name, &found, against.as_ref(), out)?;
    }
    Ok(Outcome::Done)
}

/// Reads what `--json` printed at another time.
fn read_earlier(path: &Path) -> Result<Earlier, Fault> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(AGAINST_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| Fault::io("read", path, &error))?;
    let wrong = |what: String| {
        Fault::usage(format!("{} is no measurement: {what}", path.display()))
            .advise("give a file that `trainer bench --json` wrote")
    };
    let earlier: Earlier =
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if earlier.format != FORMAT {
        return Err(wrong(format!(
            "it has format {}, this program reads {FORMAT}",
            earlier.format
        )));
    }
    if !(earlier.step_ms.median.is_finite() && earlier.step_ms.median > 0.0) {
        return Err(wrong(format!(
            "its median is {} ms",
            earlier.step_ms.median
        )));
    }
    Ok(earlier)
}

/// All that the measurement alone knows.
fn in_json(found: &Training) -> BenchJson<'_> {
    let Phases {
        data,
        forward,
        backward,
        reduce,
        optimizer,
        ..
    } = found.phases;
    BenchJson {
        format: FORMAT,
        name: "",
        config_sha256: "",
        device: &found.device,
        parameters: found.parameters,
        steps: 0,
        warmup: 0,
        samples_per_step: found.samples,
        tokens_per_step: found.tokens,
        step_ms: spread_json(found.seconds.map(milliseconds)),
        phases_ms: PhasesJson {
            data: milliseconds(data),
            forward: milliseconds(forward),
            backward: milliseconds(backward),
            reduce: milliseconds(reduce),
            optimizer: milliseconds(optimizer),
        },
        samples_per_s: found.samples / found.seconds.median,
        tokens_per_s: found.tokens / found.seconds.median,
        peak_bytes: found.peak_bytes,
        gflop_per_step: giga(found.flops),
        gflop_per_s: giga(found.flops_per_s()),
        gb_per_step: giga(found.bytes),
        gb_per_s: giga(found.bytes_per_s()),
        limits: LimitsJson {
            gflop_per_s: giga(found.limits.flops_per_s),
            gb_per_s: giga(found.limits.bytes_per_s),
        },
        limit_share: found.limit_share(),
        against: None,
    }
}

fn print(
    args: &Bench,
    name: &str,
    found: &Training,
    against: Option<&Comparison>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let screen = Screen::stdout();
    let mut facts = Table::new(&[]).fit(screen.columns).style(screen.style);
    let mut fact = |label: &str, value: String| {
        facts.toned_row(vec![
            (Tone::Faint, label.to_string()),
            (Tone::Normal, value),
        ]);
    };
    let shown = in_json(found);
    let parameters = count(found.parameters);
    fact("config", format!("{name}, {parameters} parameters"));
    fact("device", found.device.clone());
    fact("step", step(&shown.step_ms, args));
    fact("phases", phases(&shown.phases_ms));
    fact("samples", per_second(shown.samples_per_step, found));
    if found.tokens > 0.0 {
        fact("tokens", per_second(shown.tokens_per_step, found));
    }
    let limits = &shown.limits;
    let (rate, limit) = (shown.gflop_per_s, limits.gflop_per_s);
    let per_step = shown.gflop_per_step;
    let text = against_limit(per_step, "GFLOP", rate, limit, "a matrix product");
    fact("arithmetic", text);
    let (rate, limit) = (shown.gb_per_s, limits.gb_per_s);
    let text = against_limit(shown.gb_per_step, "GB", rate, limit, "a copy");
    fact("memory", text);
    fact("peak", bytes(found.peak_bytes));
    if let Some(against) = against {
        fact("against", in_words(against));
    }
    facts.print(0, out)
}

fn step(step: &SpreadJson, args: &Bench) -> String {
    format!(
        "{} ms, 10 % below {}, 90 % below {} ({} steps after {})",
        digits(step.median),
        digits(step.p10),
        digits(step.p90),
        args.steps,
        args.warmup
    )
}

fn against_limit(per_step: f64, unit: &str, rate: f64, limit: f64, of: &str) -> String {
    format!(
        "{} {unit} a step, {} a second: {:.0} % of the {} of {of} here",
        digits(per_step),
        digits(rate),
        100.0 * rate / limit,
        digits(limit)
    )
}

fn in_words(against: &Comparison) -> String {
    let Comparison {
        file,
        same_config,
        step_ms,
        ratio,
    } = against;
    let other = if *same_config {
        ""
    } else {
        ", of another config"
    };
    let then = digits(step_ms.median);
    format!("{ratio:.3} of the {then} ms in {}{other}", printable(file))
}

fn phases(phases: &PhasesJson) -> String {
    let named = [
        ("data", phases.data),
        ("forward", phases.forward),
        ("backward", phases.backward),
        ("reduce", phases.reduce),
        ("optimizer", phases.optimizer),
    ];
    let texts = named.map(|(name, ms)| format!("{name} {}", digits(ms)));
    format!("{} ms", texts.join(", "))
}

fn per_second(per_step: f64, found: &Training) -> String {
    let rate = per_step / found.seconds.median;
    format!("{} a second, {} a step", digits(rate), digits(per_step))
}

fn spread_json(spread: Spread) -> SpreadJson {
    SpreadJson {
        median: spread.median,
        p10: spread.p10,
        p90: spread.p90,
    }
}

/// Three digits or more: no measurement of time has four that mean something.
fn digits(value: f64) -> String {
    let decimals = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

fn milliseconds(seconds: f64) -> f64 {
    1e3 * seconds
}

fn giga(value: f64) -> f64 {
    value / 1e9
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [12345.6, 123.4, 12.34, 1.234, 0.1234, 0.0].map(digits);
        assert_eq!(shown, ["12346", "123", "12.3", "1.23", "0.123", "0.000"]);
    }
}
