//! The global flags, resolved once: everything after this is infallible.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use super::args::{ColourChoice, GlobalArgs, TimeChoice};
use super::colour::Colour;
use super::error::Error;

/// What a command needs to know of the global flags and the environment.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Which cluster, as which user.
    pub(super) connection: Connection,
    /// `-n`, when given.
    pub(super) namespace: Option<String>,
    /// Limit of one request; `None` is no limit.
    pub(super) request_timeout: Option<Duration>,
    /// Whether standard output is coloured.
    pub(super) colour: Colour,
    /// Whether tables print absolute times.
    pub(super) time: TimeChoice,
    /// Whether trees keep to ASCII.
    pub(super) ascii: bool,
    /// Width of the terminal; none when standard output is none.
    pub(super) width: Option<usize>,
    /// `-v`.
    pub(super) verbosity: u8,
    /// Whether a partial answer fails the command.
    pub(super) warnings_as_errors: bool,
}

/// The flags that name the cluster and the user (cli.md §3).
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// `--kubeconfig`.
    pub(super) kubeconfig: Option<PathBuf>,
    /// `--context`.
    pub(super) context: Option<String>,
    /// `--cluster`.
    pub(super) cluster: Option<String>,
    /// `--user`.
    pub(super) user: Option<String>,
    /// `--server`.
    pub(super) server: Option<String>,
    /// `--tls-server-name`.
    pub(super) tls_server_name: Option<String>,
    /// `--insecure-skip-tls-verify`.
    pub(super) insecure: Option<bool>,
    /// `--certificate-authority`.
    pub(super) certificate_authority: Option<PathBuf>,
    /// `--client-certificate`.
    pub(super) client_certificate: Option<PathBuf>,
    /// `--client-key`.
    pub(super) client_key: Option<PathBuf>,
    /// `--token`.
    pub(super) token: Option<String>,
    /// Who to act as.
    pub(super) impersonate: Impersonate,
}

/// Whom the requests act as (`--as…`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Impersonate {
    /// `--as`.
    pub(super) user: Option<String>,
    /// `--as-uid`.
    pub(super) uid: Option<String>,
    /// `--as-group`, in order.
    pub(super) groups: Vec<String>,
    /// `--as-user-extra`, values by key.
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl TryFrom<GlobalArgs> for Settings {
    type Error = Error;

    fn try_from(args: GlobalArgs) -> Result<Self, Self::Error> {
        let colour = Colour::resolve(args.color, std::io::stdout().is_terminal(), |name| {
            std::env::var(name).ok()
        });
        Ok(Self {
            namespace: args.namespace.filter(|name| !name.is_empty()),
            request_timeout: args.request_timeout.0,
            colour,
            time: args.time,
            ascii: args.ascii || !utf8_locale(),
            width: terminal_size::terminal_size_of(std::io::stdout())
                .map(|(width, _)| usize::from(width.0)),
            verbosity: args.verbosity,
            warnings_as_errors: args.warnings_as_errors,
            connection: Connection {
                impersonate: Impersonate {
                    user: args.as_user,
                    uid: args.as_uid,
                    groups: args.as_group,
                    extra: extras(&args.as_user_extra)?,
                },
                kubeconfig: args.kubeconfig,
                context: args.context,
                cluster: args.cluster,
                user: args.user,
                server: args.server,
                tls_server_name: args.tls_server_name,
                insecure: args.insecure_skip_tls_verify,
                certificate_authority: args.certificate_authority,
                client_certificate: args.client_certificate,
                client_key: args.client_key,
                token: args.token,
            },
        })
        .and_then(Self::checked)
    }
}

impl Settings {
    /// Refuses combinations that cannot be meant.
    fn checked(self) -> Result<Self, Error> {
        let who = &self.connection.impersonate;
        if who.user.is_none()
            && (who.uid.is_some() || !who.groups.is_empty() || !who.extra.is_empty())
        {
            return Err(Error::usage(
                "--as-uid, --as-group and --as-user-extra need --as",
                "add --as USER",
            ));
        }
        Ok(self)
    }
}

