//! How the program gets to a cluster: through which proxy, with whose credentials, under what name.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::program::{bare, said};

/// A proxy on this machine that tunnels one connection to an API server without leases. Answers with
/// its port and what it was asked, once the connection is over.
fn proxy() -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut asked = String::new();
        let mut head = |asked: &mut String| {
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 0 && line != "\r\n" {
                asked.push_str(&line);
                line.clear();
            }
            line == "\r\n"
        };
        head(&mut asked);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        while head(&mut asked) {
            let body = r#"{"metadata":{},"items":[]}"#;
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
        asked
    });
    (port, asked)
}

/// A kubeconfig whose cluster and user have these settings too.
fn kubeconfig(cluster: &str, user: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: mgmt\n\
         contexts: [{{name: mgmt, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://api.invalid:6443'{cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    );
    fs::write(&path, text).unwrap();
    (dir, path)
}

#[test]
fn the_kubeconfigs_proxy_is_used_with_its_password() {
    let (port, asked) = proxy();
    let (_dir, path) = kubeconfig(
        &format!(", proxy-url: 'http://ann:p%40ss@127.0.0.1:{port}'"),
        "token: t",
    );
    let said = said(bare().env("KUBECONFIG", &path).args(["leases", "x"]));
    let asked = asked.join().unwrap().to_ascii_lowercase();
    assert!(
        asked.starts_with("connect api.invalid:6443 http/1.1\r\n"),
        "{asked} {said:?}"
    );
    // base64 of "ann:p@ss".
    assert!(
        asked.contains("proxy-authorization: basic yw5uonbac3m="),
        "{asked}"
    );
}

#[test]
fn the_environments_proxy_is_used_and_every_request_names_the_program() {
    let (port, asked) = proxy();
    let (_dir, path) = kubeconfig("", "token: t");
    let said = said(
        bare()
            .env("KUBECONFIG", &path)
            .env("HTTPS_PROXY", format!("http://127.0.0.1:{port}"))
            .env("NO_PROXY", "example.com")
            .args(["leases", "x"]),
    );
    let asked = asked.join().unwrap();
    assert!(
        asked.starts_with("CONNECT api.invalid:6443"),
        "{asked} {said:?}"
    );
    let agent = format!(
        "user-agent: kubectl-captf/{}\r\n",
        env!("CARGO_PKG_VERSION")
    );
    assert!(asked.contains(&agent), "{asked}");
}

#[test]
fn a_host_of_no_proxy_is_reached_without_the_environments_proxy() {
    let (_dir, path) = kubeconfig("", "token: t");
    let said = said(
        bare()
            .env("KUBECONFIG", &path)
            .env("HTTPS_PROXY", "http://127.0.0.1:1")
            .env("NO_PROXY", ".invalid")
            .args(["leases"]),
    );
    assert!(
        said.is_refusal() && !said.stderr.contains("via proxy"),
        "{said:?}"
    );
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named_without_its_password() {
    let (_dir, path) = kubeconfig("", "token: t");
    let said = said(
        bare()
            .env("KUBECONFIG", &path)
            .env("https_proxy", "http://ann:secret@127.0.0.1:1")
            .args(["leases"]),
    );
    assert_eq!(said.code, 1);
    assert_eq!(
        said.stderr.lines().next(),
        Some(
            "error: cannot reach http://api.invalid:6443 (context mgmt) via proxy http://127.0.0.1:1 (from HTTPS_PROXY): \
             connection refused"
        )
    );
}

#[test]
fn a_proxy_of_an_unknown_kind_is_refused() {
    let (_dir, path) = kubeconfig(", proxy-url: 'ftp://127.0.0.1:1'", "token: t");
    let said = said(bare().env("KUBECONFIG", &path).args(["leases"]));
    assert!(
        said.is_refusal() && said.stderr.contains("ftp://127.0.0.1:1"),
        "{said:?}"
    );
}

const EXEC: &str = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never";

#[test]
fn a_missing_credential_plugin_is_named_with_its_install_hint() {
    let (_dir, path) = kubeconfig(
        "",
        &format!(
            "exec: {{{EXEC}, command: captf-no-such-plugin, installHint: 'Install it from example.com.'}}"
        ),
    );
    let said = said(bare().env("KUBECONFIG", &path).args(["leases"]));
    assert_eq!(said.code, 1);
    assert_eq!(
        said.stderr,
        "error: credential plugin \"captf-no-such-plugin\" not found\nhint: install it from example.com\n"
    );
}

#[test]
fn a_failing_credential_plugin_is_named_with_its_exit_code_and_last_line() {
    let (_dir, path) = kubeconfig(
        "",
        &format!(
            "exec: {{{EXEC}, command: /bin/sh, args: [-c, 'echo first >&2; echo no session >&2; exit 7']}}"
        ),
    );
    let said = said(bare().env("KUBECONFIG", &path).args(["leases"]));
    assert_eq!(
        said.stderr.lines().next(),
        Some("error: credential plugin \"/bin/sh\" exited 7: no session")
    );
}
