//! The completion engine: words in, candidates out (cli.md §17).
//!
//! It speaks the lines that kubectl expects of a plugin: `value<TAB>description`, then
//! `:<directive>`. It never fails: without an answer there are simply no candidates, because a
//! non-zero exit would make kubectl drop everything.

use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};

use super::args::Limit;
use super::error::Error;
use super::evaluate::holder_operation;
use super::exit::Exit;
use super::object::{KindName, resource_of};
use super::output;
use super::read::wire::{JOB_NAME, LeaseItem, MetaItem};
use super::read::{Form, PAGE, Query, Request, Resource, list};
use super::session::Session;
use super::settings::Settings;
use super::{GlobalArgs, connect};
use crate::names::key;

/// Everything together may take this long.
const BUDGET: Duration = Duration::from_millis(1500);

/// No file names.
const NO_FILES: u8 = 4;
/// No space after the candidate.
const NO_SPACE: u8 = 2;

/// Prints the candidates for the last of `words`.
///
/// # Errors
///
/// Output that cannot be written.
pub(crate) fn complete(tree: &Command, words: &[String]) -> Result<Exit, Error> {
    let place = Place::find(tree, words);
    let mut candidates = place.fixed();
    if candidates.is_empty() {
        candidates = place.looked_up(words);
    }
    candidates.retain(|(value, _)| value.starts_with(&place.typed));
    let mut directive = NO_FILES;
    if !candidates.is_empty()
        && candidates
            .iter()
            .all(|(value, _)| value.ends_with(['/', '=']))
    {
        directive |= NO_SPACE;
    }
    let mut text = String::new();
    for (value, description) in &candidates {
        text.push_str(&place.prefix);
        text.push_str(value);
        if !description.is_empty() {
            text.push('\t');
            text.push_str(description);
        }
        text.push('\n');
    }
    output::print(&format!("{text}:{directive}\n"))?;
    Ok(Exit::Done)
}

/// A candidate and its description, which may be empty.
type Candidate = (String, String);

/// Where in the command line the cursor stands.
struct Place<'a> {
    /// The innermost command.
    command: &'a Command,
    /// The commands above it, outermost first.
    parents: Vec<&'a Command>,
    /// The flag or argument whose value is typed.
    arg: Option<&'a Arg>,
    /// Positional words before the cursor.
    given: Vec<&'a str>,
    /// What of the word is typed already.
    typed: String,
    /// What stands before that in the same word: `--output=`.
    prefix: String,
}

impl<'a> Place<'a> {
    fn find(tree: &'a Command, words: &'a [String]) -> Self {
        let (last, before) = words
            .split_last()
            .map_or(("", &[][..]), |(last, before)| (last, before));
        let mut place = Self {
            command: tree,
            parents: Vec::new(),
            arg: None,
            given: Vec::new(),
            typed: last.to_owned(),
            prefix: String::new(),
        };
        let mut flags_over = false;
        for word in before {
            if place.arg.take().is_some() {
                continue;
            }
            if word == "--" {
                flags_over = true;
            } else if word.starts_with('-') && !flags_over {
                place.arg = place
                    .flag(word)
                    .filter(|flag| takes_value(flag) && !word.contains('='));
            } else if let Some(inner) = place.subcommand(word) {
                place.parents.push(place.command);
                place.command = inner;
            } else {
                place.given.push(word);
            }
        }
        if place.arg.is_none() {
            match last.split_once('=') {
                Some((flag, value)) if last.starts_with("--") => {
                    place.arg = place.flag(flag);
                    place.typed = value.to_owned();
                    place.prefix = format!("{flag}=");
                }
                _ if last.starts_with('-') => {}
                _ => place.arg = place.positional(),
            }
        }
        place.go_to_last_of_list();
        place
    }