/// `KEY=VALUE` pairs, values of one key together.
fn extras(pairs: &[String]) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for pair in pairs {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| {
                Error::usage(
                    format!("--as-user-extra \"{pair}\" is not KEY=VALUE"),
                    "--as-user-extra scopes=view",
                )
            })?;
        extra
            .entry(key.to_owned())
            .or_default()
            .push(value.to_owned());
    }
    Ok(extra)
}

/// Whether the locale can print the tree's lines; without one, UTF-8 is assumed.
fn utf8_locale() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_none_or(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}

/// A choice is a choice of the flag; the environment only matters for `auto`.
impl Colour {
    /// Decides whether to colour (cli.md §13): the flag beats every variable,
    /// `NO_COLOR` beats `FORCE_COLOR`, and a pipe gets none unless forced.
    fn resolve(
        choice: ColourChoice,
        terminal: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let forced = |name: &str| set(name).is_some_and(|value| value != "0");
        let on = match choice {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => {
                if set("NO_COLOR").is_some() {
                    false
                } else if forced("FORCE_COLOR") || forced("CLICOLOR_FORCE") {
                    true
                } else {
                    terminal
                        && set("TERM").as_deref() != Some("dumb")
                        && set("CLICOLOR").as_deref() != Some("0")
                }
            }
        };
        if on { Self::On } else { Self::Off }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Colour, ColourChoice, GlobalArgs, Settings};
    use rstest::rstest;

    #[rstest]
    #[case::flag_beats_no_color(ColourChoice::Always, false, &[("NO_COLOR", "1")], Colour::On)]
    #[case::flag_beats_force(ColourChoice::Never, true, &[("FORCE_COLOR", "1")], Colour::Off)]
    #[case::terminal(ColourChoice::Auto, true, &[], Colour::On)]
    #[case::pipe(ColourChoice::Auto, false, &[], Colour::Off)]
    #[case::no_color(ColourChoice::Auto, true, &[("NO_COLOR", "1"), ("FORCE_COLOR", "1")], Colour::Off)]
    #[case::empty_no_color_counts_not(ColourChoice::Auto, true, &[("NO_COLOR", "")], Colour::On)]
    #[case::forced_pipe(ColourChoice::Auto, false, &[("CLICOLOR_FORCE", "1")], Colour::On)]
    #[case::force_zero(ColourChoice::Auto, false, &[("FORCE_COLOR", "0")], Colour::Off)]
    #[case::dumb(ColourChoice::Auto, true, &[("TERM", "dumb")], Colour::Off)]
    #[case::clicolor_zero(ColourChoice::Auto, true, &[("CLICOLOR", "0")], Colour::Off)]
    fn colour_follows_flag_then_variables_then_terminal(
        #[case] choice: ColourChoice,
        #[case] terminal: bool,
        #[case] variables: &[(&str, &str)],
        #[case] expected: Colour,
    ) {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(Colour::resolve(choice, terminal, variable), expected);
    }

    #[test]
    fn groups_without_a_user_to_act_as_are_refused() {
        let args = GlobalArgs {
            as_group: vec!["system:masters".into()],
            ..GlobalArgs::default()
        };
        assert!(
            Settings::try_from(args)
                .unwrap_err()
                .to_string()
                .contains("need --as")
        );
    }

    #[test]
    fn extra_fields_are_key_value_pairs() {
        let args = GlobalArgs {
            as_user: Some("ann".into()),
            as_user_extra: vec!["scopes=view".into(), "scopes=edit".into()],
            ..GlobalArgs::default()
        };
        let settings = Settings::try_from(args).unwrap();
        assert_eq!(
            settings.connection.impersonate.extra["scopes"],
            ["view", "edit"]
        );
    }
}
