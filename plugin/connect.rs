//! From the connection flags to a client configuration (cli.md §3 and §16).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::client::proxy_of_environment;

use super::error::{Error, clause, last_cause};
use super::settings::{Connection, Impersonate};

/// A resolved cluster: how to reach it, and what to call it in messages.
pub(crate) struct Target {
    /// Client configuration with every flag applied.
    pub(crate) config: Config,
    /// The context's name; none in a pod or with a bare `--server`.
    pub(crate) context: Option<String>,
}

/// Resolves the cluster: `--kubeconfig`, else the files of `KUBECONFIG`, else `~/.kube/config`,
/// else the pod's ServiceAccount; the other flags override what that says.
///
/// # Errors
///
/// A file that cannot be read, a name that is not in it, or no cluster at all.
pub(crate) async fn resolve(flags: &Connection) -> Result<Target, Error> {
    let kubeconfig =
        Source::of(flags.kubeconfig.as_deref(), |name| std::env::var_os(name)).load()?;
    let mut target = match kubeconfig {
        Loaded::Files(kubeconfig) => from_kubeconfig(*kubeconfig, flags).await?,
        Loaded::Nothing(path) => match &flags.server {
            Some(_) => Target {
                config: Config::new(http::Uri::default()),
                context: None,
            },
            None => Target {
                config: Config::incluster().map_err(|_| Error::NoCluster { path })?,
                context: None,
            },
        },
    };
    if let Some(server) = &flags.server {
        if target.context.is_none() {
            target.config.proxy_url = proxy_of_environment(|name| std::env::var(name).ok());
        }
        target.config.cluster_url = server.parse().map_err(|error| Error::Configuration {
            why: format!("--server \"{server}\" is no URL: {error}"),
        })?;
    }
    apply(flags, &mut target.config);
    Ok(target)
}

/// The names of the kubeconfig's contexts; none when it cannot be read.
pub(crate) fn contexts(flags: &Connection) -> Vec<String> {
    let source = Source::of(flags.kubeconfig.as_deref(), |name| std::env::var_os(name));
    match source.load() {
        Ok(Loaded::Files(file)) => file.contexts.into_iter().map(|entry| entry.name).collect(),
        _ => Vec::new(),
    }
}

/// Where a kubeconfig is looked for.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// `--kubeconfig`: must exist.
    Flag(PathBuf),
    /// `KUBECONFIG`: missing files are passed over, the first to set a value wins.
    Variable(Vec<PathBuf>),
    /// `~/.kube/config`: may be missing.
    Home(PathBuf),
}

/// What was found there.
enum Loaded {
    /// The merged files.
    Files(Box<Kubeconfig>),
    /// No file; the one that was expected.
    Nothing(PathBuf),
}

impl Source {
    fn of(flag: Option<&Path>, variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        if let Some(path) = flag {
            return Self::Flag(path.to_owned());
        }
        let listed: Vec<PathBuf> = variable("KUBECONFIG")
            .as_deref()
            .map(|paths: &OsStr| std::env::split_paths(paths).collect())
            .unwrap_or_default();
        let listed: Vec<_> = listed
            .into_iter()
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        if !listed.is_empty() {
            return Self::Variable(listed);
        }
        let home = variable("HOME")
            .or_else(|| variable("USERPROFILE"))
            .unwrap_or_default();
        Self::Home(Path::new(&home).join(".kube").join("config"))
    }

    fn load(self) -> Result<Loaded, Error> {
        match self {
            Self::Flag(path) => read(&path).map(|file| Loaded::Files(Box::new(file))),
            Self::Home(path) if path.exists() => {
                read(&path).map(|file| Loaded::Files(Box::new(file)))
            }
            Self::Home(path) => Ok(Loaded::Nothing(path)),
            Self::Variable(paths) => {
                let mut merged: Option<Kubeconfig> = None;
                for path in paths.iter().filter(|path| path.exists()) {
                    let file = read(path)?;
                    merged = Some(match merged {
                        None => file,
                        Some(earlier) => {
                            earlier.merge(file).map_err(|error| Error::Kubeconfig {
                                path: path.clone(),
                                why: clause(&error.to_string()),
                            })?
                        }
                    });
                }
                let first = paths.into_iter().next().unwrap_or_default();
                Ok(merged.map_or(Loaded::Nothing(first), |file| Loaded::Files(Box::new(file))))
            }
        }
    }
}

fn read(path: &Path) -> Result<Kubeconfig, Error> {
    Kubeconfig::read_from(path).map_err(|error| Error::Kubeconfig {
        path: path.to_owned(),
        why: match &error {
            KubeconfigError::ReadConfig(cause, _) => last_cause(cause),
            KubeconfigError::Parse(cause) => {
                format!("it is no valid YAML: {}", clause(&cause.to_string()))
            }
            other => clause(&other.to_string()),
        },
    })
}

async fn from_kubeconfig(kubeconfig: Kubeconfig, flags: &Connection) -> Result<Target, Error> {
    let known: Vec<String> = kubeconfig
        .contexts
        .iter()
        .map(|entry| entry.name.clone())
        .collect();
    let context = flags
        .context
        .clone()
        .or_else(|| kubeconfig.current_context.clone());
    let Some(name) = context.filter(|name| !name.is_empty()) else {
        return Err(Error::NoContext { known });
    };
    if !known.contains(&name) {
        return Err(Error::ContextNotFound { name, known });
    }
    let options = KubeConfigOptions {
        context: Some(name.clone()),
        cluster: flags.cluster.clone(),
        user: flags.user.clone(),
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| Error::Configuration {
            why: match &error {
                KubeconfigError::LoadClusterOfContext(cluster) => {
                    format!("it has no cluster \"{cluster}\"")
                }
                other => clause(&other.to_string()),
            },
        })?;
    Ok(Target {
        config,
        context: Some(name),
    })
}

