//! The report for people: headline, chain with its facts, what happens next, what to do (cli.md §7.6).

use jiff::Timestamp;

use super::lines::{Line, joined};
use super::report::{Action, LeaseLink, Next, Node, PodLink, Verdict, WhyReport};
use crate::names::Kind;
use crate::plugin::args::TimeChoice;
use crate::plugin::colour::{Colour, Tone, printable};
use crate::plugin::report::{JobReport, Unknown};
use crate::plugin::time;

/// How to draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Colours.
    pub(crate) colour: Colour,
    /// ASCII tree lines only.
    pub(crate) ascii: bool,
    /// Width of the terminal; none in a pipe, where nothing is broken.
    pub(crate) width: Option<usize>,
    /// How times are printed.
    pub(crate) time: TimeChoice,
}

/// The whole answer.
pub(crate) fn text(report: &WhyReport, style: Style) -> String {
    let now = report.metadata.server_time.0;
    let mut lines = vec![Line::prose(headline(report, style, now), 2)];
    if !is_plain(report) {
        lines.push(Line::whole(""));
        lines.push(Line::whole("Chain"));
        for node in &report.chain {
            lines.extend(link(report, node, style, now));
        }
    }
    if report.verdict == Verdict::Unknown {
        let unknowns = report.metadata.unknowns.iter().map(missing);
        lines.extend(unknowns.map(|text| Line::prose(text, 2)));
    }
    if !report.next.is_empty() {
        lines.push(Line::whole(""));
        lines.push(Line::whole("Next"));
        let next = report
            .next
            .iter()
            .map(|next| sentence(next, now, style.time));
        lines.extend(next.map(|text| Line::prose(format!(" - {}", printable(&text)), 3)));
    }
    lines.extend(to_do(report, style));
    joined(lines, style.width)
}

/// A read that would have answered: `missing: get jobs in namespace team-b`.
fn missing(unknown: &Unknown) -> String {
    let place = unknown
        .namespace
        .as_ref()
        .map(|namespace| format!(" in namespace {namespace}"));
    printable(&format!(
        "missing: {} {}{}",
        unknown.verb,
        unknown.resource,
        place.unwrap_or_default()
    ))
}

/// Idle needs no chain.
fn is_plain(report: &WhyReport) -> bool {
    report.verdict == Verdict::Idle && report.chain.iter().all(|node| node.warnings.is_empty())
}

fn headline(report: &WhyReport, style: Style, now: Timestamp) -> String {
    let object = format!(
        "{}/{}",
        report.object.kind.to_ascii_lowercase(),
        report.object.name
    );
    let verdict = style
        .colour
        .paint(report.verdict.headline(), tone(report.verdict));
    let left = report
        .chain
        .first()
        .and_then(|node| node.gap.as_ref())
        .map(|gap| {
            format!(
                ", {} left",
                time::short(time::left_seconds(now, gap.free_at.0).max(0))
            )
        })
        .unwrap_or_default();
    format!(
        "{}: {verdict}  {}{left}",
        printable(&object),
        printable(&report.summary)
    )
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Idle | Verdict::Running => Tone::Good,
        Verdict::Waiting | Verdict::BackingOff | Verdict::Paused => Tone::Wait,
        Verdict::NeedsAction | Verdict::DeletionHeld | Verdict::Unreconciled | Verdict::Unknown => {
            Tone::Bad
        }
    }
}

/// One link with its facts below it.
fn link(report: &WhyReport, node: &Node, style: Style, now: Timestamp) -> Vec<Line> {
    let depth = depth(report, node);
    let branch = match (depth, style.ascii) {
        (0, _) => String::new(),
        (depth, false) => format!("{}└─ ", "   ".repeat(depth - 1)),
        (depth, true) => format!("{}`- ", "   ".repeat(depth - 1)),
    };
    let root = report.root.node == node.node && report.chain.len() > 1;
    let mark = if root {
        style.colour.paint("  <- root", Tone::Bad)
    } else {
        String::new()
    };
    let number = node.node + 1;
    let head = format!(
        "{number:>2} {branch}{}  {}{mark}",
        printable(&node.object.short()),
        printable(&node.message)
    );
    let column = 5 + 3 * depth;
    let mut lines = vec![Line::prose(head, column)];
    let indent = " ".repeat(column);
    // The facts stand in a column of their own, after a word of nine letters and two blanks.
    let fact = |text: String| Line::prose(text, column + 11);
    for (word, text) in facts(report, node, now) {
        let line = format!("{indent}{word:<9}  {}", printable(&text));
        lines.push(fact(style.colour.paint(&line, Tone::Dim)));
    }
    for warning in &node.warnings {
        let line = format!("{indent}{:<9}  {}", "warning", printable(&warning.message));
        lines.push(fact(style.colour.paint(&line, Tone::Wait)));
    }
    lines
}

fn depth(report: &WhyReport, node: &Node) -> usize {
    let mut depth = 0;
    let mut parent = node.parent;
    while let Some(up) = parent.and_then(|number| report.chain.get(number)) {
        depth += 1;
        parent = up.parent;
    }
    depth
}