    /// Of a list of values, only the last is being typed.
    fn go_to_last_of_list(&mut self) {
        let delimiter = self.arg.and_then(Arg::get_value_delimiter);
        if let Some((before, last)) = delimiter.and_then(|mark| self.typed.rsplit_once(mark)) {
            self.prefix.push_str(before);
            self.prefix.push(',');
            self.typed = last.to_owned();
        }
    }

    fn subcommand(&self, word: &str) -> Option<&'a Command> {
        if !self.given.is_empty() {
            return None;
        }
        self.command.get_subcommands().find(|inner| {
            inner.get_name() == word || inner.get_all_aliases().any(|alias| alias == word)
        })
    }

    /// Flags of the command, and those of its parents that are global.
    fn flags(&self) -> impl Iterator<Item = &'a Arg> {
        let own = self.command.get_arguments();
        let inherited = self
            .parents
            .iter()
            .flat_map(|parent| parent.get_arguments());
        own.chain(inherited.filter(|arg| arg.is_global_set()))
            .filter(|arg| !arg.is_positional())
    }

    fn flag(&self, word: &str) -> Option<&'a Arg> {
        let name = word.split('=').next().unwrap_or_default();
        self.flags().find(|arg| {
            let long = arg
                .get_long()
                .is_some_and(|long| name.strip_prefix("--") == Some(long));
            let short = arg
                .get_short()
                .is_some_and(|short| name.strip_prefix('-') == Some(&short.to_string()));
            long || short
        })
    }

    fn positional(&self) -> Option<&'a Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let last = all.last().copied().filter(|arg| is_repeated(arg));
        all.get(self.given.len()).copied().or(last)
    }

    /// Candidates that need no cluster.
    fn fixed(&self) -> Vec<Candidate> {
        if let Some(arg) = self.arg {
            if arg.get_id() == "output" {
                return output::Format::ALL
                    .iter()
                    .map(|(name, _)| ((*name).to_owned(), String::new()))
                    .collect();
            }
            let known = arg.get_possible_values();
            let described = |text: Option<&clap::builder::StyledStr>| {
                text.map(ToString::to_string).unwrap_or_default()
            };
            return known
                .iter()
                .filter(|value| !value.is_hide_set())
                .map(|value| (value.get_name().to_owned(), described(value.get_help())))
                .collect();
        }
        if self.typed.starts_with('-') {
            return self.flag_candidates();
        }
        self.command
            .get_subcommands()
            .filter(|inner| !inner.is_hide_set())
            .map(|inner| (inner.get_name().to_owned(), one_line(inner.get_about())))
            .collect()
    }

    fn flag_candidates(&self) -> Vec<Candidate> {
        let mut flags: Vec<Candidate> = self
            .flags()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(|arg| Some((format!("--{}", arg.get_long()?), one_line(arg.get_help()))))
            .collect();
        flags.sort();
        flags.dedup();
        flags
    }

    /// Candidates that the cluster or the kubeconfig knows.
    fn looked_up(&self, words: &[String]) -> Vec<Candidate> {
        let Some(source) = self.arg.and_then(|arg| Source::of(self.command, arg)) else {
            return Vec::new();
        };
        let kind = match (self.typed.split_once('/'), self.given.as_slice()) {
            (Some((kind, _)), _) => Some(Typed {
                kind: kind.parse().ok(),
                prefix: format!("{kind}/"),
            }),
            (None, [kind]) if source == Source::Objects && kind.parse::<KindName>().is_ok() => {
                Some(Typed {
                    kind: kind.parse().ok(),
                    prefix: String::new(),
                })
            }
            _ => None,
        };
        let mut found = source.candidates(words, kind);
        found.retain(|(value, _)| !self.given.contains(&value.as_str()));
        found
    }
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set()
}

