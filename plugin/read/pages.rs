//! Lists in pages, the next page asked for while the present one still arrives.
//!
//! The API server writes the continue token before the items, so it can be read from the first
//! bytes of a page (engineering.md §7.4).

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::request::Request;
use super::server::{ApiServer, Form, Query, decode};
use crate::plugin::error::Error;

/// A page of a list; `managedFields` and everything else that `T` does not name is skipped.
#[derive(Deserialize)]
#[serde(bound(deserialize = "T: DeserializeOwned"))]
struct Page<T> {
    #[serde(default)]
    metadata: ListMeta,
    /// An empty list of metadata is written as `null`.
    items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
struct ListMeta {
    #[serde(rename = "continue", default)]
    token: String,
}

/// Something with a namespace and a name.
pub(crate) trait Keyed {
    /// Namespace and name: the identity of an object within its kind.
    fn key(&self) -> (&str, &str);
}

/// What became of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Read from end to end.
    Whole,
    /// The server had forgotten the start, so the list was read anew; no object was passed on twice.
    Restarted,
}

/// Reads a list page by page and hands each page to `each`.
///
/// # Errors
///
/// The first failed page. An expired continue token starts the list once from the beginning,
/// and objects already handed over are left out (cli.md §20).
pub(crate) async fn each_page<T: DeserializeOwned + Keyed>(
    server: &Arc<ApiServer>,
    request: &Request,
    query: &Query,
    form: Form,
    mut each: impl FnMut(Vec<T>),
) -> Result<Listed, Error> {
    let mut seen = HashSet::new();
    let mut listed = Listed::Whole;
    loop {
        let attempt = walk(server, request, query, form, |mut page: Vec<T>| {
            page.retain(|item| {
                let (namespace, name) = item.key();
                seen.insert((namespace.to_owned(), name.to_owned()))
            });
            each(page);
        });
        match attempt.await {
            Err(Error::Answer { code: 410, .. }) if listed == Listed::Whole => {
                listed = Listed::Restarted;
            }
            Err(error) => return Err(error),
            Ok(()) => return Ok(listed),
        }
    }
}

/// The whole list at once.
///
/// # Errors
///
/// As [`each_page`].
pub(crate) async fn list<T: DeserializeOwned + Keyed>(
    server: &Arc<ApiServer>,
    request: &Request,
    query: &Query,
    form: Form,
) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    each_page(server, request, query, form, |page| all.extend(page)).await?;
    Ok(all)
}

/// One way through the pages, each asked for as soon as its token is known.
async fn walk<T: DeserializeOwned>(
    server: &Arc<ApiServer>,
    request: &Request,
    query: &Query,
    form: Form,
    mut each: impl FnMut(Vec<T>),
) -> Result<(), Error> {
    let mut current = Some(ask(server, request, query.clone(), form));
    while let Some(Asked { token, body }) = current.take() {
        let upcoming = token.await.ok().flatten().map(|token| {
            let next = Query {
                token: Some(token),
                ..query.clone()
            };
            ask(server, request, next, form)
        });
        let body = body
            .await
            .map_err(|error| Error::Internal(error.to_string()))??;
        let page: Page<T> = decode(request, &body)?;
        current = upcoming.or_else(|| {
            // A token that the first bytes did not show is still in the whole.
            (!page.metadata.token.is_empty()).then(|| {
                let next = Query {
                    token: Some(page.metadata.token.clone()),
                    ..query.clone()
                };
                ask(server, request, next, form)
            })
        });
        each(page.items.unwrap_or_default());
    }
    Ok(())
}

/// A page on its way.
struct Asked {
    /// Sends the continue token as soon as it is known; `None` when this is the last page.
    token: oneshot::Receiver<Option<String>>,
    /// The whole body.
    body: tokio::task::JoinHandle<Result<Vec<u8>, Error>>,
}

fn ask(server: &Arc<ApiServer>, request: &Request, query: Query, form: Form) -> Asked {
    let (sender, token) = oneshot::channel();
    let (server, request) = (Arc::clone(server), request.clone());
    let body = tokio::spawn(async move {
        let mut sender = Some(sender);
        server
            .list_bytes(&request, &query, form, |arrived| {
                if let Some(found) = early_token(arrived)
                    && let Some(sender) = sender.take()
                {
                    // The reader of the token may be gone after an error.
                    let _ = sender.send(found);
                }
            })
            .await
    });
    Asked { token, body }
}

/// The continue token once the list's metadata has arrived: `Some(None)` when there is none.
fn early_token(arrived: &[u8]) -> Option<Option<String>> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        metadata: ListMeta,
    }
    const ITEMS: &[u8] = b",\"items\":[";
    // The head is a few hundred bytes; looking further would only cost time.
    let window = &arrived[..arrived.len().min(4096)];
    let at = window.windows(ITEMS.len()).position(|part| part == ITEMS)?;
    let mut head = window[..at].to_vec();
    head.push(b'}');
    let head: Head = serde_json::from_slice(&head).ok()?;
    Some(Some(head.metadata.token).filter(|token| !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::early_token;

    #[test]
    fn the_token_is_read_before_the_items_arrive() {
        let arrived = br#"{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"7","continue":"eyJ2","remainingItemCount":9},"items":[{"meta"#;
        assert_eq!(early_token(arrived), Some(Some("eyJ2".into())));
    }

    #[test]
    fn the_last_page_has_no_token() {
        let arrived = br#"{"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[]}"#;
        assert_eq!(early_token(arrived), Some(None));
    }

    #[test]
    fn a_head_that_has_not_arrived_says_nothing() {
        assert_eq!(
            early_token(br#"{"kind":"LeaseList","metadata":{"resou"#),
            None
        );
    }
}
