//! The table of `leases` (cli.md §6).

use jiff::Timestamp;

use super::{LeasesArgs, Row};
use crate::plugin::args::TimeChoice;
use crate::plugin::colour::Tone;
use crate::plugin::evaluate::{Evaluation, Fact, LeaseFacts, State};
use crate::plugin::output::{self, Field, Format};
use crate::plugin::read::Resource;
use crate::plugin::report::{FreesKind, LeaseReport};
use crate::plugin::session::{Scope, Session};
use crate::plugin::time;

/// No value.
const NONE: &str = "-";
/// Looked up and absent.
const ABSENT: &str = "<none>";
/// Could not be read.
const UNREADABLE: &str = "?";

const COLUMNS: [&str; 8] = [
    "NAME", "TYPE", "FOR", "OP", "STATE", "AGE", "FREES", "BACKSTOP",
];
const WIDE_COLUMNS: [&str; 6] = [
    "HOLDER",
    "JOB",
    "PODS",
    "ACQUIRED",
    "BACKSTOP-AT",
    "WAITERS",
];

/// `lease.coordination.k8s.io/NAME` lines, usable by kubectl.
pub(super) fn names(rows: &[Row]) -> String {
    let line = |row: &Row| {
        format!(
            "{}.{}/{}\n",
            Resource::LEASES.singular,
            Resource::LEASES.group,
            row.facts.view.name
        )
    };
    rows.iter().map(line).collect()
}

/// The rows for people.
pub(super) fn table(rows: &[Row], args: &LeasesArgs, session: &Session, now: Timestamp) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let wide = args.output.output == Format::Wide;
    let everywhere = session.scope == Scope::All;
    let mut header = Vec::new();
    if everywhere {
        header.push("NAMESPACE");
    }
    header.extend(COLUMNS);
    if wide {
        header.extend(WIDE_COLUMNS);
    }
    let fields = |number: usize| {
        rows.get(number).map_or_else(Vec::new, |row| {
            let shown = Shown {
                facts: &row.facts,
                evaluation: &row.evaluation,
                report: row.report(now),
            };
            let mut fields = Vec::with_capacity(header.len());
            if everywhere {
                fields.push(Field::from(shown.report.namespace.as_str()));
            }
            fields.extend(narrow(&shown, session.settings.time, now, wide));
            if wide {
                fields.extend(widened(&shown, session.settings.time));
            }
            fields
        })
    };
    let with_header = !args.list.no_headers;
    let colour = session.settings.colour;
    let text = output::table(&header, rows.len(), fields, with_header, colour);
    if args.waiters {
        with_waiters(&text, rows, with_header)
    } else {
        text
    }
}

/// A lease while its row is made.
struct Shown<'a> {
    facts: &'a LeaseFacts,
    evaluation: &'a Evaluation,
    report: LeaseReport,
}

fn narrow(row: &Shown<'_>, style: TimeChoice, now: Timestamp, wide: bool) -> Vec<Field> {
    let report = &row.report;
    let held = !report.holder.is_empty();
    let state = row.evaluation.state;
    vec![
        report.name.as_str().into(),
        report.scope.as_str().into(),
        owner(row, wide).into(),
        or_none(&report.operation).into(),
        Field::toned(report.state, tone(state)),
        if held {
            age(row, style, now)
        } else {
            NONE.to_owned()
        }
        .into(),
        frees(row, style, now).into(),
        if held {
            backstop(row, style, now)
        } else {
            NONE.into()
        },
    ]
}

fn widened(row: &Shown<'_>, style: TimeChoice) -> Vec<Field> {
    let report = &row.report;
    let held = !report.holder.is_empty();
    let dash = || NONE.to_owned();
    let job = match &row.facts.job {
        _ if !held => dash(),
        Fact::Found(job) => job.state.as_str().to_owned(),
        Fact::Absent => ABSENT.to_owned(),
        Fact::NotRead | Fact::Unreadable(_) => UNREADABLE.to_owned(),
    };
    let pods = match &report.pods {
        None => dash(),
        Some(None) => UNREADABLE.to_owned(),
        Some(Some(pods)) => pods.running.to_string(),
    };
    let waiters = report
        .waiters
        .as_ref()
        .map_or_else(dash, |waiters| waiters.len().to_string());
    vec![
        or_none(&report.holder).into(),
        job.into(),
        pods.into(),
        if held {
            time::absolute(row.facts.view.acquired_at, style)
        } else {
            dash()
        }
        .into(),
        if held {
            time::absolute(row.evaluation.backstop_at, style)
        } else {
            dash()
        }
        .into(),
        waiters.into(),
    ]
}

