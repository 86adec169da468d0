//! `kubectl captf leases`: run and cluster leases, their state, and when they are free (cli.md §6).

mod gather;
mod holders;
mod owners;
mod render;

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::args::{OutputArg, parse_duration};
use super::error::Error;
use super::evaluate::{self, Evaluation, LeaseFacts, State};
use super::exit::Exit;
use super::object::Reference;
use super::output::{self, Format};
use super::report::{LeaseReport, LeaseReportList, Waiter};
use super::session::{Scope, Session};
use super::settings::Settings;
use super::time;
use crate::names::Op;

/// Arguments of `leases`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeasesArgs {
    /// Names of leases; all of them when none is given
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Leases of one object; cluster/NAME is the cluster lease and every run lease of that cluster
    #[arg(long = "for", value_name = "KIND/NAME", conflicts_with = "names")]
    owner: Option<Reference>,

    /// Run leases or cluster leases only
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    scope: Option<LeaseType>,

    /// Leases in these states only
    #[arg(long, value_name = "STATE,...", value_delimiter = ',', value_parser = states(), ignore_case = true, hide_possible_values = true)]
    state: Vec<State>,

    /// Leases that the operator would take over now
    #[arg(long)]
    free: bool,

    /// Leases that could be given back by hand
    #[arg(long)]
    stale: bool,

    /// Leases of these operations only
    #[arg(long, value_name = "OP,...", value_delimiter = ',', value_parser = ops(), hide_possible_values = true)]
    op: Vec<Op>,

    /// List under each lease who waits for it
    #[arg(long)]
    waiters: bool,

    /// Leases whose backstop passes within this time, soonest first; past ones included
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expiring_within: Option<Duration>,

    #[command(flatten)]
    output: OutputArg,

    #[command(flatten)]
    list: ListArgs,
}

/// Flags of commands that print a list (cli.md §3).
#[derive(Args, Clone, Debug)]
struct ListArgs {
    /// Look in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Label selector
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,

    /// Field selector
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    field_selector: String,

    /// Order of the rows
    #[arg(long, value_name = "COLUMN", value_enum)]
    sort_by: Option<SortBy>,

    /// Print no header
    #[arg(long)]
    no_headers: bool,

    /// Objects per request; 0 asks for all at once
    #[arg(long, value_name = "N", default_value_t = super::read::PAGE)]
    chunk_size: u32,

    /// Stop after this many rows
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// A name that does not exist is no error
    #[arg(long)]
    ignore_not_found: bool,
}

/// Which of the two leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LeaseType {
    /// The lease of one object
    Run,
    /// The write lease of a cluster
    Cluster,
}

impl LeaseType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Cluster => "cluster",
        }
    }
}

/// Order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortBy {
    /// By namespace and name
    Name,
    /// Youngest first
    Age,
    /// The backstop that passes first comes first
    Backstop,
    /// By state
    State,
    /// By owner
    Owner,
    /// By operation
    Op,
}

/// The states by their words, which completion offers.
fn states() -> impl TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.map(State::as_str)).try_map(|word| {
        State::ALL
            .into_iter()
            .find(|state| state.as_str().eq_ignore_ascii_case(&word))
            .ok_or("no lease state")
    })
}

/// The operations by their words.
fn ops() -> impl TypedValueParser<Value = Op> {
    PossibleValuesParser::new(Op::ALL.map(Op::as_str)).try_map(|word| word.parse::<Op>())
}

/// A lease with its verdict, and who waits for it where that was asked.
struct Row {
    facts: LeaseFacts,
    evaluation: Evaluation,
    waiters: Option<Vec<Waiter>>,
}

impl Row {
    /// The lease as reports show it. Made when it is printed: a report is larger than its row.
    fn report(&self, now: Timestamp) -> LeaseReport {
        evaluate::report(&self.facts, &self.evaluation, self.waiters.clone(), now)
    }
}