/// Lets the flags override what the kubeconfig says.
fn apply(flags: &Connection, config: &mut Config) {
    if let Some(name) = &flags.tls_server_name {
        config.tls_server_name = Some(name.clone());
    }
    if let Some(insecure) = flags.insecure {
        config.accept_invalid_certs = insecure;
    }
    if let Some(path) = &flags.certificate_authority {
        config.root_cert = None;
        config.root_cert_file = Some(path.clone());
    }
    let auth = &mut config.auth_info;
    if let Some(path) = &flags.client_certificate {
        auth.client_certificate = Some(path.display().to_string());
        auth.client_certificate_data = None;
    }
    if let Some(path) = &flags.client_key {
        auth.client_key = Some(path.display().to_string());
        auth.client_key_data = None;
    }
    if let Some(token) = &flags.token {
        auth.token = Some(token.clone().into());
        auth.token_file = None;
        auth.exec = None;
    }
    let Impersonate {
        user,
        uid,
        groups,
        extra,
    } = &flags.impersonate;
    if user.is_some() {
        auth.impersonate.clone_from(user);
        auth.impersonate_uid.clone_from(uid);
        auth.impersonate_groups = (!groups.is_empty()).then(|| groups.clone());
        auth.impersonate_user_extra =
            (!extra.is_empty()).then(|| extra.clone().into_iter().collect());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Connection, Error, Loaded, Source, resolve};
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    const FILE: &str = "apiVersion: v1\nkind: Config\ncurrent-context: mgmt\n\
        contexts: [{name: mgmt, context: {cluster: c, user: u, namespace: team-a}}, {name: dev, context: {cluster: c}}]\n\
        clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n";

    fn file(text: &str) -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        (
            dir,
            Connection {
                kubeconfig: Some(path),
                ..Connection::default()
            },
        )
    }

    #[test]
    fn the_flag_beats_the_variable_and_the_variable_beats_home() {
        let variable = |name: &str| match name {
            "KUBECONFIG" => Some(OsString::from("a:b")),
            _ => Some(OsString::from("/home/ann")),
        };
        assert_eq!(
            Source::of(Some(Path::new("x")), variable),
            Source::Flag("x".into())
        );
        assert_eq!(
            Source::of(None, variable),
            Source::Variable(vec!["a".into(), "b".into()])
        );
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/ann"));
        assert_eq!(
            Source::of(None, home),
            Source::Home("/home/ann/.kube/config".into())
        );
    }

    #[test]
    fn missing_files_of_the_variable_are_passed_over() {
        let (dir, connection) = file(FILE);
        let missing = dir.path().join("missing");
        let loaded = Source::Variable(vec![missing, connection.kubeconfig.unwrap()])
            .load()
            .unwrap();
        assert!(
            matches!(loaded, Loaded::Files(file) if file.current_context.as_deref() == Some("mgmt"))
        );
    }

    #[tokio::test]
    async fn the_context_names_cluster_user_and_namespace() {
        let (_dir, connection) = file(FILE);
        let target = resolve(&connection).await.unwrap();
        assert_eq!(target.config.default_namespace, "team-a");
        assert_eq!(target.context.as_deref(), Some("mgmt"));
    }

    #[tokio::test]
    async fn an_unknown_context_names_the_known_ones() {
        let (_dir, connection) = file(FILE);
        let error = resolve(&Connection {
            context: Some("prod".into()),
            ..connection
        })
        .await
        .err()
        .unwrap();
        assert_eq!(
            error.to_string(),
            "context \"prod\" not found in kubeconfig"
        );
        assert_eq!(error.hint().unwrap(), "known contexts: mgmt, dev");
    }

    #[tokio::test]
    async fn a_file_that_is_no_yaml_is_named() {
        let (_dir, connection) = file("{{{");
        let path = connection.kubeconfig.clone().unwrap();
        let error = resolve(&connection).await.err().unwrap();
        let expected = format!(
            "cannot load kubeconfig {}: it is no valid YAML",
            path.display()
        );
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }

    #[tokio::test]
    async fn a_missing_file_of_the_flag_is_an_error() {
        let path = PathBuf::from("/nowhere/config");
        let connection = Connection {
            kubeconfig: Some(path),
            ..Connection::default()
        };
        let error = resolve(&connection).await.err().unwrap();
        assert!(matches!(error, Error::Kubeconfig { .. }));
        assert_eq!(
            error.to_string(),
            "cannot load kubeconfig /nowhere/config: file not found"
        );
    }

    #[tokio::test]
    async fn flags_override_the_kubeconfig() {
        let (_dir, connection) = file(FILE);
        let target = resolve(&Connection {
            server: Some("https://10.0.0.1:6443".into()),
            insecure: Some(true),
            ..connection
        })
        .await
        .unwrap();
        assert_eq!(target.config.cluster_url.host(), Some("10.0.0.1"));
        assert!(target.config.accept_invalid_certs);
    }
}