/// `terraformmachine/<name>`; a cluster lease belongs to its cluster.
fn owner(row: &Shown<'_>, wide: bool) -> String {
    let report = &row.report;
    if report.scope == "cluster" && !report.owner.cluster_name.is_empty() {
        return format!("cluster/{}", report.owner.cluster_name);
    }
    let gone = if wide && report.owner.exists == Some(false) {
        " (gone)"
    } else {
        ""
    };
    format!(
        "{}/{}{gone}",
        report.owner.kind.to_ascii_lowercase(),
        report.owner.name
    )
}

fn age(row: &Shown<'_>, style: TimeChoice, now: Timestamp) -> String {
    match style {
        TimeChoice::Relative => time::age(now, row.facts.view.acquired_at),
        TimeChoice::Utc | TimeChoice::Local => time::absolute(row.facts.view.acquired_at, style),
    }
}

/// The earliest sure bound: an expected time is no promise and stands in the report only.
fn frees(row: &Shown<'_>, style: TimeChoice, now: Timestamp) -> String {
    let frees = &row.report.frees;
    let at = |prefix: &str| {
        frees.latest.map_or_else(
            || UNREADABLE.to_owned(),
            |latest| match style {
                TimeChoice::Relative if prefix.is_empty() => time::countdown(now, latest.0),
                TimeChoice::Relative => {
                    format!("{prefix}{}", time::short(time::left_seconds(now, latest.0)))
                }
                TimeChoice::Utc | TimeChoice::Local => {
                    format!("{prefix}{}", time::absolute(latest.0, style))
                }
            },
        )
    };
    match frees.kind {
        FreesKind::Now => "now".into(),
        FreesKind::Grace => at(""),
        FreesKind::PodStop => at("<="),
        FreesKind::Refreshed => "refreshed".into(),
        FreesKind::Unknown => UNREADABLE.into(),
    }
}

fn backstop(row: &Shown<'_>, style: TimeChoice, now: Timestamp) -> Field {
    let text = match style {
        TimeChoice::Relative => time::countdown(now, row.evaluation.backstop_at),
        TimeChoice::Utc | TimeChoice::Local => time::absolute(row.evaluation.backstop_at, style),
    };
    let job_runs = row
        .facts
        .job
        .found()
        .is_some_and(|job| !job.state.is_finished());
    let overdue = row.report.backstop.expired && (job_runs || !row.evaluation.pods.is_empty());
    Field::toned(text, if overdue { Tone::Bad } else { Tone::Plain })
}

fn tone(state: State) -> Tone {
    match state {
        State::Free | State::HolderFinished | State::HolderMissing => Tone::Good,
        State::Held | State::Reserved | State::HashGap | State::Starting | State::Stopping => {
            Tone::Wait
        }
        State::PastBackstop | State::Unknown => Tone::Bad,
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() {
        NONE.to_owned()
    } else {
        text.to_owned()
    }
}

/// Puts the waiters of each lease under its line.
fn with_waiters(table: &str, rows: &[Row], header: bool) -> String {
    let mut text = String::new();
    for (number, line) in table.lines().enumerate() {
        text.push_str(line);
        text.push('\n');
        let row = number
            .checked_sub(usize::from(header))
            .and_then(|index| rows.get(index));
        for waiter in row
            .and_then(|row| row.waiters.as_ref())
            .into_iter()
            .flatten()
        {
            let kind = waiter.kind.to_ascii_lowercase();
            text.push_str(&format!(
                "  waiting: {kind}/{} ({})\n",
                waiter.name, waiter.operation
            ));
        }
    }
    text
}