fn facts(report: &WhyReport, node: &Node, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for fact in node.evidence.iter().filter(|fact| fact.kind == "Condition") {
        let value = fact.value.replace('/', " ");
        let since = since(report, &fact.field, &fact.value, fact.observed_at.0, now);
        lines.push((
            "condition",
            format!("{}={value}, since {since}", fact.field),
        ));
    }
    if let Some(lease) = &node.lease {
        lines.push(("lease", lease_line(lease, now)));
    }
    match &node.job {
        Some(Some(job)) => lines.push(("job", job_line(job, now))),
        Some(None) => lines.push(("job", "could not be read".into())),
        None => {}
    }
    if let Some(pod) = &node.pod {
        lines.push(("pod", pod_line(pod, now)));
    }
    if let Some(gap) = &node.gap {
        lines.extend(gap.also_held.iter().map(|lease| {
            (
                "lease",
                format!("{lease}, same holder: machines of the cluster wait too"),
            )
        }));
    }
    lines
}

/// `9m (event)` when the time is exact, else `<=9m`.
fn since(report: &WhyReport, kind: &str, value: &str, time: Timestamp, now: Timestamp) -> String {
    let dated = report.since.as_ref().filter(|_| {
        value.ends_with(&report.code) || kind.starts_with("ApplyJob") || report.chain.len() == 1
    });
    match dated {
        Some(since) if since.exact => {
            format!("{} (event)", time::age(now, since.time.0))
        }
        _ => format!("<={}", time::age(now, time)),
    }
}

fn lease_line(lease: &LeaseLink, now: Timestamp) -> String {
    let age = time::age(now, lease.acquired_at.0);
    if lease.holder.is_empty() {
        return format!("{} {}", lease.name, lease.state);
    }
    let word = if lease.state == "Reserved" || lease.state == "HashGap" {
        "last refreshed"
    } else {
        "taken"
    };
    format!(
        "{} {} by {}, {word} {age} ago",
        lease.name, lease.state, lease.holder
    )
}

fn job_line(job: &JobReport, now: Timestamp) -> String {
    let name = job.name.as_deref().unwrap_or("it");
    if !job.exists {
        return format!("{name} does not exist");
    }
    let mut text = format!("{name} {}", job.state.unwrap_or("exists"));
    if let Some(finished) = job.finished_at {
        text.push_str(&format!(" {} ago", time::age(now, finished.0)));
    } else if let Some(started) = job.start_time {
        text.push_str(&format!(", started {} ago", time::age(now, started.0)));
        if let Some(deadline) = job.deadline {
            text.push_str(&format!(", deadline {}", time::countdown(now, deadline.0)));
        }
    }
    text
}

fn pod_line(pod: &PodLink, now: Timestamp) -> String {
    let mut text = format!("{} {}", pod.name, pod.phase);
    if let Some(reason) = &pod.waiting {
        text.push_str(&format!(" ({reason})"));
    }
    if let Some(node) = &pod.node {
        text.push_str(&format!(" on {node}"));
    }
    if let Some(since) = pod.stopping_since {
        text.push_str(&format!(", terminating since {}", time::age(now, since.0)));
    }
    text
}

/// A sentence with its bound: nothing is promised without one.
fn sentence(next: &Next, now: Timestamp, choice: TimeChoice) -> String {
    let message = &next.message;
    match (next.earliest, next.expected, next.latest) {
        (Some(earliest), _, Some(latest)) if earliest == latest => {
            format!(
                "{} ({}) {message}",
                time::countdown(now, latest.0),
                time::clock_time(latest.0, choice)
            )
        }
        (_, Some(expected), _) => {
            format!(
                "expected by {}: {message}",
                time::clock_time(expected.0, choice)
            )
        }
        (_, _, Some(latest)) if next.certain => {
            format!(
                "at {} at the latest {message}",
                time::clock_time(latest.0, choice)
            )
        }
        (_, _, Some(latest)) => format!("by {} {message}", time::clock_time(latest.0, choice)),
        _ => message.clone(),
    }
}

fn to_do(report: &WhyReport, style: Style) -> Vec<Line> {
    let mut lines = vec![Line::whole("")];
    let required: Vec<&Action> = report
        .actions
        .iter()
        .filter(|action| action.required)
        .collect();
    if required.is_empty() {
        lines.push(Line::whole(match report.verdict {
            Verdict::Waiting => "Nothing to do. Waiting costs no attempt and no backoff.",
            Verdict::NeedsAction | Verdict::DeletionHeld => "It goes on when a person acts.",
            _ => "Nothing to do.",
        }));
    } else {
        lines.push(Line::whole("Do"));
        lines.extend(required.iter().map(|action| item(action, style)));
    }
    let optional: Vec<&Action> = report
        .actions
        .iter()
        .filter(|action| !action.required)
        .collect();
    if !optional.is_empty() {
        lines.push(Line::whole("May help"));
        lines.extend(optional.iter().map(|action| item(action, style)));
    }
    let never = report.do_not.iter();
    lines.extend(never.map(|never| Line::prose(format!("Do not: {never}"), 8)));
    lines
}

fn item(action: &Action, style: Style) -> Line {
    if action.command.is_empty() {
        return Line::prose(format!(" - {}", printable(&action.description)), 3);
    }
    let command = action
        .command
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ");
    let command = style.colour.paint(&printable(&command), Tone::Command);
    Line::whole(format!(" - {}: {command}", printable(&action.description)))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

/// `-o name`: what kubectl takes.
pub(crate) fn name(report: &WhyReport) -> String {
    let resource = crate::plugin::object::resource_of(Kind::TerraformCluster);
    format!(
        "{}.{}/{}\n",
        resource.singular, resource.group, report.object.name
    )
}