/// Lists leases.
///
/// # Errors
///
/// Leases that may not be listed, names that do not exist, and everything that keeps the plugin
/// from the cluster. A Job, pod or owner that cannot be read only makes the answer partial.
pub(crate) async fn run(args: &LeasesArgs, settings: Settings) -> Result<Exit, Error> {
    if args.list.all_namespaces && !args.names.is_empty() {
        return Err(Error::usage(
            "names and --all-namespaces exclude each other",
            "name the namespace with -n",
        ));
    }
    let session = Session::open(settings, args.list.all_namespaces).await?;
    let format = args.output.output;
    let detailed = args.waiters || !matches!(format, Format::Table | Format::Name);
    let found = gather::leases(&session, args, detailed).await?;
    let now = session.server.now();

    let mut rows: Vec<Row> = found
        .leases
        .into_iter()
        .map(|(facts, waiters)| {
            let evaluation = evaluate::evaluate(&facts, now);
            Row {
                facts,
                evaluation,
                waiters,
            }
        })
        .filter(|row| args.admits(row, now))
        .collect();
    args.sort(&mut rows);
    rows.truncate(args.list.limit.unwrap_or(usize::MAX));

    let text = match format {
        Format::Table | Format::Wide => render::table(&rows, args, &session, now),
        Format::Name => render::names(&rows),
        Format::Json | Format::Yaml => {
            let metadata = session.metadata(now, found.unknowns.clone());
            let items = rows.iter().map(|row| row.report(now)).collect();
            let list = LeaseReportList::new(metadata, items);
            if format == Format::Json {
                output::json(&list)?
            } else {
                output::yaml(&list)?
            }
        }
    };
    output::print(&text)?;
    if rows.is_empty() && format.is_text() && found.missing.is_none() {
        output::note(&match &session.scope {
            Scope::Namespace(namespace) => format!("No leases found in {namespace} namespace."),
            Scope::All => "No leases found.".to_owned(),
        });
    }
    let exit = session.finish(&found.unknowns)?;
    if args.list.ignore_not_found {
        Ok(exit)
    } else {
        found.missing.map_or(Ok(exit), Err)
    }
}

impl LeasesArgs {
    /// Whether a row passes the filters that need a verdict.
    fn admits(&self, row: &Row, now: Timestamp) -> bool {
        let state = self.state.is_empty() || self.state.contains(&row.evaluation.state);
        let op = self.op.is_empty() || self.op.iter().any(|op| op.as_str() == row.facts.view.op);
        let free = !self.free || row.evaluation.free == Some(true);
        let stale = !self.stale || row.report(now).releasable;
        let expiring = self.expiring_within.is_none_or(|within| {
            let within = i64::try_from(within.as_secs()).unwrap_or(i64::MAX);
            !row.facts.view.holder.is_empty()
                && row.evaluation.backstop_at <= time::plus(now, within)
        });
        state && op && free && stale && expiring
    }

    fn sort(&self, rows: &mut [Row]) {
        let default = if self.expiring_within.is_some() {
            SortBy::Backstop
        } else {
            SortBy::Name
        };
        rows.sort_by(|left, right| {
            let (a, b) = (&left.facts.view, &right.facts.view);
            let by_name = (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name));
            let chosen = match self.list.sort_by.unwrap_or(default) {
                SortBy::Name => std::cmp::Ordering::Equal,
                SortBy::Age => b.acquired_at.cmp(&a.acquired_at),
                SortBy::Backstop => left
                    .evaluation
                    .backstop_at
                    .cmp(&right.evaluation.backstop_at),
                SortBy::State => left
                    .evaluation
                    .state
                    .as_str()
                    .cmp(right.evaluation.state.as_str()),
                SortBy::Owner => {
                    (&a.owner_kind, &a.owner_name).cmp(&(&b.owner_kind, &b.owner_name))
                }
                SortBy::Op => a.op.cmp(&b.op),
            };
            chosen.then(by_name)
        });
    }
}