fn is_repeated(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn one_line(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string)
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// A kind that is typed already: names are completed in its spelling.
struct Typed {
    /// The kind; none when it is no known one.
    kind: Option<KindName>,
    /// What stands before the name in the same word.
    prefix: String,
}

/// What is listed for a kind, and the label that ours have.
fn listed_for(kind: KindName) -> (Resource, &'static str) {
    match kind {
        KindName::Workload(kind) => (resource_of(kind), ""),
        KindName::Cluster => (Resource::CLUSTERS, ""),
        KindName::Job => (Resource::JOBS, key::OWNER_KIND),
        KindName::Pod => (Resource::PODS, JOB_NAME),
        KindName::Lease => (Resource::LEASES, key::LEASE),
    }
}

/// Where the values of an argument come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Contexts of the kubeconfig.
    Contexts,
    /// Namespaces of the cluster.
    Namespaces,
    /// Leases of the namespace.
    Leases,
    /// Objects as KIND/NAME.
    Objects,
}

impl Source {
    fn of(command: &Command, arg: &Arg) -> Option<Self> {
        match (command.get_name(), arg.get_id().as_str()) {
            (_, "context") => Some(Self::Contexts),
            (_, "namespace") => Some(Self::Namespaces),
            ("leases", "names") => Some(Self::Leases),
            ("leases", "owner") | ("why", "objects") => Some(Self::Objects),
            _ => None,
        }
    }

    /// Looks the candidates up within the budget; every failure is an empty list.
    fn candidates(self, words: &[String], kind: Option<Typed>) -> Vec<Candidate> {
        let Ok(settings) = Settings::try_from(globals(words)) else {
            return Vec::new();
        };
        if self == Self::Contexts {
            return connect::contexts(&settings.connection)
                .into_iter()
                .map(|name| (name, String::new()))
                .collect();
        }
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        else {
            return Vec::new();
        };
        let mut found = runtime.block_on(async {
            let found = tokio::time::timeout(BUDGET, self.ask(settings, kind.as_ref())).await;
            found.ok().and_then(Result::ok).unwrap_or_default()
        });
        if self == Self::Objects && kind.is_none() && !found.is_empty() {
            let kinds = ["cluster/", "job/", "lease/"];
            found.extend(kinds.map(|kind| (kind.to_owned(), String::new())));
        }
        found
    }

    async fn ask(self, settings: Settings, kind: Option<&Typed>) -> Result<Vec<Candidate>, Error> {
        let session = Session::open(settings, false).await?;
        let namespace = session.scope.namespace();
        let page = Query {
            limit: PAGE,
            cached: true,
            ..Query::default()
        };
        match self {
            Self::Contexts => Ok(Vec::new()),
            Self::Namespaces => {
                let request = Request::list(Resource::NAMESPACES, None);
                let all: Vec<MetaItem> =
                    list(&session.server, &request, &page, Form::Metadata).await?;
                Ok(all
                    .into_iter()
                    .map(|item| (item.metadata.name, String::new()))
                    .collect())
            }
            Self::Leases => {
                let request = Request::list(Resource::LEASES, namespace);
                let page = Query {
                    labels: key::LEASE.to_owned(),
                    ..page
                };
                let all: Vec<LeaseItem> =
                    list(&session.server, &request, &page, Form::Objects).await?;
                Ok(all
                    .into_iter()
                    .map(|lease| lease.view())
                    .map(|view| (view.name.clone(), holder_operation(&view)))
                    .collect())
            }
            Self::Objects => {
                let (resource, prefix, label) = match kind {
                    Some(Typed { kind: None, .. }) => return Ok(Vec::new()),
                    Some(Typed {
                        kind: Some(kind),
                        prefix,
                    }) => {
                        let (resource, label) = listed_for(*kind);
                        (resource, prefix.clone(), label)
                    }
                    None => {
                        let resource = Resource::TERRAFORM_CLUSTERS;
                        (resource, format!("{}/", resource.singular), "")
                    }
                };
                let request = Request::list(resource, namespace);
                let page = Query {
                    labels: label.to_owned(),
                    ..page
                };
                let all: Vec<MetaItem> = list(
                    &Arc::clone(&session.server),
                    &request,
                    &page,
                    Form::Metadata,
                )
                .await?;
                Ok(all
                    .into_iter()
                    .map(|item| (format!("{prefix}{}", item.metadata.name), String::new()))
                    .collect())
            }
        }
    }
}

/// The global flags among the words before the cursor: those that choose cluster and namespace.
fn globals(words: &[String]) -> GlobalArgs {
    let value = |names: &[&str]| {
        words.iter().enumerate().rev().find_map(|(at, word)| {
            names.iter().find_map(|name| {
                if word == name {
                    // The word under the cursor is no value yet.
                    words.get(at + 1).filter(|_| at + 2 < words.len()).cloned()
                } else {
                    word.strip_prefix(name)?
                        .strip_prefix('=')
                        .map(str::to_owned)
                }
            })
        })
    };
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    GlobalArgs {
        kubeconfig: value(&["--kubeconfig"]).map(Into::into),
        context: value(&["--context"]).or_else(|| variable("KUBECTL_CAPTF_CONTEXT")),
        cluster: value(&["--cluster"]),
        user: value(&["--user"]),
        namespace: value(&["-n", "--namespace"]).or_else(|| variable("KUBECTL_CAPTF_NAMESPACE")),
        as_user: value(&["--as"]),
        request_timeout: Limit(Some(BUDGET)),
        ..GlobalArgs::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{GlobalArgs, Place, globals};
    use clap::{Arg, ArgAction, Command};

    fn tree() -> Command {
        Command::new("captf")
            .arg(
                Arg::new("namespace")
                    .short('n')
                    .long("namespace")
                    .global(true),
            )
            .subcommand(
                Command::new("leases")
                    .alias("ls")
                    .about("List leases")
                    .arg(Arg::new("names").action(ArgAction::Append).num_args(0..))
                    .arg(
                        Arg::new("sort")
                            .long("sort-by")
                            .value_parser(["name", "age"]),
                    )
                    .arg(
                        Arg::new("state")
                            .long("state")
                            .action(ArgAction::Append)
                            .value_delimiter(',')
                            .value_parser(["Held", "Free"]),
                    ),
            )
            .subcommand(Command::new("why").about("Explain"))
    }

    fn values(words: &[&str]) -> Vec<String> {
        let (tree, words) = (
            tree(),
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        );
        let place = Place::find(&tree, &words);
        let mut fixed = place.fixed();
        fixed.retain(|(value, _)| value.starts_with(&place.typed));
        fixed
            .into_iter()
            .map(|(value, _)| format!("{}{value}", place.prefix))
            .collect()
    }

    #[test]
    fn an_empty_word_offers_the_commands() {
        assert_eq!(values(&[""]), ["leases", "why"]);
        assert_eq!(values(&["-n", "team-a", "w"]), ["why"]);
    }

    #[test]
    fn a_dash_offers_own_and_global_flags() {
        assert_eq!(
            values(&["leases", "--"]),
            ["--namespace", "--sort-by", "--state"]
        );
    }

    #[test]
    fn a_flag_offers_its_values_in_both_spellings() {
        assert_eq!(values(&["ls", "--sort-by", "a"]), ["age"]);
        assert_eq!(values(&["ls", "--sort-by=a"]), ["--sort-by=age"]);
    }

    #[test]
    fn the_last_value_of_a_list_is_completed() {
        assert_eq!(values(&["ls", "--state", "H"]), ["Held"]);
        assert_eq!(values(&["ls", "--state", "Held,F"]), ["Held,Free"]);
        assert_eq!(values(&["ls", "--state=Held,F"]), ["--state=Held,Free"]);
    }

    #[test]
    fn flags_before_the_cursor_choose_the_cluster() {
        let words: Vec<String> = ["-n", "team-a", "--context=prod", "leases", ""]
            .map(str::to_owned)
            .into();
        let GlobalArgs {
            namespace, context, ..
        } = globals(&words);
        assert_eq!(
            (namespace.as_deref(), context.as_deref()),
            (Some("team-a"), Some("prod"))
        );
    }
}
